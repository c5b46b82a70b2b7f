"""As-of joins by several columns, compared one after the other."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.errors import DataError, PlanError, SchemaError, SpecError
from juncture.ordered.kinds import RoughCoder, domain_of
from juncture.ordered.tuples import TupleCoder, Tuples
from support.engines import LOCAL, SPARK, refuses, run_on_spark, to_spark
from support.reports import expected_report
from support.tables import difference

chance = np.random.default_rng(3)
DATE_TIME = ["date", "time"]


def side(rows: int, name: str, *, days: int = 20) -> pa.Table:
    """Return rows of different dates and times of day, with these as a timestamp besides."""
    at = chance.choice(days * 86_400, rows, replace=False)
    table = pa.table(
        {
            "date": pa.array((at // 86_400).astype(np.int32), pa.int32()).cast(pa.date32()),
            "time": pa.array((at % 86_400).astype(np.int64) * 10**6, pa.int64()).cast(pa.time64("us")),
            "at": pa.array(at).cast(pa.timestamp("s")).cast(pa.timestamp("us")),
            "k": chance.integers(0, 3, rows),
            name: range(rows),
        }
    )
    is_null = pa.array(chance.random(rows) < 0.05)
    return table.set_column(1, "time", pc.if_else(is_null, pa.scalar(None, pa.time64("us")), table["time"]))


LEFT, RIGHT = side(300, "l"), side(400, "r")


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize(("direction", "sign"), [("backward", ">="), ("forward", "<=")])
def test_duckdb_agrees(direction, sign, algorithm, tmp_path):
    with duckdb.connect() as connection:
        connection.register("l", LEFT).register("r", RIGHT)
        query = (
            f"SELECT l.l, r.r FROM (FROM l WHERE time IS NOT NULL) l ASOF JOIN (FROM r WHERE time IS NOT NULL) r "
            f"ON l.k = r.k AND (l.date, l.time) {sign} (r.date, r.time) ORDER BY l.l"
        )
        expected = connection.sql(query).fetchall()
    spec = jn.Asof(on=DATE_TIME, by="k", direction=direction, how="inner")
    pq.write_table(RIGHT, tmp_path / "right.parquet", row_group_size=50)
    for right in (RIGHT, str(tmp_path / "right.parquet")):
        answer = jn.plan(LEFT, right, spec, algorithm=algorithm).execute()
        assert list(zip(answer["l"].to_pylist(), answer["r"].to_pylist(), strict=True)) == expected


SPECS: list[dict[str, Any]] = [
    {"by": "k", "how": "full"},
    {"by": "k", "matches": 2, "where": "l.l > r.r", "how": "inner"},
    {"how": "semi", "direction": "forward", "allow_exact_matches": False},
    {"by": "k", "available_at": ("r", "l")},
]


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("arguments", SPECS, ids=str)
def test_they_mean_what_one_column_of_them_means(arguments, algorithm):
    left, right = (
        table.set_column(2, "at", pc.if_else(table["time"].is_valid(), table["at"], None)) for table in (LEFT, RIGHT)
    )
    tuples, columns = (
        jn.plan(left, right, jn.Asof(on=on, coalesce=False, **arguments), algorithm=algorithm).execute()
        for on in (DATE_TIME, "at")
    )
    assert tuples.num_rows
    assert difference(tuples, columns, ordered=True) is None


@pytest.mark.in_turn
@pytest.mark.one_in(4)
@pytest.mark.parametrize("algorithm", SPARK)
def test_on_spark(spark, algorithm):
    spec = jn.Asof(on=["date", jn.expr("date_trunc('hour', at)")], by="k", coalesce=False)
    left, right = (table.drop_columns("time") for table in (LEFT, RIGHT))
    if refuses(algorithm, spec.resolve(left.schema, right.schema)):
        with pytest.raises(PlanError, match="the on columns are of kind tuple, which only Python tasks compare"):
            run_on_spark(spark, spec, left, right, algorithm)
    else:
        answer, expected = run_on_spark(spark, spec, left, right, algorithm), jn.plan(left, right, spec).execute()
        assert difference(answer, expected, ordered=False) is None


@pytest.mark.in_turn
@pytest.mark.parametrize("on", [["x", "s"], "s"], ids=str)
def test_a_report_on_spark(spark, on):
    left, right = (
        pa.table(
            {
                "x": chance.choice([0.0, -0.0, 1.0, 2.0, np.nan], rows),
                "s": pa.array(chance.choice(["a", "b", "c", None], rows), pa.string()),
                "k": chance.integers(0, 3, rows) + shift,
            }
        )
        for rows, shift in ((60, 0), (30, 1))
    )
    spec = jn.Asof(on=on, by="k", direction="forward")
    report = jn.plan(to_spark(spark, left), to_spark(spark, right), spec).match_report()
    assert report == expected_report(spec.resolve(left.schema, right.schema), left, right)
    assert report.matched


@pytest.mark.parametrize("arguments", [{"direction": "nearest"}, {"tolerance": 1}, {"tolerance": "5m"}], ids=str)
def test_they_have_no_distances(arguments):
    with pytest.raises(SpecError, match=r"a tuple of columns, which has no distances.* Combine the columns into one"):
        jn.join_asof(LEFT, RIGHT, on=DATE_TIME, **arguments)


def test_errors_name_the_column_that_does_not_fit():
    with pytest.raises(SchemaError, match=r"left 'time' \(time64"):
        jn.join_asof(LEFT, RIGHT.set_column(1, "time", RIGHT["r"]), on=DATE_TIME)
    with pytest.raises(SchemaError, match=r"on='tim' is not a column.* Did you mean 'time'"):
        jn.join_asof(LEFT, RIGHT, on=["date", "tim"])
    categories = LEFT.set_column(1, "time", LEFT["k"].cast(pa.string()).combine_chunks().dictionary_encode())
    ordered = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    with pytest.raises(SchemaError, match="on= needs an order, but the left column 'time' is of ordered cat"):
        jn.join_asof(categories.set_column(1, "time", categories["time"].cast(ordered)), categories, on=DATE_TIME)
    with pytest.raises(SpecError, match="names a column twice"):
        jn.join_asof(LEFT, RIGHT, on=["date", "date"])
    rows = pa.table({"a": [1, 1], "b": [2, 2], "v": [1, 2]})
    with pytest.raises(DataError, match=r"a=1, b=2 \(row 0\)"):
        jn.join_asof(rows, rows, on=["a", "b"], ties="error")


def test_a_spec_is_plain_data():
    spec = jn.Asof(on=["date", jn.expr("date_trunc('hour', at)")])
    assert spec.to_dict() == {"kind": "asof", "on": ["date", {"expr": "date_trunc('hour', at)"}]}
    assert jn.Asof.from_dict(spec.to_dict()) == spec == pickle.loads(pickle.dumps(spec))
    assert jn.Asof(on=["date"]).resolve(LEFT.schema, RIGHT.schema).left_on == "date"


def test_a_column_may_have_the_name_of_a_tuple():
    left = LEFT.append_column("(date, time)", LEFT["l"])
    expected = jn.join_asof(LEFT, RIGHT, on=DATE_TIME)
    answer = jn.join_asof(left, RIGHT, on=DATE_TIME)
    assert answer["(date, time)"].equals(left["l"])
    assert answer.select(expected.column_names).equals(expected)


def test_reports():
    plan = jn.plan(LEFT, RIGHT, jn.Asof(on=DATE_TIME, by="k"))
    assert "by (date, time)" in plan.explain()
    report = plan.match_report()
    assert (report.null_on, report.distances) == (LEFT["time"].null_count, None)
    assert "values of on have an order alone" in repr(report)


def test_streams_and_changes_refuse_them():
    schemas, spec = (LEFT.schema, RIGHT.schema), jn.Asof(on=DATE_TIME)
    said = r"on=\(date, time\) names several columns, which .* cannot order by"
    with pytest.raises(PlanError, match=said):
        jn.changes(*schemas, spec)
    with pytest.raises(PlanError, match=said):
        jn.stream(*schemas, spec, allow_unbounded=True)


def test_joins_of_many_tables_take_them():
    spec = jn.Asof(on=DATE_TIME)
    joined = jn.join_many(LEFT, {"right": jn.Right(RIGHT, spec, prefix="right_")})
    alone = jn.plan(LEFT, RIGHT, spec).execute()
    assert [list(row.values()) for row in joined.to_pylist()] == [list(row.values()) for row in alone.to_pylist()]


INT64 = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
PARTS = {"integer": (pa.int64(), INT64), "date": (pa.date32(), None), "text": (pa.string(), st.text(max_size=3))}
DATES = st.integers(-(2**31), 2**31 - 1)


@st.composite
def tuples(draw: st.DrawFn) -> tuple[Tuples, list[pa.Array]]:
    """Return the domain of some tuples, and their parts."""
    kinds = draw(st.lists(st.sampled_from(list(PARTS)), min_size=2, max_size=4))
    rows, parts = draw(st.integers(0, 8)), []
    for kind in kinds:
        data_type, values = PARTS[kind]
        drawn = draw(st.lists(st.none() | (DATES if values is None else values), min_size=rows, max_size=rows))
        parts.append(pa.array(drawn, pa.int32()).cast(data_type) if values is None else pa.array(drawn, data_type))
    return Tuples(tuple(domain for part in parts if (domain := domain_of(part.type)))), parts


def values_of(parts: Sequence[pa.Array]) -> list[tuple[Any, ...] | None]:
    """Return tuples as Python's, None for those that have a null."""
    columns = [part.cast(pa.int32()) if pa.types.is_date(part.type) else part for part in parts]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [None if None in row else tuple(v.encode() if isinstance(v, str) else v for v in row) for row in rows]


