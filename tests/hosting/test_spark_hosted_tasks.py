"""The tasks of hosted joins, without Spark: over all micro-batches, the join of all rows that came in time."""

from __future__ import annotations

import os
import random
import shutil

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, JunctureError
from juncture.hosting.buckets import labels
from juncture.hosting.stored_rows import ValueSizes
from juncture.streams.order import SideOrder
from juncture.streams.plan import Setup
from strategies import examples
from support.hosting import Host
from support.kinds import defined_rows
from support.streaming import cut
from support.streams import SIDES, arrange, order_values, picked
from support.tables import difference

ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)

EXAMPLES = {
    "asof": examples(spark=True, plain=True),
    **{kind: near_examples(kind, spark=True, plain=True) for kind in ("range", "overlap", "where", "equi")},
    **{f"{kind}, aggregated": near_examples(kind, agg=True, spark=True, plain=True) for kind in ("range", "overlap")},
}


DECODED = ValueSizes(decoded_rows=1)
"""Sizes with which the state of every bucket is kept decoded."""


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Give tasks the local folder of an executor."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return tmp_path


def an_order(rows: pa.Table, side: str, chance: random.Random) -> jn.Order | None:
    """Return an order by one of the columns that can have one."""
    names = [each.name for each in rows.schema if any(test(each.type) for test in ORDERED)]
    if not names:
        return None
    order = jn.Order(chance.choice(names), descending=chance.random() < 0.3)
    try:
        SideOrder.of(order, side, rows.schema)
    except JunctureError:
        return None
    return order


def in_time(pieces: list[pa.Table], side: str, order: jn.Order | None) -> pa.Table:
    """Return the rows that are not behind those of earlier micro-batches."""
    if order is None:
        return pa.concat_tables(pieces)
    kept, best = [], None
    for piece in pieces:
        found = order_values(piece, side, order.expression)
        late = [
            value is not None and best is not None and (value > best if order.descending else value < best)
            for value in found
        ]
        kept.append(picked(piece, [not each for each in late]))
        known = [value for value in [*found, best] if value is not None]
        best = (min if order.descending else max)(known, default=None)
    return pa.concat_tables(kept)


@pytest.mark.parametrize("kind", EXAMPLES)
# Each takes three micro-batches of several tasks.
@pytest.mark.one_in(2)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), has_faults=st.booleans())
def test_the_join_of_all_rows_in_time(kind, data, seed, has_faults, local):
    example = data.draw(EXAMPLES[kind])
    # Streams refuse what passes over the nearest rows.
    assume(not isinstance(example.spec, jn.Asof) or not (example.spec.available_at or example.spec.where))
    chance = random.Random(seed)
    tables, orders = [], []
    try:
        for side, rows in zip(SIDES, (example.left, example.right), strict=True):
            order = an_order(rows, side, chance)
            orders.append(order)
            tables.append(arrange(rows, side, order, chance, disorder=chance.choice([0, 3])) if order else rows)
        given_orders = [() if order is None else (order,) for order in orders]
        setup = Setup(example.spec, *(table.schema for table in tables), *given_orders, True, "count")
        pieces = [cut(table, chance, 3) for table in tables]
        host = Host(setup, chance.choice([1, 3]), chance, DECODED, local if has_faults else None)
        answer = [each for left, right in zip(*pieces, strict=True) for each in host.step(left=left, right=right)]
        answer += [pa.Table.from_batches([batch]) for batch in host.close()]
    except DataError as error:
        assume(not any(each in str(error) for each in ("64 bits", "64-bit code", "null or NaN in the order")))
        refused = "tie" in str(error)
        if not refused:
            raise
        answer = None
    kept = [in_time(*each) for each in zip(pieces, SIDES, orders, strict=True)]
    try:
        wanted = defined_rows(example.spec, *kept)
    except DataError:
        assert answer is None
        return
    assert answer is not None
    schema = example.spec.resolve(*setup_schemas(setup)).user_schema(*setup_schemas(setup))
    problem = difference(pa.concat_tables([schema.empty_table(), *answer]), wanted, ordered=False)
    assert problem is None, problem
    late = sum(table.num_rows for table in tables) - sum(table.num_rows for table in kept)
    assert sum(each["left_late_rows"] + each["right_late_rows"] for each in host.metrics) == late


