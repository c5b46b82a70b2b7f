"""When rows of joins of streams come, what is held meanwhile, and what is said of it."""

from __future__ import annotations

import json
import random
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SchemaError
from juncture.streams.checkpoint import Snapshot, from_ipc, to_ipc
from juncture.streams.join import StreamJoin
from juncture.streams.plan import Setup, StreamPlan
from support.kinds import defined_rows
from support.tables import difference, read_table

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int64()})
RIGHT = pa.schema({"k": pa.int64(), "b": pa.int64()})
BAND = "l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10"


def band(how="inner", predicate=BAND, **arguments) -> jn.StreamJoin:
    orders = {"left_order": jn.Order("a"), "right_order": jn.Order("b")} | arguments
    return jn.stream(SCHEMA, RIGHT, jn.Where(predicate, how=how), **orders)


def left(*rows) -> pa.RecordBatch:
    return pa.record_batch({"k": [row[0] for row in rows], "a": [row[1] for row in rows]}, schema=SCHEMA)


def right(*rows) -> pa.RecordBatch:
    return pa.record_batch({"k": [row[0] for row in rows], "b": [row[1] for row in rows]}, schema=RIGHT)


def rows(batches: list[pa.RecordBatch]) -> list[tuple]:
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=str)


def test_matches_come_at_once():
    join = band()
    assert rows(join.push(left=left((1, 5)))) == []
    assert rows(join.push(right=right((1, 5), (2, 5)))) == [(1, 5, 1, 5)]
    assert rows(join.push(left=left((2, 6)))) == [(2, 6, 2, 5)]


def test_both_sides_may_be_pushed_in_one_call():
    assert rows(band().push(left=left((1, 5)), right=right((1, 5)))) == [(1, 5, 1, 5)]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("left", [(1, 5, None, None)]),
        ("full", [(1, 5, None, None)]),
        ("anti", [(1, 5)]),
        ("inner", []),
        ("right", []),
        ("semi", []),
    ],
)
def test_unmatched_rows_come_as_soon_as_they_expire(how, wanted):
    join = band(how)
    assert rows(join.push(left=left((1, 5)))) == []
    assert rows(join.push(right=right((2, 7)))) == []
    assert rows(join.push(right=right((2, 8)))) == wanted
    assert join.state.left == type(join.state.left)(rows=0, bytes=0, evicted_rows=1, late_rows=0)


def test_rows_that_match_nothing_at_all_come_at_once():
    join = band("full")
    assert rows(join.push(left=left((None, 5)))) == [(None, 5, None, None)]
    assert rows(join.push(right=right((1, None)))) == [(None, None, 1, None)]
    assert (join.state.left.rows, join.state.right.rows) == (0, 0)


def test_rows_behind_the_other_side_are_not_held():
    join = band("left")
    join.push(right=right((1, 100)))
    assert rows(join.push(left=left((1, 3), (1, 50), (1, 99)))) == [
        (1, 3, None, None),
        (1, 50, None, None),
        (1, 99, 1, 100),
    ]
    assert join.state.left.rows == 1


def test_a_semi_join_gives_a_row_at_its_first_match_and_forgets_it():
    join = band("semi")
    join.push(left=left((1, 5), (1, 6)))
    assert rows(join.push(right=right((1, 6)))) == [(1, 5), (1, 6)]
    assert rows(join.push(right=right((1, 6)))) == []
    assert join.state.left.rows == 0


def test_an_advance_stands_for_rows_that_do_not_come():
    join = band("left")
    join.push(left=left((1, 5), (1, 9)))
    assert rows(join.advance(right=8)) == [(1, 5, None, None)]
    assert rows(join.advance(right=7)) == []
    assert rows(join.push(right=right((1, 7)))) == []
    assert join.state.right.late_rows == 1
    assert rows(join.close()) == [(1, 9, None, None)]


def test_an_order_that_falls():
    orders = (("left_order", "a"), ("right_order", "b"))
    falling = {side: jn.Order(name, delay=1, descending=True) for side, name in orders}
    join = band("left", **falling)
    join.push(left=left((1, 50), (1, 49)))
    assert rows(join.push(right=right((1, 41)))) == [(1, 49, 1, 41), (1, 50, 1, 41)]
    assert join.state.left.rows == 2
    assert rows(join.push(right=right((1, 39)))) == []
    # A right row of 40 may still come.
    assert join.state.left.rows == 1
    assert "left rows are kept while a < b + 10" in join.explain()


