"""Joins under any supported version of PySpark, with nothing but what PySpark 3.5 has.

`make test-spark-versions` runs them under each version; elsewhere they run under the installed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

import juncture as jn
from juncture.errors import PlanError
from juncture.spark.frames import from_arrow, to_arrow
from juncture.spark.session.session import is_connect, version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from juncture.spec.kinds import Spec

LEFT = pa.table(
    {
        "ts": pa.array([None if i % 11 == 0 else i * 7 % 40 for i in range(60)], pa.int64()),
        "k": pa.array([None if i % 13 == 0 else f"k{i % 4}" for i in range(60)]),
        "a": pa.array([float(i) for i in range(60)]),
    }
)
RIGHT = pa.table(
    {
        "ts": pa.array([None if i % 9 == 0 else i * 5 % 43 for i in range(50)], pa.int64()),
        "k": pa.array([None if i % 7 == 0 else f"k{i % 5}" for i in range(50)]),
        "b": pa.array([f"row {i}" for i in range(50)]),
    }
)
ASOF = jn.Asof(on="ts", by="k", tolerance=6)
PAIRS = jn.Where("l.k = r.k AND l.ts >= r.ts - 2 AND l.ts < r.ts + 3")
CASES = [
    *((ASOF, algorithm) for algorithm in ("broadcast", "broadcast_left", "hash", "range", "window")),
    (jn.Asof(on="ts", how="full"), "auto"),
    (jn.Range(on="ts", by="k", lower=-3, upper=1), "auto"),
    (jn.Range(on="ts", by="k", lower=-3, upper=1), "bins"),
    (PAIRS, "auto"),
    (PAIRS, "sql"),
    (jn.Equi(on="k", how="full"), "auto"),
]


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return from_arrow(spark, LEFT), from_arrow(spark, RIGHT)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("spec", "algorithm"), CASES, ids=lambda value: value if isinstance(value, str) else value.kind
)
def test_a_join_returns_the_rows_of_the_one_in_process(frames, spec: Spec, algorithm: str):
    joined = jn.plan(*frames, spec, algorithm=algorithm).execute()
    assert rows_of(to_arrow(joined)) == rows_of(jn.plan(LEFT, RIGHT, spec).execute())


def test_an_explanation_needs_no_job(frames):
    assert "jobs       none" in jn.plan(*frames, ASOF, lazy=True).explain()


def test_rows_go_to_arrow_and_back_with_their_values_and_types(spark: SparkSession):
    table = pa.table(
        {
            "time": pa.array([0, None, 1_700_000_000_123_456], pa.timestamp("us", "UTC")),
            "local": pa.array([None, -1, 1_700_000_000_123_456], pa.timestamp("us")),
            "number": pa.array([None, "-1.50", "99999999.25"]).cast(pa.decimal128(10, 2)),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
            "bytes": pa.array([b"\x00", None, b""]),
        }
    )
    assert to_arrow(from_arrow(spark, table)).to_pylist() == table.to_pylist()


def test_a_stream_joins_or_is_refused_by_the_version(hosting: SparkSession):
    stream = hosting.readStream.format("rate").load().select(F.col("value").alias("ts"))
    order, spec = jn.Order("ts", delay=5), jn.Range(on="ts", lower=-3, upper=0)
    least = (4, 1) if is_connect(hosting) else (4, 0)
    if version_of(hosting) >= least:
        assert "ts" in jn.plan_stream(stream, stream, spec, left_order=order, right_order=order).explain()
        return
    with pytest.raises(PlanError, match=r"transformWithState of Spark (Connect )?4\.\d or newer"):
        jn.plan_stream(stream, stream, spec, left_order=order, right_order=order)