def setup_schemas(setup: Setup) -> tuple[pa.Schema, pa.Schema]:
    return setup.left_schema, setup.right_schema


ROWS = pa.schema({"k": pa.string(), "ts": pa.int64()})


def a_host(buckets: int = 2, spec: jn.Asof | None = None, delay: int = 2, sizes: ValueSizes | None = None) -> Host:
    order = jn.Order("ts", delay=delay)
    spec = spec or jn.Asof(on="ts", by="k")
    return Host(Setup(spec, ROWS, ROWS, (order,), (order,), True, "count"), buckets, random.Random(1), sizes)


def rows(*cells: tuple[str | None, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"k": key, "ts": time} for key, time in cells], schema=ROWS)


def given_rows(host: Host, left: pa.Table, right: pa.Table) -> list[tuple[object, ...]]:
    found = [tuple(row.values()) for table in host.step(left=left, right=right) for row in table.to_pylist()]
    return sorted(found, key=str)


def test_buckets_without_rows_give_what_is_final():
    host = a_host(7, jn.Asof(on="ts", by="k", coalesce=False))
    assert given_rows(host, rows(("a", 5), ("b", 6)), rows(("a", 4), ("b", 5))) == []
    # Neither side has a row in the buckets of these two.
    assert given_rows(host, rows(), rows(("c", 8))) == [("a", 5, 4)]
    assert given_rows(host, rows(("c", 9)), rows((None, 20))) == [("b", 6, 5), ("c", 9, 8)]


def test_an_idle_side_makes_no_row_late():
    host = a_host()
    for time in range(0, 100, 10):
        assert given_rows(host, rows(("a", time)), rows()) == []
    found = given_rows(host, rows(), rows(*(("a", time) for time in range(0, 100, 10))))
    assert len(found) == 9
    assert {each["right_late_rows"] for each in host.metrics} == {0}


def test_rows_of_a_micro_batch_make_none_of_it_late():
    host = a_host(delay=0)
    given_rows(host, rows(), rows(("a", 50), ("a", 1), ("a", 30)))
    assert sum(each["right_late_rows"] for each in host.metrics) == 0
    given_rows(host, rows(), rows(("a", 49), ("a", 50)))
    assert sum(each["right_late_rows"] for each in host.metrics) == 1


def test_metrics():
    host = a_host(1)
    given_rows(host, rows(("a", 5), ("a", 3)), rows(("b", 4)))
    [told] = host.metrics
    counts = {"left_rows": 2, "left_state_rows": 2, "left_late_rows": 0}
    counts |= {"right_rows": 1, "right_state_rows": 1, "right_late_rows": 0, "output_rows": 0}
    assert counts.items() <= told.items()
    assert told["left_state_bytes"] > 0


def test_null_keys_that_are_equal():
    host = a_host(7, jn.Asof(on="ts", by="k", nulls_equal=True, coalesce=False))
    cells = [(key, time) for time in range(20) for key in (None, "a", "b")]
    found = given_rows(host, rows(*cells), rows(*cells)) + given_rows(host, rows(("c", 90)), rows(("c", 90)))
    assert len(found) == 60
    assert all(left == right for *_, left, right in found)


def test_another_number_of_partitions():
    host = a_host(2)
    given_rows(host, rows(("a", 5)), rows())
    host.buckets = 5
    with pytest.raises(jn.StateError, match=r"2 partitions, but this join was planned for 5. Set spark.sql.shuffle"):
        given_rows(host, rows(("a", 5)), rows())


def test_a_checkpoint_of_another_join():
    host = a_host()
    given_rows(host, rows(("a", 5)), rows())
    other = a_host(spec=jn.Asof(on="ts", by="k", tolerance=3))
    other.states = host.states
    with pytest.raises(jn.StateError, match=r"checkpoint of this query belongs to another join: its spec is"):
        given_rows(other, rows(("a", 5)), rows())


def test_a_damaged_state():
    host = a_host(1)
    given_rows(host, rows(("a", 5)), rows())
    [handle] = host.states.values()
    handle.states["tables"].values.clear()
    with pytest.raises(jn.StateError, match=r"is damaged: a part of the left rows is missing"):
        given_rows(host, rows(("a", 6)), rows())