def test_several_orders_of_one_side():
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "ts": pa.timestamp("s")})
    predicate = "l.a > r.b - 3 AND l.a < r.b + 10"
    join = jn.stream(
        schema,
        RIGHT,
        jn.Where(predicate),
        left_order=[jn.Order("ts", delay="1s"), jn.Order("a")],
        right_order=jn.Order("b"),
        late="collect",
    )
    rows_in = [(1, 5, 10), (1, 6, 9), (1, 7, 8), (1, 6, 10)]
    table = pa.table(
        {
            "k": [row[0] for row in rows_in],
            "a": [row[1] for row in rows_in],
            "ts": pa.array([row[2] for row in rows_in], pa.timestamp("s")),
        }
    )
    join.push(left=table)
    # One is two seconds behind, the other behind in the second order.
    assert join.late.left["a"].to_pylist() == [7, 6]
    assert (join.state.left.rows, join.state.left.late_rows) == (2, 2)
    join.advance(left=[None, 20])
    assert rows(join.push(left=table.slice(0, 1))) == []
    assert join.state.left.late_rows == 3


def test_late_rows_are_judged_one_by_one():
    for cuts in ([5], [1, 1, 1, 1, 1], [2, 3]):
        join = band(left_order=jn.Order("a", delay=2), late="collect")
        values, first = [5, 9, 6, 7, 8], 0
        for count in cuts:
            join.push(left=left(*((1, value) for value in values[first : first + count])))
            first += count
        assert join.late.left["a"].to_pylist() == [6]


def test_the_answer_does_not_get_lost_in_an_error(tmp_path):
    join = band("left", late="error")
    join.push(right=right((1, 100)))
    with pytest.raises(DataError):
        join.push(left=pa.Table.from_batches([left((1, 3)), left((1, 1))]))
    join.save(tmp_path / "state")
    for each in (join, jn.StreamJoin.restore(tmp_path / "state")):
        assert rows(each.push(left=left((1, 99)))) == [(1, 3, None, None), (1, 99, 1, 100)]


@pytest.mark.parametrize(
    "other",
    [
        SCHEMA.set(1, SCHEMA.field("a").with_nullable(False)),
        pa.schema([SCHEMA.field("a"), SCHEMA.field("k")]),
        SCHEMA.with_metadata({"of": "another source"}).set(0, SCHEMA.field("k").with_metadata({"unit": "m"})),
    ],
    ids=["nullability", "order", "metadata"],
)
def test_batches_that_say_the_same_otherwise(other, tmp_path):
    join = band("left", late="collect")
    for batch in (left((1, 4), (2, 9)), left((3, 1), (1, 9)), left((3, 2), (2, 10))):
        columns = [batch.column(name) for name in other.names]
        join.push(left=pa.record_batch(columns, schema=other))
        join.push(left=batch.slice(0, 0))
    assert join.late.left == pa.Table.from_batches([left((3, 1)), left((3, 2))])
    assert join.late.left.schema.equals(SCHEMA, check_metadata=True)
    join.save(tmp_path / "state")
    again = jn.StreamJoin.restore(tmp_path / "state")
    assert again.late.left == join.late.left
    found = again.push(right=right((1, 20)))
    assert rows(found) == [(1, 4, None, None), (1, 9, None, None), (2, 10, None, None), (2, 9, None, None)]
    assert all(batch.schema == join.schema for batch in found)


def test_two_readers():
    chance = random.Random(1)
    tables = []
    for name in ("a", "b"):
        places = sorted(chance.randrange(3_000) for _ in range(2_000))
        keys = [chance.randrange(5) for _ in places]
        tables.append(pa.table({"k": keys, name: places}))
    spec = jn.Where(BAND, how="full")
    join = jn.stream(SCHEMA, RIGHT, spec, left_order=jn.Order("a"), right_order=jn.Order("b"))
    most, found = 0, []
    for batch in join.run(tables[0].to_batches(50), tables[1].to_reader(70), rows_at_once=1):
        found.append(batch)
        most = max(most, join.state.left.rows + join.state.right.rows)
    assert difference(pa.Table.from_batches(found, join.schema), defined_rows(spec, *tables), ordered=False) is None
    assert most < 300
    again = jn.stream(SCHEMA, RIGHT, spec, left_order=jn.Order("a"), right_order=jn.Order("b"))
    gathered = list(again.run(tables[0].to_batches(50), tables[1].to_reader(70)))
    assert len(gathered) < len(found)
    assert difference(pa.Table.from_batches(gathered), defined_rows(spec, *tables), ordered=False) is None


