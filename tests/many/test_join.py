"""Joins of several tables to one spine, in-process: equal to the chain of single joins, in every library."""

from __future__ import annotations

import random
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from many.strategies import chained, random_case

SPINE = pa.table({"ts": [5, 9, None, 2], "user": ["ann", "bob", "ann", None]})
PRICES = pa.table({"ts": [1, 8, 8], "price": [2.0, 2.5, 3.0]})
USERS = pa.table({"user": ["ann", "bob", "eve", "eve"], "since": [1, 2, 3, 4]})
CLICKS = pa.table({"ts": [3, 4, 9], "user": ["ann", "ann", "bob"], "page": [7, 8, 9]})


def to_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def tables(**changed: Any) -> dict[str, jn.Right]:
    whole = {
        "price": jn.Right(PRICES, jn.Asof(on="ts")),
        "clicks": jn.Right(
            CLICKS,
            jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count", "page": "last"}),
            prefix="clicks_",
        ),
        "user": jn.Right(USERS, jn.Equi(on="user", how="left")),
    }
    return whole | changed


EXPECTED = {
    "ts": [5, 9, None, 2],
    "user": ["ann", "bob", "ann", None],
    "price": [2.0, 3.0, None, 2.0],
    "clicks_count": [2, 1, 0, 0],
    "clicks_page_last": [8, 9, None, None],
    "since": [1, 2, 1, None],
}


def days_and_times(seed: int, rows: int) -> pa.Table:
    """Return rows that several columns order, or text, or what expressions make of them."""
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    return pa.table(
        {
            "day": pa.array([maybe(date(2026, 1, chance.randint(1, 3))) for _ in range(rows)], pa.date32()),
            "time": pa.array([maybe(time(chance.randint(8, 11))) for _ in range(rows)], pa.time64("us")),
            "word": pa.array([maybe(chance.choice(["", "a", "ab", "b"])) for _ in range(rows)], pa.string()),
            "key": pa.array([maybe(chance.choice(["x", "X", "y"])) for _ in range(rows)], pa.string()),
            "n": pa.array([maybe(chance.randint(-4, 4)) for _ in range(rows)], pa.int64()),
            "value": pa.array(range(rows), pa.int64()),
        }
    )


COMPARED: dict[str, Any] = {
    "tuples": jn.Asof(on=["day", "time"], by="key"),
    "tuples-forward": jn.Asof(on=["day", "time"], direction="forward"),
    "text": jn.Asof(on="word", by="key"),
    "expression": jn.Asof(on=jn.expr("n * 2 + 1"), by="key", tolerance=3),
    "key-expression": jn.Asof(on="n", by=jn.expr("lower(key)")),
    "int-and-float": jn.Asof(left_on="n", right_on=jn.expr("n + 0.5"), by=jn.expr("lower(key)")),
    "window": jn.Range(
        left_on=jn.expr("n + 1"), right_on="n", by=jn.expr("lower(key)"), lower=-2, upper=0, agg={"value": "sum"}
    ),
    "look-up": jn.Equi(left_on=jn.expr("upper(key)"), right_on=jn.expr("upper(key)"), how="left"),
}


@given(st.integers(0, 2**32), st.lists(st.sampled_from(sorted(COMPARED)), min_size=1, max_size=4, unique=True))
def test_compares_what_single_joins_compare(seed: int, names: list[str]) -> None:
    spine = days_and_times(seed, seed % 30)
    rights = {
        name: jn.Right(days_and_times(seed + place, seed % 23), COMPARED[name], prefix=f"{name} ")
        for place, name in enumerate(name for name in names if name != "look-up")
    }
    if "look-up" in names:
        users = pa.table({"key": ["x", "y", None], "since": [1, 2, 3]})
        rights["look-up"] = jn.Right(users, COMPARED["look-up"], prefix="look-up ")
    joined = jn.join_many(spine, rights)
    expected = chained(spine, rights)
    assert joined.schema.equals(expected.schema, check_metadata=True)
    assert joined.to_pylist() == expected.to_pylist()
    report = jn.plan_many(spine, rights).match_report()
    for name, right in rights.items():
        if isinstance(right.spec, jn.Asof):
            alone = jn.plan(spine, right.table, right.spec).match_report()
            assert report[name] == alone


@settings(max_examples=4 * settings.default.max_examples)
@given(st.integers(0, 2**32))
def test_equals_the_chain_of_single_joins(seed: int) -> None:
    spine, rights = random_case(seed)
    joined = jn.join_many(spine, rights)
    expected = chained(spine, rights)
    assert joined.schema.equals(expected.schema, check_metadata=True)
    assert joined.to_pylist() == expected.to_pylist()


