"""Spark sessions: one for this machine, and what any of them says about itself by public means."""

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
"""What Spark lets a Python worker hold before it spills, where nobody has said otherwise."""

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting of how many bytes it hands to Python at once."""
BATCH_BYTES_UNLIMITED = "2147483647"
"""Its value with which batches are limited by their rows alone."""

_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def local_session(
    app_name: str = "juncture",
    cores: int | None = None,
    memory: str | None = None,
    connect: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark on this machine, or return the session that is there.

    Parameters
    ----------
    app_name
        What Spark calls the session.
    cores
        How many tasks run at once; all cores if None.
    memory
        Of the JVM, such as ``"4g"``; Spark's own choice if None.
    connect
        Whether to go through Spark Connect. One process cannot have both kinds of session.
    settings
        More of Spark's settings, by name.

    Raises
    ------
    PlanError
        If there is no Java that Spark can use.
    """
    chosen = {} if memory is None else {"spark.driver.memory": memory}
    where = f"local[{cores or '*'}]"
    return session_at(where, app_name, remote=where if connect else None, settings={**chosen, **(settings or {})})


def session_at(
    master: str, app_name: str = "juncture", *, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark somewhere, or return the session that is there.

    Parameters
    ----------
    master
        The address of a cluster, or ``"local[*]"`` for this machine.
    app_name
        What Spark calls the session.
    remote
        The address of a Spark Connect server, such as ``"sc://host"``, in place of the master; or ``"local[*]"`` to
        start one here.
    settings
        More of Spark's settings, by name.

    Raises
    ------
    PlanError
        If there is no Java that Spark can use.
    """
    is_elsewhere = remote is not None and not remote.startswith("local")
    problem = None if is_elsewhere else java_problem()
    if problem:
        raise PlanError(problem, name="JN-JAVA-MISSING")
    # Workers would take the `python3` of the PATH otherwise, which may be of another environment.
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
        # A server has settings of its own, which a client cannot change.
        chosen = {"spark.sql.session.timeZone": "UTC"}
    chosen[BATCH_BYTES] = BATCH_BYTES_UNLIMITED
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def setting(session: SparkSession, name: str) -> str | None:
    """Return the value of a setting, or None if it has none.

    Settings that are not there raise errors of different classes in classic Spark and in Spark Connect.
    """
    return session.conf.get(name, None)


def resources(session: SparkSession) -> Resources:
    """Say how many tasks run at once, and what each may hold, as far as a session tells.

    Raises
    ------
    SpecError
        If the file of constants that the environment names is not one.

    Notes
    -----
    No job is run. The tasks are those that Spark itself would make of a range of numbers, which is the number of cores
    that it knows of; memory is what a Python worker may hold before it spills.
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
    """Tell whether Spark adds up the sizes of all columns for each row, to limit the bytes that it hands to Python."""
    limit = setting(session, BATCH_BYTES)
    return limit is not None and limit.strip().lower().removesuffix("b") != BATCH_BYTES_UNLIMITED


def _cores_by_settings(session: SparkSession) -> int | None:
    """Return the number of cores as settings say it, which takes no query, or None where Spark asks its cluster."""
    for name in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        said = setting(session, name)
        if said is not None:
            return int(said)
    # "local[2]", or "local[2, 3]" where tasks are tried three times.
    here = re.match(r"local\[(\d+)", setting(session, "spark.master") or "")
    return int(here[1]) if here else None


def _cores_by_context(session: SparkSession) -> int | None:
    """Return what the context of a classic session says, which is a call and no query; None through Spark Connect."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return None
    return int(session.sparkContext.defaultParallelism)


def _cores_by_plan(session: SparkSession) -> int:
    """Return into how many tasks Spark would cut a range of numbers."""
    try:
        plan = session.sql("EXPLAIN SELECT * FROM range(0, 9)").collect()[0][0]
    except PySparkException as error:
        # While Spark gathers the tables of a declarative pipeline, it explains nothing.
        if error.getCondition() != "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND":
            raise
        plan = ""
    splits = re.search(r"splits=(?:Some\()?(\d+)", plan)
    return int(splits[1]) if splits else int(session.conf.get("spark.sql.shuffle.partitions") or 200)


def _bytes(text: str) -> int:
    """Read an amount of memory as Spark writes it, in mebibytes where there is no unit."""
    whole = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    return int(whole[1]) * _UNITS[whole[2]] if whole else _bytes(_WORKER_MEMORY)
