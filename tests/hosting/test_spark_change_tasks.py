"""The tasks of hosted joins of changes, without Spark: after every micro-batch, the join of the tables as they are."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, SchemaError, StateError
from juncture.hosting.buckets import Buckets
from juncture.hosting.changes import HostedChanges
from juncture.hosting.stored_rows import ValueSizes
from juncture.incremental.join import ChangeSetup
from strategies import examples
from support.change_hosting import LIMITS, ChangesHost, ChangingInTasks
from support.change_streams import LEFT as LEFT_CHANGES
from support.change_streams import RIGHT as RIGHT_CHANGES
from support.change_streams import epochs, said

EXAMPLES = {
    "asof": examples(spark=True, plain=True),
    **{kind: near_examples(kind, spark=True, plain=True) for kind in ("range", "overlap", "where", "equi")},
    **{f"{kind}, aggregated": near_examples(kind, agg=True, spark=True, plain=True) for kind in ("range", "overlap")},
}


@pytest.mark.parametrize("kind", EXAMPLES)
@settings(max_examples=4)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_types(kind, data, seed):
    example = data.draw(EXAMPLES[kind])
    sizes = ValueSizes(block_rows=2) if seed % 2 else None
    changing = ChangingInTasks(example.spec, example.left, example.right, random.Random(seed), epochs=4, sizes=sizes)
    try:
        for _ in changing.steps():
            pass
    except (DataError, SchemaError) as error:
        # Rows are compared by 64 bits, and have to be equal to themselves.
        assume(not any(each in str(error) for each in ("64 bits", "64-bit code", "cannot be compared")))
        raise


LEFT = pa.table({"k": pa.array([None, 0, 1, 1, None], pa.int8()), "on": [1, 2, 3, 4, 1]})
RIGHT = pa.table(
    {"k": pa.array([0, None, 1, None, 2], pa.int8()), "on": [2, 5, 3, 1, 4], "m": ["a", "b", "c", None, "a"]}
)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("spec", [jn.Asof(on="on", by="k"), jn.Equi(on="k"), jn.Equi(on=("k", "on"))], ids=str)
def test_each_how(spec, how, request):
    for seed in range(3 if request.config.getoption("--all") else 1):
        for _ in ChangingInTasks(replace(spec, how=how), LEFT, RIGHT, random.Random(seed), epochs=8).steps():
            pass


def host(spec: jn.Equi | jn.Asof, buckets: int = 2, **arguments: str) -> ChangesHost:
    return ChangesHost(ChangeSetup(spec, LEFT.schema, RIGHT.schema, **arguments), buckets, random.Random(0))


def weighted(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("_weight", pa.array([weight] * table.num_rows, pa.int64()))


def test_deletes_of_what_is_not_there():
    for choice in ("error", "count"):
        join = host(jn.Equi(on="k"), unmatched_deletes=choice)
        join.apply(left=LEFT, right=RIGHT.slice(0, 1))
        changes = {"left": weighted(LEFT.slice(0, 1), -3), "right": weighted(RIGHT.slice(0, 3), -1)}
        if choice == "error":
            with pytest.raises(DataError, match=r"delete a row that does not exist .* pass unmatched_deletes='count'"):
                join.apply(**changes)
            continue
        join.metrics.clear()
        join.apply(**changes)
        assert sum(each["left_unmatched_deletes"] for each in join.metrics) == 1
        assert sum(each["right_unmatched_deletes"] for each in join.metrics) == 2


def test_a_checkpoint_of_another_join():
    join = host(jn.Equi(on="k"))
    join.apply(left=LEFT, right=RIGHT)
    other = host(jn.Equi(on="k", how="left"))
    other.states = join.states
    with pytest.raises(StateError, match=r"another join: its spec is .*'on': 'k'\}, but this join has .*'how': 'left'"):
        other.apply(left=LEFT, right=RIGHT)
    more = host(jn.Equi(on="k"), buckets=3)
    more.states = join.states
    with pytest.raises(StateError, match=r"has 2 partitions, but this join was planned for 3. Set spark.sql"):
        more.apply(left=LEFT, right=RIGHT)


def test_what_a_micro_batch_writes():
    """One change of many rows writes its block, and not all that is held."""
    rows = pa.table({"k": pa.array([0] * 5_000, pa.int8()), "on": range(5_000)})
    join = host(jn.Equi(on=("k", "on")), buckets=1)
    join.apply(left=rows, right=RIGHT.slice(0, 0))
    [state] = join.states.values()
    table = state.states["tables"]
    assert table.bytes_written > 100_000
    table.bytes_written = 0
    join.apply(left=weighted(rows.slice(7, 1), -1), right=RIGHT.slice(0, 0))
    assert 0 < table.bytes_written < 10_000
    join.apply(left=weighted(rows.slice(8, 4_992), -1), right=RIGHT.slice(0, 0))
    join.apply(left=weighted(rows.slice(0, 7), -1), right=RIGHT.slice(0, 0))
    assert table.nbytes == 0


def test_rows_within_a_column_may_have_columns_that_the_join_does_not_need():
    changes, _ = epochs(RIGHT_CHANGES, random.Random(1), 1)
    spec = jn.Range(on="on", by="k", lower=-2, upper="far", agg={"end": "sum"})
    hosted = HostedChanges(ChangeSetup(spec, LEFT_CHANGES, RIGHT_CHANGES), LIMITS)
    table = said(changes[0], "debezium").select(["op", "before", "after"])
    packets = list(hosted.packets("right", [table], Buckets(hosted.join, 2)))
    assert sum(packet.rows.num_rows for packet in packets) == len(table)
    assert {tuple(packet.rows.column_names[:-1]) for packet in packets} == {("k", "on", "end")}