@given(st.integers(0, 2**32))
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_equals_the_chain_in_the_spines_library(library: str, seed: int) -> None:
    spine, rights = random_case(seed)
    convert: Any = pl.from_arrow if library == "polars" else to_pandas
    theirs = {name: jn.Right(convert(each.table), each.spec, prefix=each.prefix) for name, each in rights.items()}
    joined, expected = jn.join_many(convert(spine), theirs), convert(spine)
    for each in theirs.values():
        names = list(expected.columns)
        one = jn.plan(expected, each.table, each.spec).execute()
        own = jn.plan(convert(spine), each.table, each.spec).execute().columns[spine.num_columns :]
        shown = [each.prefix + name.removesuffix("_right") for name in own]
        if library == "polars":
            expected = one.rename(dict(zip(one.columns, [*names, *shown], strict=True)))
        else:
            expected = one.set_axis([*names, *shown], axis="columns")
    if library == "polars":
        assert joined.equals(expected, null_equal=True)
        assert joined.schema == expected.schema
    else:
        pd.testing.assert_frame_equal(joined, expected)


def test_mixes_as_of_joins_windows_and_lookups() -> None:
    assert jn.join_many(SPINE, tables()).to_pydict() == EXPECTED


def test_drops_rows_of_the_spine_that_an_inner_join_does_not_match() -> None:
    inner = jn.Right(USERS, jn.Equi(on="user"), columns=["since"])
    joined = jn.join_many(SPINE, tables(user=inner))
    assert joined["ts"].to_pylist() == [5, 9, None]
    assert joined["clicks_count"].to_pylist() == [2, 1, 0]


def test_reads_paths_and_streams_and_other_libraries(tmp_path: Path) -> None:
    pq.write_table(PRICES, tmp_path / "prices.parquet", row_group_size=2)
    mixed = tables(
        price=jn.Right(tmp_path / "prices.parquet", jn.Asof(on="ts")),
        user=jn.Right(pl.from_arrow(USERS), jn.Equi(on="user", how="left")),
    )
    reader = pa.RecordBatchReader.from_batches(SPINE.schema, SPINE.to_batches(max_chunksize=2))
    assert jn.join_many(reader, mixed).to_pydict() == EXPECTED


def test_keeps_the_index_of_pandas() -> None:
    spine = to_pandas(SPINE).set_index(pd.Index([7, 7, 8, 9], name="row"))
    joined = jn.join_many(spine, tables())
    assert joined.index.tolist() == [7, 7, 8, 9]
    assert joined.columns.tolist() == list(EXPECTED)


def test_takes_windows_of_text_and_times_with_other_units() -> None:
    spine = pa.table({"ts": pa.array([datetime(2026, 1, 1, 1), datetime(2026, 1, 1, 2)], pa.timestamp("s"))})
    right = pa.table(
        {"ts": pa.array([datetime(2026, 1, 1), datetime(2026, 1, 1, 1)], pa.timestamp("ns")), "x": ["a", "b"]}
    )
    spec = jn.Range(on="ts", lower="-1h", upper=0, agg={"x": ["first", "count"]})
    joined = jn.join_many(spine, {"right": jn.Right(right, spec)})
    assert joined.select(["x_first", "x_count"]).to_pydict() == {"x_first": ["a", "b"], "x_count": [2, 1]}


def test_renames_columns_and_chooses_among_them() -> None:
    price = jn.Right(PRICES, jn.Asof(on="ts", coalesce=False), columns={"price": "last_price", "ts": "quoted"})
    clicks = jn.Right(
        CLICKS, jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count"}), columns={"count": "n"}
    )
    joined = jn.join_many(SPINE, {"price": price, "clicks": clicks})
    assert joined.column_names == ["ts", "user", "last_price", "quoted", "n"]
    assert joined["quoted"].to_pylist() == [1, 8, None, 1]


def test_adds_the_suffix_of_the_join_to_a_name_that_is_taken() -> None:
    other = jn.Right(PRICES, jn.Asof(on="ts", direction="forward"))
    assert jn.join_many(SPINE, tables(other=other)).column_names[-1] == "price_right"


def test_takes_the_greatest_of_several_rows_of_a_key() -> None:
    spine = pa.table({"user": ["eve", "ann"]})
    greatest = jn.Right(USERS, jn.Equi(on="user"), duplicates="greatest")
    assert jn.join_many(spine, {"user": greatest})["since"].to_pylist() == [4, 1]
    conditional = jn.Right(USERS, jn.Equi(on="user", how="left", where="r.since < 9"), duplicates="greatest")
    assert jn.join_many(spine, {"user": conditional})["since"].to_pylist() == [4, 1]


