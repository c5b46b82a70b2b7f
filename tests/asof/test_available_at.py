"""As-of joins of right rows that were available at the left row's time."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from juncture import testing as reference
from juncture.errors import DataError, PlanError, SchemaError, SpecError
from juncture.kernels import asof_available as kernels
from juncture.local.output.pairs import MaxTree
from juncture.runtime.context import join_context
from strategies import examples
from support.engines import LOCAL
from support.inputs import pass_as
from support.small import plan_in_pieces
from support.tables import difference


def tables(chance: np.random.Generator, rows: tuple[int, int], keys: int, span: int) -> tuple[pa.Table, pa.Table]:
    """Return a left and a right table; right rows come later than they are, and are corrected."""
    left, right = (
        {"ts": chance.integers(0, span, count), "k": chance.integers(0, keys, count), "row": np.arange(count)}
        for count in rows
    )
    left["seen"] = left["ts"] + chance.integers(-span // 4, span // 2, rows[0])
    right["ingested"] = right["ts"] + chance.integers(-span // 4, span // 2, rows[1])
    return pa.table(left), pa.table(right)


IN_DUCKDB = """
    SELECT l.*, r.row AS row_right
    FROM l LEFT JOIN r ON l.k = r.k AND r.ingested <= l.seen AND {on}
    QUALIFY row_number() OVER (PARTITION BY l.row ORDER BY {by}, r.ingested DESC, r.row DESC) = 1
    ORDER BY l.row