def test_a_reader_that_has_no_rows_at_the_moment_lets_the_other_go_on():
    asked = []

    def trickle(side, batches):
        for batch in batches:
            asked.append((side, batch.num_rows))
            yield batch

    none = left().slice(0)
    lefts = trickle("left", [left((1, 1)), none, none, left((1, 9))])
    rights = trickle("right", [right((1, 5)), right((1, 8)), right((1, 10))])
    found = rows(list(band("left").run(lefts, rights)))
    assert found == [(1, 1, None, None), (1, 9, 1, 10), (1, 9, 1, 5), (1, 9, 1, 8)]
    assert asked[:3] == [("left", 1), ("left", 0), ("right", 1)]
    with pytest.raises(SchemaError, match=r"Column 'k' .*missing from"):
        list(band().run([left((1, 1)), left((1, 2)).select(["a"])], []))


def test_an_advance_of_both_sides_flushes_all_that_is_behind():
    join = band("full")
    assert rows(join.push(left=left((1, 20)), right=right((2, 20)))) == []
    # Right rows are kept while b > a - 10, left ones while a > b - 3.
    assert rows(join.advance(left=25, right=23)) == [(1, 20, None, None)]
    assert rows(join.advance(left=30)) == [(None, None, 2, 20)]
    # What comes behind an advance is late, and the end gives what is left.
    assert rows(join.push(left=left((1, 29), (1, 31)))) == []
    assert join.state.left.late_rows == 1
    assert rows(join.close()) == [(1, 31, None, None)]


