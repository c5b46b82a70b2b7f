"""The Spark session of a timed run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["bench_session"]

_SETTINGS = {
    "spark.driver.memory": "8g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}


def bench_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark on all cores of this machine, with its defaults in all that matters here.

    Parameters
    ----------
    settings
        What a workload needs besides.
    """
    # Workers would take the `python3` of the PATH otherwise.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("juncture bench")
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