"""
WAYS = {
    "backward": ("r.ts <= l.ts", "r.ts DESC"),
    "forward": ("r.ts >= l.ts", "r.ts"),
    "nearest": ("TRUE", "abs(r.ts - l.ts), r.ts"),
}


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize(("keys", "span"), [(1, 50), (3, 10**6), (200, 10**3)])
def test_duckdb(direction, keys, span, algorithm):
    left, right = tables(np.random.default_rng(span), (400, 1_500), keys, span)
    on, by = WAYS[direction]
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        expected = connection.sql(IN_DUCKDB.format(on=on, by=by)).to_arrow_table()
    known = ("ingested", "seen")
    ours = jn.join_asof(left, right, on="ts", by="k", direction=direction, available_at=known, algorithm=algorithm)
    assert ours["row_right"].to_pylist() == expected["row_right"].to_pylist()


@given(example=examples(), seed=st.integers(0, 2**32 - 1), memory_bytes=st.sampled_from([1, 1_000, 2_000, 1 << 30]))
def test_right_rows_that_come_in_several_batches(example, seed, memory_bytes, tmp_path_factory):
    assume(example.spec.available_at is not None or example.spec.where is not None)
    right = pass_as("file", example.right, tmp_path_factory.mktemp("inputs") / "right", random.Random(seed))
    # A right row takes 96 bytes of a quarter of the memory.
    plan = plan_in_pieces(example.left, right, example.spec, algorithm="probe", memory_bytes=memory_bytes)
    try:
        expected = reference.asof_join(example.resolve(), example.left, example.right)
    except DataError:
        with pytest.raises(DataError):
            plan.execute()
        return
    answer = plan.execute()
    is_ordered = example.spec.how not in ("right", "full")
    assert difference(answer, expected, ordered=is_ordered) is None


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 15, 16, 17, 300, 5_000]), st.booleans())
def test_the_nearest_known_row_is_found(seed, rows, forward):
    chance = np.random.default_rng(seed)
    codes = chance.integers(0, 40, rows) if seed % 2 else chance.integers(0, 10**6, rows)
    with join_context(threads=1) as context:
        tree = MaxTree(~codes.astype(np.int64), context)
    slots = np.sort(chance.integers(-1, rows + 1, 50))
    seen = chance.integers(-1, codes.max() + 2, 50)
    best = np.full((50, 3, kernels.WORDS), -1, np.int64)
    numbers, starts = np.arange(rows), np.array([0, rows], np.int64)
    ends = np.arange(1, rows + 1, dtype=np.int32)
    kernels.find_available(
        slots, seen, np.array([0, 50], np.int64), 0, 50, 0, numbers, starts, numbers, ends, tree.values, tree.levels,
        forward, False, best,
    )  # fmt: skip
    for slot, sees, places in zip(slots, seen, best, strict=True):
        near = [row for row in range(rows) if codes[row] <= sees and (row >= slot if forward else row <= slot)]
        near = sorted(near, reverse=not forward)[:3]
        assert [place[kernels.POINTER] for place in places if place[kernels.POINTER] >= 0] == near


@pytest.mark.parametrize("algorithm", LOCAL)
def test_many_corrections_of_one_row(algorithm):
    chance = np.random.default_rng(0)
    corrections, rows = 200_000, 50_000
    # Known in the order in which they are not: were they looked at one by one, this would take hours.
    ingested = np.arange(corrections)[::-1]
    right = pa.table({"ts": np.repeat([1, 2], corrections // 2), "ingested": ingested, "row": np.arange(corrections)})
    seen = chance.integers(0, corrections, rows)
    left = pa.table({"ts": np.full(rows, 9), "seen": seen})
    ours = jn.join_asof(left, right, on="ts", available_at=("ingested", "seen"), algorithm=algorithm)
    # What is at 2 is known before anything at 1 is.
    best = np.minimum(seen, corrections // 2 - 1)
    assert np.array_equal(ours["row"].to_numpy(), corrections - 1 - best)


@pytest.mark.parametrize(
    ("known", "error", "said"),
    [
        (("a", "b", "c"), SpecError, r"names 3 columns. Expected the right column"),
        (5, SpecError, r"available_at=5 \(int\) is not a column name"),
        (("ingested", 5), SpecError, r"available_at= contains 5 \(int\)"),
        (("at", "seen"), SchemaError, r"available_at='at' is not a column of the right table"),
        (("ingested", "at"), SchemaError, r"available_at='at' is not a column of the left table"),
        (("name", "seen"), SchemaError, r"available_at= compares left 'seen' \(int64\) with right 'name' \(string\)"),
        (
            ("is_new", "seen"),
            SchemaError,
            r"right available_at column 'is_new' is of type bool, which this join cannot order by",
        ),
    ],
)
def test_columns_that_say_nothing_of_time(known, error, said):
    left = pa.schema({"ts": pa.int64(), "seen": pa.int64()})
    right = pa.schema({"ts": pa.int64(), "ingested": pa.int64(), "name": pa.string(), "is_new": pa.bool_()})
    with pytest.raises(error, match=said):
        jn.Asof(on="ts", available_at=known).resolve(left, right)


def test_a_spec_comes_back_from_plain_data():
    spec = jn.Asof(on="ts", available_at=("ingested", "seen"))
    assert jn.Asof.from_dict(spec.to_dict()) == spec


def test_explain_says_what_is_known():
    table = pa.table({"ts": [1], "seen": [1]})
    text = str(jn.plan(table, table, jn.Asof(on="ts", available_at=("seen", "ts"))).explain())
    assert "of those available by its ts (right seen)" in " ".join(text.split())


def test_streams_refuse_it():
    schema = pa.schema({"ts": pa.int64(), "seen": pa.int64()})
    with pytest.raises(PlanError, match="available_at='seen' is not supported"):
        jn.stream(
            schema, schema, jn.Asof(on="ts", available_at="seen"), left_order=jn.Order("ts"), right_order=jn.Order("ts")
        )


@pytest.mark.in_turn
def test_without_a_key_one_task_joins_all_on_spark(spark):
    left, right = tables(np.random.default_rng(5), (50, 200), 3, 90)
    frames = [spark.createDataFrame(table.to_pandas()) for table in (left, right)]
    spec = jn.Asof(on="ts", available_at=("ingested", "seen"), how="full")
    expected = reference.asof_join(spec.resolve(left.schema, right.schema), left, right)
    answer = jn.plan(*frames, spec).execute().toArrow()
    assert difference(answer, expected, ordered=False) is None
    for algorithm in ("range", "window"):
        with pytest.raises(PlanError, match="the nearest row may not be available yet"):
            jn.plan(*frames, spec, algorithm=algorithm)
