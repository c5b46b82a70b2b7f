"""Lazy tables and relations: an answer is what the left table is."""

from __future__ import annotations

import pickle

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn

TRADES = pa.table({"ts": [3, 1, 6], "k": ["a", "b", "a"]})
QUOTES = pa.table({"ts": [5, 2, 1], "k": ["a", "a", "b"], "bid": [11.0, 10.0, 20.0]})


def lazy(table: pa.Table) -> pl.LazyFrame:
    return pl.DataFrame(table).lazy()


def relation(given: pa.Table) -> duckdb.DuckDBPyRelation:
    """Return a relation of a connection of its own, which holds the rows."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE held AS SELECT * FROM given")
    return connection.table("held")


KINDS = {pl.LazyFrame: lazy, duckdb.DuckDBPyRelation: relation}
JOINS = {
    "asof": lambda left: jn.join_asof(left, QUOTES, on="ts", by="k"),
    "equi": lambda left: jn.join(left, QUOTES, on="k", how="semi"),
    "range": lambda left: jn.join_range(left, QUOTES, on="ts", lower=-9, upper=9, agg={"bid": "sum"}),
    "many": lambda left: jn.join_many(left, {"bid": jn.Right(QUOTES, jn.Asof(on="ts", by="k"))}),
    "interpolated": lambda left: jn.interpolate(left, QUOTES, on="ts", by="k", columns=["bid"]),
    "grid": lambda left: jn.grid(left, on="ts", by="k", every=2),
    "analyzed": lambda left: jn.plan(left, QUOTES, jn.Asof(on="ts", by="k")).analyze(keep=True).result,
}


def rows_of(answer: object) -> list[tuple[object, ...]]:
    if isinstance(answer, pl.LazyFrame):
        return answer.collect().rows()
    if isinstance(answer, duckdb.DuckDBPyRelation):
        return answer.fetchall()
    assert isinstance(answer, pa.Table)
    return [tuple(row.values()) for row in answer.to_pylist()]


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_answer_is_what_the_left_table_is(kind, join):
    joined = join(KINDS[kind](TRADES))
    assert isinstance(joined, kind)
    assert rows_of(joined) == rows_of(join(TRADES))


def test_a_relation_is_one_of_the_same_connection():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE names AS SELECT * FROM (VALUES ('a', 'Ann'), ('b', 'Bob')) AS t(k, name)")
    trades = connection.from_arrow(TRADES)
    joined = jn.join_asof(trades, QUOTES, on="ts", by="k")
    named = joined.join(connection.table("names"), "k").aggregate("name, sum(bid)").order("name")
    assert named.fetchall() == [("Ann", 21.0), ("Bob", 20.0)]
    assert connection.sql("SELECT * FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_a_right_one_changes_nothing():
    assert isinstance(jn.join_asof(TRADES, lazy(QUOTES), on="ts", by="k"), pa.Table)
    assert isinstance(jn.join_asof(TRADES, relation(QUOTES), on="ts", by="k"), pa.Table)


def test_in_another_process_there_is_no_connection():
    plan = pickle.loads(pickle.dumps(jn.plan(relation(TRADES), QUOTES, jn.Asof(on="ts", by="k"))))
    assert plan.execute() == jn.join_asof(TRADES, QUOTES, on="ts", by="k")


def test_a_type_that_duckdb_does_not_have():
    wide = QUOTES.append_column("wide", pa.array([1, 2, 3], pa.decimal256(60, 0)))
    with pytest.raises(jn.SchemaError, match=r"cannot be read by DuckDB.*to_arrow_table"):
        jn.join_asof(relation(TRADES), wide, on="ts", by="k")


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        pa.array([[1, 2]]),
        pa.array([{"x": 1}]),
        pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
    ],
    ids=lambda values: str(values.type),
)
def test_runs_of_nested_values_are_refused_before_duckdb_reads_them(values, nested):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), values)
    column = pa.StructArray.from_arrays([runs], ["x"]) if nested else runs
    left = relation(pa.table({"n": [0]}))
    with pytest.raises(jn.SchemaError, match=r"column 'x' has type .*runs of nested values.*to_arrow_table") as raised:
        jn.join(left, pa.table({"n": [0], "x": column}), on="n")
    assert raised.value.name == "JN-LIBRARY-TYPE"


NANOSECONDS = {
    "duration": pa.array([1_000, None, 1_001], pa.duration("ns")),
    "interval": pa.array([(1, 2, 1_000), None, (0, 0, -1)], pa.month_day_nano_interval()),
}


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("waits", NANOSECONDS.values(), ids=NANOSECONDS)
def test_durations_finer_than_those_of_duckdb_are_refused(waits, nested):
    waits = pa.StructArray.from_arrays([waits], ["wait"]) if nested else waits
    left = relation(pa.table({"n": [0, 1, 2]}))

    def joined(values: pa.Array):
        return jn.join(left, pa.table({"n": pa.array(range(len(values)), pa.int64()), "wait": values}), on="n")

    assert len(joined(waits.slice(0, 2)).fetchall()) == 2
    with pytest.raises(jn.DataError, match=r"'wait' .*finer than microseconds.*to_arrow_table"):
        joined(waits)


ITEMS = pa.array([{"a": 1}, {"a": 2}, {"a": 3}])


@pytest.mark.parametrize(
    "values",
    [
        pa.StructArray.from_arrays([ITEMS], ["item"]).slice(1),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), ITEMS.slice(1)),
    ],
    ids=["structs of structs", "lists of structs"],
)
def test_duckdb_reads_slices_of_nested_values(values):
    left = relation(pa.table({"n": [0, 1]}))
    answer = jn.join(left, pa.table({"n": [0, 1], "x": values}), on="n")
    assert answer.to_arrow_table().column("x").to_pylist() == values.to_pylist()


def test_dates_beyond_those_of_duckdb_are_refused():
    left = relation(pa.table({"n": [0]}))
    days = pa.array([2**33 * 86_400_000], pa.date64())
    with pytest.raises(jn.DataError, match=r"'day' .*dates beyond those of DuckDB.*to_arrow_table"):
        jn.join(left, pa.table({"n": [0], "day": days}), on="n")