def test_a_decoded_state_is_not_read_from_the_store(local):
    host = a_host(1, jn.Range(on="ts", by="k", lower=-1_000_000, upper=0, how="left"), sizes=DECODED)
    sizes = []
    for step in range(40):
        given_rows(host, times(step), rows(("a", 8)) if step % 5 == 4 else rows())
        [folder] = (local / "juncture-state").iterdir()
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
    [handle] = host.states.values()
    assert handle.states["tables"].reads == 0
    # Files whose arrays are no longer used are removed.
    assert sizes[-1] < 5 * sizes[9]
    shutil.rmtree(local / "juncture-state")
    assert len(given_rows(host, rows(), rows(("b", 8)))) == 4_000 // 4 - 2
    assert handle.states["tables"].reads > 0


def test_decoded_states_of_stopped_queries_are_removed(local):
    old = a_host(1, sizes=DECODED)
    given_rows(old, rows(("a", 5)), rows())
    [folder] = (local / "juncture-state").iterdir()
    os.utime(folder, (0, 0))
    given_rows(a_host(1, sizes=DECODED), rows(("a", 5)), rows())
    assert not folder.exists()
    assert given_rows(old, rows(), rows(("a", 4), (None, 9))) == [("a", 5)]


def test_a_full_disk_keeps_no_decoded_state(local, monkeypatch):
    usage = shutil.disk_usage(local)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000))
    host = a_host(1, sizes=DECODED)
    given_rows(host, times(0), times(0))
    assert list((local / "juncture-state").iterdir()) == []
    assert len(given_rows(host, times(1), times(1))) == 100


def test_state_in_parts():
    host = a_host(1, sizes=ValueSizes(part_bytes=100, block_rows=20))
    given_rows(host, rows(*(("a", time) for time in range(50))), rows(("a", 0)))
    [handle] = host.states.values()
    parts = handle.states["tables"].values
    assert max(len(part[0]) for part in parts.values()) == 100
    many = len(parts)
    assert len(given_rows(host, rows(), rows((None, 60)))) == 50
    assert len(parts) < many


def times(step: int) -> pa.Table:
    """Return the rows of one micro-batch."""
    return rows(*(("abcd"[time % 4], time) for time in range(100 * step, 100 * step + 100)))


def test_what_is_written_goes_by_what_changes():
    host = a_host(1, jn.Range(on="ts", by="k", lower=-1_000_000, upper=0, how="left"))
    for step in range(48):
        assert given_rows(host, times(step), rows()) == []
    [handle] = host.states.values()
    held = handle.states["tables"]
    assert host.metrics[-1]["left_state_rows"] == 4_800
    # Segments are merged by four: each row is written a few times, instead of with each micro-batch.
    assert held.bytes_written < 6 * held.nbytes
    written = held.bytes_written
    # One right row matches a quarter of the rows that wait: marks change, and no row is written anew.
    assert len(given_rows(host, rows(), rows(("a", 8)))) > 1_000
    assert 0 < held.bytes_written - written < held.nbytes / 20


@pytest.mark.parametrize("spec", [jn.Asof(on="ts", by="k", how="full"), jn.Range(on="ts", by="k", lower=-5, upper=5)])
def test_a_state_that_is_flat(spec):
    host = a_host(1, spec)
    sizes = []
    for step in range(40):
        given_rows(host, times(step), times(step))
        [handle] = host.states.values()
        sizes.append((len(handle.states["tables"].values), handle.states["tables"].nbytes))
    assert max(sizes[20:]) <= max(sizes[4:20])
    assert host.metrics[-1]["left_state_rows"] < 20


def test_a_state_of_another_version():
    host = a_host(1)
    given_rows(host, rows(("a", 5)), rows())
    [handle] = host.states.values()
    handle.states["progress"].update(('{"buckets": 1, "tables": {}}',))
    with pytest.raises(jn.StateError, match=r"written by another version of Juncture. Start the query with that"):
        given_rows(host, rows(("a", 6)), rows())


def test_a_row_without_a_place_in_the_order():
    setup = Setup(jn.Equi(on="k"), ROWS, ROWS, (jn.Order("ts"),), (jn.Order("ts"),), True, "count")
    with pytest.raises(jn.DataError, match=r"null or NaN in the order 'ts'"):
        given_rows(Host(setup, 2, random.Random(1)), rows(("a", None)), rows())


def test_a_number_per_bucket_that_spark_places_apart():
    assert labels(3) == [0, 1, 11]
