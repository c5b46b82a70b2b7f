"""Other libraries as second oracles, where they mean the same: no two right rows at one on, and no nulls for some."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from support.engines import SPARK, to_spark
from support.tables import difference

ON_TYPES = [pa.int64(), pa.int32(), pa.float64(), pa.timestamp("us"), pa.timestamp("ns"), pa.date32()]
BY_TYPES = [pa.string(), pa.int64(), pa.int16()]


def side(
    chance: np.random.Generator,
    rows: int,
    on: pa.DataType,
    by: pa.DataType,
    *,
    keys: int,
    span: int,
    step: int = 1,
    offset: int = 0,
) -> pa.Table:
    """Return a table of random keys and times in no order, numbered by a column."""
    numbers = pa.array(chance.integers(0, keys, rows))
    steps = pa.array(step * chance.integers(-span, span, rows) + offset)
    if pa.types.is_floating(on):
        times = pc.divide(steps.cast(on), 4.0)
    else:
        storage = pa.int32() if on.bit_width == 32 else pa.int64()
        times = steps.cast(storage).cast(on)
    return pa.table({"ts": times, "k": numbers.cast(pa.string()).cast(by), "row": pa.array(range(rows), pa.int64())})


def without_ties(right: pa.Table) -> pa.Table:
    first = right.group_by(["ts", "k"]).aggregate([("row", "min")])["row_min"]
    return right.filter(pc.is_in(right["row"], first.combine_chunks()))


@st.composite
def tables(draw: st.DrawFn, *, apart: bool = False) -> tuple[pa.Table, pa.Table]:
    """Return a left and a right table; with ``apart`` no left row is as far from one right row as from another.

    Left times are even then, and right ones one more than a multiple of four: two of those have no even middle.
    """
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    on, by = draw(st.sampled_from(ON_TYPES)), draw(st.sampled_from(BY_TYPES))
    size = {"keys": draw(st.sampled_from([1, 3, 50])), "span": draw(st.sampled_from([5, 100, 10_000]))}
    left = side(chance, draw(st.integers(0, 200)), on, by, **size, step=2 if apart else 1)
    right = side(chance, draw(st.integers(0, 200)), on, by, **size, step=4 if apart else 1, offset=int(apart))
    return left, without_ties(right)


def with_nulls(table: pa.Table, share: float) -> pa.Table:
    chance = np.random.default_rng(table.num_rows)
    for name in ("ts", "k"):
        holes = pa.array(chance.random(table.num_rows) < share)
        table = table.set_column(
            table.schema.get_field_index(name), name, pc.if_else(holes, pa.scalar(None, table[name].type), table[name])
        )
    return table


def rows_of(left: pa.Table, right_rows: pa.ChunkedArray) -> pa.Table:
    """Return the left rows in their order with the number of the right row that each was given."""
    return left.append_column("row_right", right_rows.cast(pa.int64()))


def asof_in_duckdb(left: pa.Table, right: pa.Table, comparison: str) -> pa.Table:
    query = f"""
        SELECT l.*, r.row AS row_right
        FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts {comparison} r.ts
        ORDER BY l.row
    """
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        return connection.sql(query).to_arrow_table()


COMPARISONS = {("backward", True): ">=", ("backward", False): ">", ("forward", True): "<=", ("forward", False): "<"}


@given(tables(), st.sampled_from(["backward", "forward"]), st.booleans(), st.booleans())
def test_duckdb(example, direction, exact, nulls):
    left, right = (with_nulls(table, 0.2) if nulls else table for table in example)
    right = without_ties(right)
    answer = asof_in_duckdb(left, right, COMPARISONS[direction, exact])
    ours = jn.join_asof(left, right, on="ts", by="k", direction=direction, allow_exact_matches=exact)
    assert difference(ours, rows_of(left, answer["row_right"]), ordered=True) is None


@given(st.data(), st.sampled_from(["backward", "forward", "nearest"]), st.booleans(), st.sampled_from([None, 0, 3, 40]))
def test_polars(data, direction, exact, tolerance):
    # Of two at the same distance, Polars takes the later.
    left, right = example = data.draw(tables(apart=direction == "nearest"))
    frames = [pl.from_arrow(table).sort("ts") for table in example]
    answer = (
        frames[0]
        .join_asof(
            frames[1],
            on="ts",
            by="k",
            strategy=direction,
            tolerance=in_polars(tolerance, left["ts"].type),
            allow_exact_matches=exact,
            check_sortedness=False,
        )
        .sort("row")
        .to_arrow()
    )
    ours = jn.join_asof(
        left,
        right,
        on="ts",
        by="k",
        direction=direction,
        tolerance=in_ours(tolerance, left["ts"].type),
        allow_exact_matches=exact,
    )
    assert difference(ours, rows_of(left, answer["row_right"]), ordered=True) is None


@given(tables(), st.sampled_from(["backward", "forward", "nearest"]), st.booleans(), st.sampled_from([None, 3, 40]))
def test_pandas(example, direction, exact, tolerance):
    if pa.types.is_date(example[0]["ts"].type):
        example = tuple(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us"))) for table in example)
    left, right = example
    frames = [table.to_pandas().sort_values("ts", kind="stable") for table in example]
    answer = pd.merge_asof(
        *frames,
        on="ts",
        by="k",
        direction=direction,
        tolerance=in_pandas(tolerance, left["ts"].type),
        allow_exact_matches=exact,
        suffixes=("", "_right"),
    ).sort_values("row")
    ours = jn.join_asof(
        left,
        right,
        on="ts",
        by="k",
        direction=direction,
        tolerance=in_ours(tolerance, left["ts"].type),
        allow_exact_matches=exact,
    )
    expected = pa.chunked_array([pa.Array.from_pandas(answer["row_right"].astype("Int64"))])
    assert difference(ours, rows_of(left, expected), ordered=True) is None


@given(tables(), st.booleans())
def test_polars_takes_the_later_of_two_at_one_distance(example, exact):
    left, right = example
    frames = [pl.from_arrow(table).sort("ts") for table in example]
    options = {"on": "ts", "by": "k", "allow_exact_matches": exact}
    answer = frames[0].join_asof(*frames[1:], strategy="nearest", check_sortedness=False, **options).sort("row")
    ours = jn.join_asof(left, right, direction="nearest", prefer="later", **options)
    assert difference(ours, rows_of(left, answer["row_right"].to_arrow()), ordered=True) is None


@given(st.integers(0, 2**32 - 1), st.sampled_from([("backward", "last"), ("forward", "first")]), st.booleans())
def test_pandas_and_polars_take_rows_that_tie_in_the_order_of_the_table(seed, ways, exact):
    direction, ties = ways
    chance = np.random.default_rng(seed)
    on, by = pa.int64(), pa.int64()
    left, right = (side(chance, int(chance.integers(0, 200)), on, by, keys=3, span=9) for _ in range(2))
    ours = jn.join_asof(left, right, on="ts", by="k", direction=direction, ties=ties, allow_exact_matches=exact)
    # A stable sort keeps the order of rows that tie.
    frames = [table.to_pandas().sort_values("ts", kind="stable") for table in (left, right)]
    options = {"on": "ts", "by": "k", "allow_exact_matches": exact}
    theirs = pd.merge_asof(*frames, direction=direction, suffixes=("", "_right"), **options).sort_values("row")
    expected = pa.chunked_array([pa.Array.from_pandas(theirs["row_right"].astype("Int64"))])
    assert difference(ours, rows_of(left, expected), ordered=True) is None
    polars = [pl.from_arrow(table).sort("ts", maintain_order=True) for table in (left, right)]
    answer = polars[0].join_asof(polars[1], strategy=direction, check_sortedness=False, **options).sort("row")
    assert difference(ours, rows_of(left, answer["row_right"].to_arrow()), ordered=True) is None


@given(tables(), st.sampled_from(["backward", "forward"]))
def test_duckdb_where_nulls_are_equal(example, direction):
    left, right = (with_nulls(table, 0.2) for table in example)
    right = without_ties(right)
    # DuckDB compares keys with = only: null stands as a key of its own.
    filled = [table.set_column(1, "k", pc.fill_null(table["k"].cast(pa.string()), "none")) for table in (left, right)]
    answer = asof_in_duckdb(*filled, COMPARISONS[direction, True])
    ours = jn.join_asof(left, right, on="ts", by="k", direction=direction, nulls_equal=True)
    assert difference(ours, rows_of(left, answer["row_right"]), ordered=True) is None


def in_ours(steps: int | None, on: pa.DataType) -> int | str | None:
    if steps is None or not pa.types.is_temporal(on):
        return steps
    return f"{steps}{'d' if pa.types.is_date(on) else on.unit}"


def in_polars(steps: int | None, on: pa.DataType) -> int | float | str | None:
    return float(steps) if steps is not None and pa.types.is_floating(on) else in_ours(steps, on)


def in_pandas(steps: int | None, on: pa.DataType) -> int | float | pd.Timedelta | None:
    if steps is None or not pa.types.is_temporal(on):
        return float(steps) if steps is not None and pa.types.is_floating(on) else steps
    return pd.Timedelta(steps, on.unit)


@pytest.mark.parametrize("direction", ["backward", "forward"])
@pytest.mark.parametrize("keys", [1, 40, 5_000])
def test_duckdb_on_more_rows_than_fit_one_batch_of_work(keys, direction):
    chance = np.random.default_rng(keys)
    size = {"on": pa.timestamp("us"), "by": pa.string(), "keys": keys, "span": 10**9}
    left, right = side(chance, 60_000, **size), without_ties(side(chance, 200_000, **size))
    answer = asof_in_duckdb(left, right, COMPARISONS[direction, True])
    for algorithm in ("probe", "merge"):
        ours = jn.join_asof(left, right, on="ts", by="k", direction=direction, algorithm=algorithm)
        assert ours["row_right"].combine_chunks().equals(answer["row_right"].combine_chunks())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("keys", "direction"),
    [
        (1, "backward"),
        (5_000, "forward"),
        (1, "forward"),
        (5_000, "backward"),
    ],
)
def test_duckdb_on_spark(spark, keys, direction):
    chance = np.random.default_rng(keys)
    size = {"on": pa.timestamp("us"), "by": pa.string(), "keys": keys, "span": 10**9}
    left, right = side(chance, 2_000, **size), without_ties(side(chance, 8_000, **size))
    answer = asof_in_duckdb(left, right, COMPARISONS[direction, True])
    expected = rows_of(left, answer["row_right"])
    frames = [to_spark(spark, table).repartition(3) for table in (left, right)]
    for algorithm in SPARK:
        ours = jn.join_asof(*frames, on="ts", by="k", direction=direction, algorithm=algorithm).toArrow()
        assert ours.sort_by("row").select(expected.column_names).cast(expected.schema).equals(expected), algorithm