def test_the_state_stays_flat_and_keys_are_forgotten():
    join = jn.stream(
        SCHEMA, RIGHT, jn.Where(BAND, how="left"), left_order=jn.Order("a", delay=3), right_order=jn.Order("b", delay=3)
    )
    sizes, given = [], 0
    for step in range(60):
        places = np.arange(step * 1_000, (step + 1) * 1_000)
        # Each key comes but for a while.
        given += sum(batch.num_rows for batch in join.push(left=pa.record_batch({"k": places // 7, "a": places})))
        given += sum(batch.num_rows for batch in join.push(right=pa.record_batch({"k": places // 7, "b": places})))
        sizes.append((join.state.left.rows, join.state.right.rows, join.state.left.bytes + join.state.right.bytes))
    assert len(set(sizes[10:])) <= 4
    assert max(size[0] + size[1] for size in sizes) < 1_100
    assert max(size[2] for size in sizes[30:]) <= max(size[2] for size in sizes[:30]) * 1.1
    assert given > 60_000


def test_asof_matches_are_final():
    schema = pa.schema({"id": pa.string(), "ts": pa.timestamp("ms")})
    other = pa.schema({"id": pa.string(), "ts": pa.timestamp("us"), "v": pa.float64()})
    join = jn.stream(
        schema,
        other,
        jn.Asof(on="ts", by="id"),
        left_order=jn.Order("ts"),
        right_order=jn.Order("ts", delay=timedelta(seconds=2)),
    )
    frames = read_table("id: string | ts: timestamp[ms]\nx | 2024-01-01 00:00:05\ny | 2024-01-01 00:00:05")
    assert join.push(left=frames) == []
    readings = "id: string | ts: timestamp[us] | v: float64\n"
    assert join.push(right=read_table(readings + "x | 2024-01-01 00:00:01 | 1.0\nx | 2024-01-01 00:00:06 | 9.0")) == []
    # A better match may come, as long as it is not later than the delay.
    assert join.push(right=read_table(readings + "x | 2024-01-01 00:00:05 | 2.0")) == []
    assert join.push(right=read_table(readings + "z | 2024-01-01 00:00:07 | 3.0")) == []
    [batch] = join.push(right=read_table(readings + "z | 2024-01-01 00:00:08 | 3.0"))
    assert batch.schema.names == ["id", "ts", "v"]
    assert sorted(row["v"] or 0 for row in batch.to_pylist()) == [0, 2.0]
    assert join.state.left.rows == 0
    # The last reading of each, and what is ahead of the frames.
    assert join.state.right.rows == 4
    assert "left rows are kept while ts >= the right ts" in join.explain()
    assert "and the last before of each id" in join.explain()


def test_aggregates_are_given_once_their_window_is_complete():
    spec = jn.Range(left_on="a", right_on="b", by="k", lower=-2, upper=2, agg={"b": "max", "*": "count"})
    join = jn.stream(SCHEMA, RIGHT, spec, left_order=jn.Order("a"), right_order=jn.Order("b"))
    join.push(right=right((1, 1), (1, 4), (1, 5)))
    assert rows(join.push(left=left((1, 3), (1, 4)))) == []
    assert rows(join.push(right=right((1, 6)))) == [(1, 3, 5, 3)]
    assert rows(join.push(right=right((1, 7)))) == [(1, 4, 6, 3)]
    assert "emitted: left rows once no future row can be in their window" in join.explain()


EXPLAINED = [
    (jn.Where("l.a > r.b - 3"), ["left rows are kept while a > b - 3"]),
    (jn.Where(BAND), ["left rows are kept while a > b - 3", "right rows are kept while b > a - 10"]),
    (
        jn.Where("l.k = r.k AND abs(l.a - r.b) <= 2"),
        ["left rows are kept while a >= b - 2", "right rows are kept while b >= a - 2"],
    ),
    (
        jn.Equi(left_on=("k", "a"), right_on=("k", "b")),
        ["left rows are kept while a >= b", "right rows are kept while b >= a"],
    ),
    (
        jn.Range(left_on="a", right_on="b", lower=-5, upper=2),
        ["left rows are kept while a >= b - 2", "right rows are kept while b >= a - 5"],
    ),
    (jn.Overlap(left_interval=("k", "a"), right_interval=("b", "k")), ["left rows are kept while a > b"]),
    (
        jn.Where("(l.a > r.b - 3 AND l.k = 1) OR l.a > r.b - 6"),
        [
            "left rows are kept while (a is above a limit derived from b and k = 1)",
            " or (a is above a limit derived from b)",
        ],
    ),
]


@pytest.mark.parametrize(("spec", "lines"), EXPLAINED)
def test_what_bounds_the_state_is_said(spec, lines):
    text = jn.stream(
        SCHEMA, RIGHT, spec, left_order=jn.Order("a"), right_order=jn.Order("b"), allow_unbounded=True
    ).explain()
    for line in lines:
        assert line in text


def test_how_many_rows_are_held_at_a_rate():
    join = band(left_order=jn.Order("a", delay=5), right_order=jn.Order("b", delay=2))
    text = join.explain(left_rate=100, right_rate=10)
    # Left rows from three behind the right order on, and two more of its delay.
    assert "about 500 rows at 100 per step" in text
    assert "about 150 rows at 10 per step" in text


def test_a_state_is_replaced_as_a_whole(tmp_path):
    join = band("left")
    join.push(left=left((1, 5)))
    join.save(tmp_path / "state")
    join.push(left=left((1, 6)))
    join.save(tmp_path / "state")
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    again = jn.StreamJoin.restore(tmp_path / "state", expected=join)
    assert again.state == join.state
    assert rows(again.close()) == rows(join.close()) == [(1, 5, None, None), (1, 6, None, None)]
    # The process ended while the old one was being replaced.
    (tmp_path / "state").rename(tmp_path / ".state.old")
    assert jn.StreamJoin.restore(tmp_path / "state").state.left.rows == 2


@pytest.mark.parametrize(
    "spec",
    [
        jn.Where("l.k = r.k AND l.a > r.a - 3 AND l.a < r.a + 10", how="full"),
        jn.Range(on="a", by="k", lower=-3, upper=3, agg={"a": "max"}),
        jn.Asof(on="a", by="k", how="full"),
    ],
    ids=["pairs", "aggregates", "asof"],
)
def test_many_states_of_one_plan(spec):
    """A join for each key, each made anew for each of its batches, gives what one join of all keys gives."""
    setup = Setup(spec, SCHEMA, SCHEMA, (jn.Order("a", delay=2),), (jn.Order("a"),), False, "count")
    plan, states, found, chance = StreamPlan(setup), {}, [], random.Random(5)
    one = StreamJoin(plan)
    wanted = []
    for step in range(40):
        side, key = chance.choice(["left", "right"]), chance.randrange(3)
        batch = left(*((key, step + chance.randrange(2)) for _ in range(3))).sort_by("a")
        join = StreamJoin.of(plan, states[key]) if key in states else StreamJoin(plan)
        found += join.push(**{side: batch})
        state = join.snapshot()
        tables = {name: from_ipc(to_ipc(table)) for name, table in state.tables.items()}
        states[key] = Snapshot(state.setup, json.loads(json.dumps(state.progress)), tables)
        wanted += one.push(**{side: batch})
    found += [batch for state in states.values() for batch in StreamJoin.of(plan, state).close()]
    assert rows(found) == rows(wanted + one.close())


def test_a_tie_that_is_an_error_is_one_of_the_state_that_goes_on(tmp_path):
    join = jn.stream(SCHEMA, SCHEMA, jn.Asof(on="a", ties="error"), left_order=jn.Order("a"), right_order=jn.Order("a"))
    join.push(left=left((1, 5)), right=left((1, 4), (2, 4)))
    with pytest.raises(DataError, match="tie"):
        join.push(right=left((1, 6)))
    join.save(tmp_path / "state")
    with pytest.raises(PlanError, match="has ended"):
        jn.StreamJoin.restore(tmp_path / "state").close()


def test_a_saved_join_keeps_what_has_matched(tmp_path):
    join = band("left")
    join.push(left=left((1, 5), (1, 6)), right=right((1, 3)))
    join.push(right=right((2, 6)))
    join.save(tmp_path / "state")
    assert rows(jn.StreamJoin.restore(tmp_path / "state").close()) == []


def test_late_rows_are_saved_in_whatever_encoding(tmp_path):
    schema = pa.schema({"a": pa.int64(), "name": pa.dictionary(pa.int8(), pa.string())})
    join = jn.stream(
        schema, RIGHT, jn.Where("l.a = r.b"), left_order=jn.Order("a"), right_order=jn.Order("b"), late="collect"
    )
    for place, name in ((9, "x"), (1, "y"), (2, "z")):
        join.push(
            left=pa.record_batch(
                [[place], pa.array([name]).dictionary_encode().cast(schema.field(1).type)], schema=schema
            )
        )
    join.save(tmp_path / "state")
    late = jn.StreamJoin.restore(tmp_path / "state").late.left
    assert late.schema == schema
    assert late.to_pylist() == [{"a": 1, "name": "y"}, {"a": 2, "name": "z"}]


FAR = 1 << 60


@pytest.mark.parametrize("first", [0, FAR - 4, -FAR - 4, 2**63 - 9, -(2**63)], ids=str)
@pytest.mark.parametrize("data_type", [pa.int64(), pa.timestamp("us", "UTC")], ids=str)
@pytest.mark.parametrize("with_null", [False, True], ids=["all there", "one null"])
def test_values_are_compared_exactly_however_far_they_are(first, data_type, with_null):
    far = pa.array([first + step for step in range(9)])
    near = pa.array([first + step if step < 8 or not with_null else None for step in range(9)])
    left, right = (pa.table({"k": [0, 1, 1, 0, 0, 1, 0, 1, 0], "t": each.cast(data_type)}) for each in (far, near))
    unit = "" if data_type == pa.int64() else "us"
    lower, upper, delay = (f"{step}{unit}" if unit else step for step in (-3, 2, 9))
    spec = jn.Range(on="t", by="k", lower=lower, upper=upper, how="full")
    order = jn.Order("t", delay=delay)
    join = jn.stream(left.schema, right.schema, spec, left_order=order, right_order=order)
    found = [*join.push(left=left.slice(0, 5)), *join.push(right=right), *join.push(left=left.slice(5)), *join.close()]
    # Python has no times as far as these.
    answer, wanted = (
        pa.table([column.cast(pa.int64()) for column in table.columns], names=table.schema.names)
        for table in (pa.Table.from_batches(found, join.schema), jn.plan(left, right, spec).execute())
    )
    assert difference(answer, wanted, ordered=False) is None


def test_a_rounded_distance_equal_to_the_tolerance_matches():
    schema = pa.schema({"t": pa.float64()})
    falling = jn.Order("t", descending=True)
    join = jn.stream(
        schema,
        schema,
        jn.Asof(left_on="t", right_on="t", tolerance=1.0, direction="forward"),
        left_order=falling,
        right_order=falling,
    )
    # As floats, 1 + 1e-20 is 1.
    found = join.push(left=pa.record_batch([[2.0]], schema=schema), right=pa.record_batch([[1.0]], schema=schema))
    for value in (-1e-22, -1e-20):
        found += join.push(left=pa.record_batch([[value]], schema=schema))
    assert rows(found + join.close()) == [(-1e-20, 1.0), (-1e-22, 1.0), (2.0, None)]


@pytest.mark.parametrize(
    ("direction", "left_value", "right_value"),
    [("forward", -(2**63), 2**63 - 1), ("backward", 2**63 - 1, -(2**63)), ("nearest", 2**63 - 1, -(2**63))],
)
def test_a_tolerance_may_exceed_the_range_of_integers(direction, left_value, right_value):
    schema = pa.schema({"t": pa.int64()})
    spec = jn.Asof(left_on="t", right_on="t", tolerance=2**64, direction=direction)
    join = jn.stream(schema, schema, spec, left_order=jn.Order("t"), right_order=jn.Order("t"))
    found = join.push(right=pa.record_batch([[right_value]], schema=schema))
    found += join.push(left=pa.record_batch([[left_value]], schema=schema))
    assert rows(found + join.close()) == [(left_value, right_value)]
