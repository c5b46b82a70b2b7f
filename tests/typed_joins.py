"""Joins as users write them, for `make lint`: what comes back for each library, and mistakes that a checker finds.

Nothing runs them. A mistake that is not found is an error, since then there is nothing to ignore.
"""

from __future__ import annotations

from typing import Any, Unpack, assert_type

import pandas as pd
import polars as pl
import pyspark.sql

import juncture as jn


def known(
    frame: pd.DataFrame, table: pl.DataFrame, lazy: pl.LazyFrame, spark: pyspark.sql.DataFrame, other: Any
) -> None:
    assert_type(jn.join_asof(frame, other, on="ts", by=["a", "b"], tolerance="5m"), pd.DataFrame)
    assert_type(jn.join_asof(table, other, left_on=["date", "time"], right_on=["day", jn.expr("at")]), pl.DataFrame)
    assert_type(jn.join_range(table, other, on="ts", lower=-5), pl.DataFrame)
    assert_type(jn.join_where(lazy, other, "l.a < r.b"), pl.LazyFrame)
    assert_type(jn.join(spark, "right.parquet", on="id"), pyspark.sql.DataFrame)
    intervals = jn.join_overlap(left=frame, right=other, left_interval=("a", "b"), right_interval=("a", None))
    assert_type(intervals, pd.DataFrame)
    assert_type(jn.join(other, other, on="id"), Any)
    assert_type(jn.stream(spark, spark, jn.Asof(on="ts"), left_order=jn.Order("ts")), pyspark.sql.DataFrame)
    assert_type(jn.changes("dimension", spark, jn.Equi(on="id"), output="debezium"), pyspark.sql.DataFrame)


def passed_on(frame: pd.DataFrame, **execution: Unpack[jn.Execution]) -> pd.DataFrame:
    return jn.join_asof(frame, frame, on="ts", **execution)


def wrong(frame: pd.DataFrame) -> None:
    jn.join_asof(frame, frame, on="ts", tolerence="5m")  # type: ignore[call-overload]
    jn.join_range(frame, frame, on="ts", how="outer")  # type: ignore[call-overload]
    jn.join_overlap(frame, frame, left_interval=("a", "b"))  # type: ignore[call-overload]
    jn.join_where(frame, frame)  # type: ignore[call-overload]
    jn.join(frame, frame, on=3)  # type: ignore[call-overload]
    jn.join(frame, frame, on="id", memory=0.5)  # type: ignore[call-overload]
    jn.plan(frame, frame, jn.Equi(on="id"), algoritm="hash")  # type: ignore[call-arg]
    jn.plan(frame, frame, jn.Equi(on="id"), lazy="yes")  # type: ignore[arg-type]
    jn.join_many(frame, {}, memmory="1GB")  # type: ignore[arg-type]
    jn.interpolate(frame, frame, on="ts", columns="level", sufix="_r")  # type: ignore[arg-type]