@pytest.mark.parametrize("where", [None, "r.since < 9"])
def test_refuses_several_rows_of_a_key(where: str | None) -> None:
    spine = pa.table({"user": ["ann", "eve"]})
    with pytest.raises(
        jn.DataError, match=r"In table 'user': .*Several rows match .* user=\"eve\" \(row 1\).*duplicates="
    ):
        jn.join_many(spine, {"user": jn.Right(USERS, jn.Equi(on="user", where=where))})


@pytest.mark.parametrize("duplicates", ["error", "greatest"])
@pytest.mark.parametrize(
    ("keys", "others"),
    [
        (pa.array(["ann"]), ["ann", None, None]),
        (pa.array([1]), [None, 1, None]),
        (pa.array([], pa.string()), ["ann", "ann", None, None]),
        (pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), ["bob", "ann"]), ["bob", "bob", "ann"]),
    ],
    ids=["null", "null-and-integer", "empty-spine", "value-of-a-dictionary-only"],
)
def test_takes_several_rows_of_a_key_that_the_spine_has_not(keys: pa.Array, others: list[Any], duplicates: Any) -> None:
    users = pa.table({"user": others, "since": range(len(others))})
    right = jn.Right(users, jn.Equi(on="user", nulls_equal=True), duplicates=duplicates)
    joined = jn.join_many(pa.table({"user": keys}), {"user": right})
    assert joined["since"].to_pylist() == [others.index(key) for key in keys.to_pylist()]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jn.Right(CLICKS, jn.Range(on="ts", lower=0)), "several rows.*Pass agg="),
        (lambda: jn.Right(CLICKS, jn.Where("l.ts < r.ts")), "several rows"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts", matches=2)), "matches=2"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts", how="full")), "how='full'"),
        (lambda: jn.Right(CLICKS, "asof"), "is not a join"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts"), columns="page"), "not a list of column names"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts"), columns=[1]), "contains 1"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts"), prefix=1), "prefix=1"),
        (lambda: jn.Right(CLICKS, jn.Asof(on="ts"), duplicates="greatest"), "Remove duplicates="),
        (lambda: jn.Right(USERS, jn.Equi(on="user"), check_available_at="since"), "Pass both"),
        (lambda: jn.Right(USERS, jn.Equi(on="user"), check_available_at=("a", "b", "c")), "names 3 columns"),
        (lambda: jn.join_many(SPINE, {}), "is not a mapping"),
        (lambda: jn.join_many(SPINE, {"user": USERS}), r"juncture.Right\(table, spec\)"),
        (lambda: jn.join_many(SPINE, tables(), suffix="_x"), "suffix='_x'"),
    ],
)
def test_refuses_arguments_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(jn.SpecError, match=message):
        make()


@pytest.mark.parametrize(
    ("right", "message"),
    [
        (jn.Right(CLICKS, jn.Asof(on="ts"), columns=["pages"]), "In table 'x': .*'pages'.*page"),
        (jn.Right(CLICKS, jn.Asof(on="ts", by="user"), columns=["user"]), "equals a column of the spine"),
        (jn.Right(CLICKS, jn.Asof(on="time")), "In table 'x': on='time' is not a column"),
        (jn.Right(CLICKS, jn.Asof(on="ts"), columns={"page": "ts"}), "'ts', which is already a column of the spine"),
        (jn.Right(CLICKS, jn.Asof(on="ts"), check_available_at="seen"), "check_available_at='seen' is not a column"),
    ],
)
def test_refuses_columns_that_are_not_there_or_taken(right: jn.Right, message: str) -> None:
    with pytest.raises(jn.SchemaError, match=message):
        jn.plan_many(SPINE, {"x": right})


def test_explains_the_whole_as_one_plan() -> None:
    plan = jn.plan_many(SPINE, tables())
    text = plan.explain()
    assert "Join of 3 tables to one spine in-process" in text
    assert "user: coded once for clicks, user" in text
    assert "lookup" in text
    assert [each.algorithm for each in plan.tables.values()][::2] == ["merge", "lookup"]
    assert '"adds"' in plan.explain("json")
    assert plan.explain("html").startswith("<!doctype html>")


def test_stays_within_a_budget() -> None:
    spine = pa.table({"ts": pa.array(range(300_000)), "key": pa.array([i % 1000 for i in range(300_000)])})
    right = jn.Right(spine.append_column("x", spine["ts"]), jn.Asof(on="ts", by="key"))
    window = jn.Right(right.table, jn.Range(on="ts", by="key", lower=-5000, upper=0, agg={"x": "sum"}))
    rights = {"asof": right, "window": window}
    assert jn.join_many(spine, rights, memory="64MB").equals(chained(spine, rights))
