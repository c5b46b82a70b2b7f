"""Expressions in place of columns: a join with them is that of tables which have them as columns."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture import testing as reference
from juncture.errors import SchemaError, SpecError
from support.engines import LOCAL, LOCAL_NEAR, SPARK, refuses, run_on_spark
from support.tables import difference

chance = np.random.default_rng(17)
LEFT = pa.table(
    {
        "day": chance.integers(0, 6, 60),
        "hour": pa.array(chance.integers(0, 24, 60), mask=chance.random(60) < 0.1),
        "k": chance.integers(0, 4, 60),
        "row": np.arange(60),
    }
)
RIGHT = pa.table(
    {"at": chance.integers(0, 150, 80), "name": [f"K{i}" for i in chance.integers(0, 4, 80)], "row": np.arange(80)}
)
ON: dict[str, Any] = {"left_on": jn.expr("day * 24 + hour"), "right_on": "at"}
BY: dict[str, Any] = {"left_by": jn.expr("k % 2 = 0"), "right_by": jn.expr("name IN ('K0', 'K2')")}
SPECS = [
    jn.Asof(**ON),
    jn.Asof(**ON, **BY, direction="nearest", tolerance=5, how="full"),
    jn.Asof(left_on="k", right_on=jn.expr("at div 24"), how="semi"),
    jn.Range(**ON, **BY, lower=-2, upper=3),
    jn.Range(**ON, lower=-24, upper=0, agg={"row": ["sum", "max"]}),
    jn.Overlap(
        left_interval=("hour", jn.expr("hour + 2")), right_interval=(jn.expr("at % 24"), jn.expr("at % 24 + 1")), **BY
    ),
    jn.Where("l.hour < r.at", **BY, how="anti"),
    jn.Equi(left_on=[jn.expr("day * 24 + hour")], right_on=["at"], how="full"),
]
REFERENCE = {
    "asof": reference.asof_join,
    "range": reference.range_join,
    "overlap": reference.overlap_join,
    "where": reference.where_join,
    "equi": reference.equi_join,
}

ALGORITHMS = {"asof": LOCAL, **LOCAL_NEAR}


def expected_of(spec: Any) -> pa.Table:
    return REFERENCE[spec.kind](spec.resolve(LEFT.schema, RIGHT.schema), LEFT, RIGHT)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_in_process(spec, tmp_path):
    expected = expected_of(spec)
    for algorithm in ALGORITHMS[spec.kind]:
        answer = jn.plan(LEFT, RIGHT, spec, algorithm=algorithm).execute()
        assert difference(answer, expected, ordered=False) is None, algorithm
    paths = [str(tmp_path / f"{side}.parquet") for side in ("left", "right")]
    for table, path in zip((LEFT, RIGHT), paths, strict=True):
        pq.write_table(table, path, row_group_size=20)
    assert difference(jn.plan(*paths, spec).execute(), expected, ordered=False) is None


@pytest.mark.in_turn
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_on_spark(spark, spec):
    expected, join = expected_of(spec), spec.resolve(LEFT.schema, RIGHT.schema)
    algorithms = [each for each in SPARK if not refuses(each, join)] if spec.kind == "asof" else ["auto"]
    for algorithm in algorithms:
        answer = run_on_spark(spark, spec, LEFT, RIGHT, algorithm)
        assert difference(answer, expected, ordered=False) is None, algorithm


def test_they_are_columns_that_are_not_shown():
    made = LEFT.append_column("x", pa.array([None if h is None else d * 24 + h for d, h in hours()]))
    ours = jn.join_asof(LEFT, RIGHT, **ON, direction="nearest")
    theirs = jn.join_asof(made, RIGHT, left_on="x", right_on="at", direction="nearest")
    assert ours.equals(theirs.drop_columns("x"))


def hours() -> list[tuple[int, int | None]]:
    return list(zip(LEFT["day"].to_pylist(), LEFT["hour"].to_pylist(), strict=True))


def test_duckdb():
    with duckdb.connect() as connection:
        connection.register("l", LEFT).register("r", RIGHT)
        query = "SELECT l.row, max(r.at) FROM l LEFT JOIN r ON r.at <= day * 24 + hour GROUP BY 1 ORDER BY 1"
        assert jn.join_asof(LEFT, RIGHT, **ON)["at"].to_pylist() == [at for _, at in connection.sql(query).fetchall()]


def test_dates_and_lengths_of_time():
    opened = pa.table({"date": [date(2024, 1, 1), date(2024, 1, 2)], "open": [timedelta(hours=9), timedelta(hours=8)]})
    seen = pa.table({"at": [datetime(2024, 1, 1, 8), datetime(2024, 1, 1, 9), datetime(2024, 1, 2, 8, 30)]})
    on = jn.expr("CAST(date AS TIMESTAMP_NTZ) + open")
    days = jn.join_asof(seen, opened, left_on="at", right_on=on)["date"].to_pylist()
    assert days == [None, date(2024, 1, 1), date(2024, 1, 2)]


def test_what_is_made_has_a_name_of_its_own():
    table = pa.table({"a": [1, 2], "a + 1": [10, 20]})
    joined = jn.join_asof(table, table, on=jn.expr("a + 1"), suffix="_r")
    assert joined.to_pydict() == {"a": [1, 2], "a + 1": [10, 20], "a_r": [1, 2], "a + 1_r": [10, 20]}
    plan = jn.plan(table, table, jn.Asof(on=jn.expr("a + 1"), by=jn.expr("a + 1"), direction="nearest"))
    assert "of equal a + 1, by a + 1 (left join)" in plan.explain()
    other = pa.table({"text": ["x"]})
    for kind in (jn.Equi, jn.Asof):
        with pytest.raises(SchemaError, match=r"left 'a \+ 1' .int64."):
            jn.plan(table, other, kind(left_on=jn.expr("a + 1"), right_on="text"))


def test_explain_says_the_expression():
    text = jn.plan(LEFT, RIGHT, SPECS[1]).explain()
    assert "by day * 24 + hour" in text
    assert "k % 2 = 0 = right name IN ('K0', 'K2')" in text


def test_specs_with_them_are_values():
    for spec in SPECS:
        assert type(spec).from_dict(spec.to_dict()) == spec
        assert pickle.loads(pickle.dumps(spec)) == spec
    assert jn.expr("a") == jn.Expr("a")
    assert str(jn.expr("a + 1")) == "a + 1"


def test_frames_of_pandas_and_polars():
    expected = jn.join_asof(LEFT, RIGHT, **ON)["row_right"].to_pylist()
    frame = jn.join_asof(pl.from_arrow(LEFT), RIGHT, **ON)
    assert frame["row_right"].to_list() == expected
    assert frame.columns == ["day", "hour", "k", "row", "at", "name", "row_right"]
    pandas = jn.join_asof(LEFT.to_pandas(), RIGHT, **ON)
    assert pandas["row_right"].convert_dtypes().to_numpy(object, na_value=None).tolist() == expected
    assert list(pandas.columns) == frame.columns


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": jn.expr("dya + 1")}, SchemaError, "on=, in an expression over the left table"),
        ({"on": jn.expr("day +")}, SpecError, "on=, in an expression over the left table"),
        ({"left_on": jn.expr("upper('a')"), "right_on": "at"}, SchemaError, ".string. with right 'at' .int64."),
        ({"on": "day", "by": jn.expr("r.day")}, SchemaError, "by=, in an expression over the left table"),
    ],
)
def test_what_does_not_fit(arguments, error, said):
    with pytest.raises(error, match=said):
        jn.join_asof(LEFT, RIGHT if "right_on" in arguments else LEFT, **arguments)


def test_what_is_no_expression():
    for value in ("", 5, None):
        with pytest.raises(SpecError, match="has no SQL text"):
            jn.expr(value)
    with pytest.raises(SpecError, match="is an expression, but interpolation needs columns"):
        jn.interpolate(LEFT, RIGHT, left_on=jn.expr("day"), right_on="at", columns="row")