@given(tuples=tuples())
def test_codes_are_in_the_order_of_tuples(tuples):
    domain, parts = tuples
    array = pa.StructArray.from_arrays(parts, [f"part{place}" for place in range(len(parts))])
    values = values_of(parts)
    exact = TupleCoder.of(domain, lambda: [array, array.slice(1)])
    rough = RoughCoder((array.type, array.type))
    for coder, is_exact in ((exact, True), (rough, False)):
        codes, valid = coder.encode(array)
        assert [value is not None for value in values] == (
            valid.tolist() if valid is not None else [True] * len(values)
        )
        pairs = sorted((value, int(code)) for value, code in zip(values, codes, strict=True) if value is not None)
        for (one, code), (other, other_code) in pairwise(pairs):
            assert code < other_code if is_exact and one < other else code <= other_code
            assert one < other or code == other_code


def test_dates_and_times_of_day_are_placed_by_both():
    array = pa.StructArray.from_arrays(
        [pa.array([0, 0, 1], pa.int32()).cast(pa.date32()), pa.array([0, 10**9, 5], pa.int64()).cast(pa.time64("us"))],
        ["part0", "part1"],
    )
    codes, _ = RoughCoder((array.type, array.type)).encode(array)
    assert codes[0] < codes[1] < codes[2]
