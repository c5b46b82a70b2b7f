"""As-of joins by what has an order and is no number: lengths of time, times of day, texts and bytes."""

from __future__ import annotations

from datetime import time, timedelta

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError, SpecError
from juncture.ordered.kinds import RoughCoder
from support.engines import LOCAL, to_spark

chance = np.random.default_rng(5)
SECONDS = [chance.choice(86_400, count, replace=False) for count in (40, 60)]
WORDS = ["", "a", "a\x00", "ab", "abcdefgh", "abcdefghi", "b", "z", "é", "🙂"]


def tables(data_type: pa.DataType, factor: int) -> tuple[pa.Table, pa.Table]:
    left, right = (
        pa.table({"at": pa.array(seconds * factor, pa.int64()).cast(data_type), "row": range(len(seconds))})
        for seconds in SECONDS
    )
    return left, right


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_pandas_agrees_on_lengths_of_time(direction, algorithm):
    left, right = tables(pa.duration("us"), 10**6)
    frames = [side.to_pandas().sort_values("at") for side in (left, right)]
    theirs = pd.merge_asof(*frames, on="at", direction=direction, tolerance=pd.Timedelta("20m"), suffixes=("", "_r"))
    ours = jn.join_asof(left, right, on="at", direction=direction, tolerance="20m", algorithm=algorithm)
    expected = theirs.sort_values("row")["row_r"].convert_dtypes().to_numpy(object, na_value=None).tolist()
    assert ours["row_right"].to_pylist() == expected


@pytest.mark.parametrize("algorithm", LOCAL)
def test_polars_agrees_on_times_of_day(algorithm):
    left, right = tables(pa.time64("us"), 10**6)
    frames = [pl.from_arrow(side).sort("at") for side in (left, right)]
    theirs = frames[0].join_asof(frames[1], on="at", strategy="forward").sort("row")
    ours = jn.join_asof(left, right, on="at", direction="forward", algorithm=algorithm)
    assert ours["row_right"].to_pylist() == theirs["row_right"].to_list()


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("data_type", [pa.string(), pa.binary()], ids=str)
def test_duckdb_agrees_on_texts_and_bytes(data_type, algorithm):
    words = [word if pa.types.is_string(data_type) else word.encode() for word in WORDS]
    left = pa.table({"at": pa.array([*words, None, words[3][:1]], data_type), "row": range(len(words) + 2)})
    right = pa.table({"at": pa.array([*words[1::2], None], data_type), "other": range(len(words) // 2 + 1)})
    with duckdb.connect() as connection:
        connection.register("l", left).register("r", right)
        query = "SELECT other FROM l ASOF LEFT JOIN r ON l.at >= r.at ORDER BY l.row"
        expected = [other for (other,) in connection.sql(query).fetchall()]
    assert jn.join_asof(left, right, on="at", algorithm=algorithm)["other"].to_pylist() == expected


def test_times_of_several_units():
    left = pa.table({"at": pa.array([time(9), time(10)], pa.time32("s"))})
    right = pa.table({"at": pa.array([time(9, 0, 0, 1), time(9, 59)], pa.time64("us")), "v": [1, 2]})
    assert jn.join_asof(left, right, on="at")["v"].to_pylist() == [None, 2]
    assert jn.join_asof(left, right, on="at", tolerance=timedelta(seconds=30))["v"].to_pylist() == [None, None]


@pytest.mark.parametrize("arguments", [{"direction": "nearest"}, {"tolerance": 1}, {"tolerance": "5m"}], ids=str)
def test_texts_have_no_distances(arguments):
    table = pa.table({"at": ["a"]})
    with pytest.raises(SpecError, match="is text, which has no distances"):
        jn.join_asof(table, table, on="at", **arguments)


def test_rough_codes_are_in_the_order_of_texts():
    for array in (pa.array(WORDS), pa.array(WORDS, pa.large_string()), pa.array(WORDS).slice(2)):
        codes, valid = RoughCoder((array.type, array.type)).encode(array)
        assert valid is None or valid.all()
        assert codes.tolist() == sorted(codes.tolist())
    codes, valid = RoughCoder((pa.binary(), pa.binary())).encode(pa.array([None, b"\xff" * 9, b""]))
    assert valid is not None
    assert valid.tolist() == [False, True, True]
    assert codes[1] > codes[2]


def test_reports():
    left, right = pa.table({"at": ["b", "a", None]}), pa.table({"at": ["a", "aa"]})
    report = jn.plan(left, right, jn.Asof(on="at")).match_report()
    assert (report.matched, report.null_on, report.distances) == (2, 1, None)
    assert "by at" in jn.plan(left, right, jn.Asof(on="at")).explain()
    left, right = tables(pa.duration("s"), 1)
    assert jn.plan(left, right, jn.Asof(on="at")).match_report().distances.is_time


def test_spark_compares_them_in_tasks_alone(spark):
    table = to_spark(spark, pa.table({"at": ["b", "a"]}))
    with pytest.raises(PlanError, match="the on columns are of kind text, which only Python tasks compare"):
        jn.plan(table, table, jn.Asof(on="at"), algorithm="window")
    table = to_spark(spark, pa.table({"at": pa.array([1, 2], pa.duration("us"))}))
    assert jn.plan(table, table, jn.Asof(on="at"), algorithm="broadcast").match_report().distances.is_time


@pytest.mark.parametrize("data_type", [pa.string(), pa.duration("us"), pa.time64("us")], ids=str)
def test_streams_and_changes_refuse_them(data_type):
    schema = pa.schema([("at", data_type)])
    with pytest.raises(PlanError, match="cannot order by"):
        jn.changes(schema, schema, jn.Asof(on="at"))
    with pytest.raises(PlanError, match="cannot order by"):
        jn.stream(schema, schema, jn.Asof(on="at"), allow_unbounded=True)
