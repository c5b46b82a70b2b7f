"""Trades with the quote that was in force, and what they cost beyond it, as views that Spark keeps."""

import datetime

import pyspark.sql
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import juncture as jn

spark = SparkSession.active()
NOON = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)


def moments(every_s: int, count: int) -> pyspark.sql.DataFrame:
    """Return rows with a symbol, a number of seconds apart."""
    rows = spark.range(count).selectExpr(f"timestamp_seconds({NOON.timestamp()} + {every_s} * id) AS ts", "id")
    return rows.selectExpr("ts", "IF(id % 2 = 0, 'a', 'b') AS symbol", "CAST(id AS DOUBLE) AS value")


# Joins look at the columns of their tables, which Spark allows only outside of the functions; `lazy=True` runs nothing.
trades, quotes = moments(3, 40).withColumnRenamed("value", "price"), moments(2, 60).withColumnRenamed("value", "bid")
joined = jn.join_asof(trades, quotes, on="ts", by="symbol", tolerance="5s", lazy=True)


@dp.materialized_view
def quoted() -> pyspark.sql.DataFrame:
    """Return each trade with the latest quote of its symbol, at most five seconds old."""
    return joined


@dp.materialized_view
def margins() -> pyspark.sql.DataFrame:
    """Return what each trade cost beyond its quote."""
    return spark.table("quoted").selectExpr("ts", "symbol", "price - bid AS margin")
