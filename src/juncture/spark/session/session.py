"""Spark sessions: starting one, and its resources by public means."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from juncture.errors import PlanError
from juncture.planner.constants import constants_at_hand
from juncture.planner.statistics import Resources
from juncture.spark.session.java import java_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER_MEMORY = "512m"
"""Spark's default memory of a Python worker before it spills."""

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting for the bytes of a batch for Python."""
BATCH_BYTES_UNLIMITED = "2147483647"
"""Its value that limits batches by rows only."""

_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def local_session(
    app_name: str = "juncture",
    cores: int | None = None,
    memory: str | None = None,
    connect: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark on this machine, or return the existing session.

    `memory` is the JVM's, such as ``"4g"``; None for Spark's default. `cores` is the number of tasks, None for all
    cores. One process cannot have both a classic session and one of Spark Connect. Raises `PlanError` without a
    suitable Java.
    """
    chosen = {} if memory is None else {"spark.driver.memory": memory}
    where = f"local[{cores or '*'}]"
    return session_at(where, app_name, remote=where if connect else None, settings={**chosen, **(settings or {})})


def session_at(
    master: str, app_name: str = "juncture", *, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark at an address, or return the existing session.

    `master` is a cluster or ``"local[*]"``. `remote` is a Spark Connect server, such as ``"sc://host"``, or
    ``"local[*]"`` to start one here. Raises `PlanError` without a suitable Java.
    """
    is_elsewhere = remote is not None and not remote.startswith("local")
    problem = None if is_elsewhere else java_problem()
    if problem:
        raise PlanError(problem, name="JN-JAVA-MISSING")
    # Otherwise workers would use the `python3` of the PATH, which may belong to another environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    chosen = {
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_elsewhere:
        # A client cannot change a server's settings.
        chosen = {"spark.sql.session.timeZone": "UTC"}
    chosen[BATCH_BYTES] = BATCH_BYTES_UNLIMITED
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def setting(session: SparkSession, name: str) -> str | None:
    """Return the value of a setting, or None.

    Missing settings raise errors of different classes in classic Spark and Spark Connect.
    """
    return session.conf.get(name, None)


def resources(session: SparkSession) -> Resources:
    """Return the number of concurrent tasks and the memory of each, without a job.

    The number of tasks is Spark's default for a range of numbers: its known cores. Memory is the limit of a Python
    worker before it spills. Raises `SpecError` for an invalid file of constants.
    """
    cores = _cores_by_settings(session) or _cores_by_context(session) or _cores_by_plan(session)
    per_executor = setting(session, "spark.executor.pyspark.memory")
    if per_executor is not None:
        share = _bytes(per_executor) // int(setting(session, "spark.executor.cores") or 1)
    else:
        share = _bytes(setting(session, "spark.python.worker.memory") or _WORKER_MEMORY)
    constants = constants_at_hand()
    if not limits_batch_bytes(session):
        constants = replace(constants, row_size_ns=0)
    return Resources(cores=max(1, cores), memory_bytes=share, constants=constants)


def limits_batch_bytes(session: SparkSession) -> bool:
    """Return whether Spark limits the bytes of batches for Python, and so adds up the sizes of all columns per row."""
    limit = setting(session, BATCH_BYTES)
    return limit is not None and limit.strip().lower().removesuffix("b") != BATCH_BYTES_UNLIMITED


def _cores_by_settings(session: SparkSession) -> int | None:
    """Return the number of cores from settings, without a query, or None if the cluster decides."""
    for name in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        said = setting(session, name)
        if said is not None:
            return int(said)
    # "local[2]", or "local[2, 3]" with three attempts per task.
    here = re.match(r"local\[(\d+)", setting(session, "spark.master") or "")
    return int(here[1]) if here else None


def _cores_by_context(session: SparkSession) -> int | None:
    """Return the default parallelism of a classic session, without a query; None on Spark Connect."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return None
    return int(session.sparkContext.defaultParallelism)


def _cores_by_plan(session: SparkSession) -> int:
    """Return the number of tasks that Spark plans for a range of numbers."""
    try:
        plan = session.sql("EXPLAIN SELECT * FROM range(0, 9)").collect()[0][0]
    except PySparkException as error:
        # Spark rejects explain() while it collects the tables of a declarative pipeline.
        if error.getCondition() != "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND":
            raise
        plan = ""
    splits = re.search(r"splits=(?:Some\()?(\d+)", plan)
    return int(splits[1]) if splits else int(session.conf.get("spark.sql.shuffle.partitions") or 200)


def _bytes(text: str) -> int:
    """Parse an amount of memory in Spark's format, by default mebibytes."""
    whole = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    return int(whole[1]) * _UNITS[whole[2]] if whole else _bytes(_WORKER_MEMORY)
