"""The Spark session of a timed run, and what it makes of a query."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from juncture_benchmarks.pairs import Answer, weights_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BATCH_BYTES", "bench_session", "observed_answer"]

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Bytes that Spark sends to Python at once. Spark measures every row, except with the greatest number."""

_SETTINGS = {
    "spark.driver.memory": "8g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # As the docs advise. What runs in the JVM alone is as fast with it and without.
    BATCH_BYTES: "2147483647",
}


def bench_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark on all cores of this machine, with its defaults in all that matters here.

    Parameters
    ----------
    settings
        Further settings of a workload.
    """
    # Workers would take the `python3` of the PATH otherwise.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("juncture bench")
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def observed_answer(joined: DataFrame, ids: tuple[str, str]) -> Answer:
    """Run a query to its end, discard the rows, and return a checksum of them.

    Parameters
    ----------
    joined
        The query.
    ids
        The columns that number the left and the right row of each of its rows.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    products = ("*".join(weights_sql(name, which) for name in ids) for which in range(2))
    first, second = (F.sum(F.expr(each)) for each in products)
    observation = Observation()
    observed = joined.observe(
        observation, F.count(F.lit(1)).alias("rows"), first.alias("first"), second.alias("second")
    )
    observed.write.format("noop").mode("overwrite").save()
    found = observation.get
    return Answer(rows=found["rows"], sums=(found["first"] or 0, found["second"] or 0))
