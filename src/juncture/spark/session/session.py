"""Spark sessions: starting one, its resources by public means, and a check of its Python workers.

Spark chooses the workers' Python: ``PYSPARK_PYTHON`` at the start of Spark, or any ``python3``. It may lack Juncture
or have another version, and a task would fail with an import traceback.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from juncture.errors import PlanError
from juncture.planner.constants import constants_at_hand
from juncture.planner.statistics import Resources
from juncture.spark.session.java import java_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WORKER_MEMORY = "512m"  # Spark's default memory of a Python worker before it spills

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting for the bytes of a batch for Python."""
BATCH_BYTES_UNLIMITED = "2147483647"
"""Its value that limits batches by rows only."""

_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def session_at(
    master: str, app_name: str = "juncture", *, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark at an address, or return the existing session.

    `master` is a cluster or ``"local[*]"``. `remote` is a Spark Connect server, such as ``"sc://host"``, or
    ``"local[*]"`` to start one here. One process cannot have both a classic session and one of Spark Connect. Raises
    `PlanError` without a suitable Java.
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
    """Return the value of a setting, or None: missing ones raise errors of different classes in classic and Connect."""
    return session.conf.get(name, None)


def version_of(session: SparkSession) -> tuple[int, ...]:
    """Return the major and minor version of Spark, on Connect the server's."""
    return tuple(map(int, re.findall(r"\d+", session.version)[:2]))


def is_connect(value: SparkSession | DataFrame) -> bool:
    """Return whether a session or DataFrame is one of Spark Connect."""
    return type(value).__module__.startswith("pyspark.sql.connect")


def check_streams_run(session: SparkSession) -> None:
    """Raise `PlanError` if Spark lacks the stateful operator of streaming joins."""
    on_connect = is_connect(session)
    if version_of(session) < ((4, 1) if on_connect else (4, 0)):
        needed = "Spark Connect 4.1" if on_connect else "Spark 4.0"
        raise PlanError(
            f"A table is a streaming DataFrame of Spark {session.version}, but joins of streams need "
            f"transformWithState of {needed} or newer. Use a newer Spark, or jn.stream with Arrow schemas here.",
            name="JN-SPARK-VERSION",
        )


def resources(session: SparkSession) -> Resources:
    """Return the number of concurrent tasks and the memory of each, without a job; raise `SpecError` for bad constants.

    Tasks are Spark's default for a range of numbers: its known cores. Memory is a Python worker's before it spills.
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
        value = setting(session, name)
        if value is not None:
            return int(value)
    # "local[2]", or "local[2, 3]" with three attempts per task.
    here = re.match(r"local\[(\d+)", setting(session, "spark.master") or "")
    return int(here[1]) if here else None


def _cores_by_context(session: SparkSession) -> int | None:
    """Return the default parallelism of a classic session, without a query; None on Spark Connect."""
    return None if is_connect(session) else int(session.sparkContext.defaultParallelism)


def _cores_by_plan(session: SparkSession) -> int:
    """Return the number of tasks that Spark plans for a range of numbers."""
    try:
        plan = session.sql("EXPLAIN SELECT * FROM range(0, 9)").collect()[0][0]
    except PySparkException as error:
        # Spark rejects explain() while it collects the tables of a declarative pipeline.
        if "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND" not in str(error):
            raise
        plan = ""
    splits = re.search(r"splits=(?:Some\()?(\d+)", plan)
    return int(splits[1]) if splits else int(session.conf.get("spark.sql.shuffle.partitions") or 200)


def _bytes(text: str) -> int:
    """Parse an amount of memory in Spark's format, by default mebibytes."""
    match = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else _bytes(_WORKER_MEMORY)


_SESSIONS = 4  # number of sessions whose successful check is cached


@dataclass(frozen=True)
class Worker:
    """A worker's Python: its path, its version of Juncture (empty if none), and missing packages."""

    executable: str
    version: str
    missing: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Return why it cannot run tasks, or None."""
        if self.missing:
            return f"Spark's workers run {self.executable}, which cannot import {' and '.join(self.missing)}."
        if self.version != _version():
            here = f"this process has {_version()}"
            return f"Spark's workers run {self.executable} with juncture {self.version}, but {here}."
        return None


def check_workers(session: SparkSession, others: Sequence[str]) -> None:
    """Raise `PlanError` if a Python worker cannot run tasks, by one small job per session; `others` need no Python."""
    try:
        check_session(session)
    except PlanError as error:
        names = " or ".join(map(repr, others))
        instead = f" Or pass algorithm={names}, which needs no Python workers." if others else ""
        raise PlanError(
            f"{error.message} Before Spark starts, set PYSPARK_PYTHON to a Python {sys.version_info[0]}."
            f"{sys.version_info[1]} on its machines with juncture {_version()} (here: {sys.executable}).{instead}",
            name="JN-WORKER-PYTHON",
        ) from error.__cause__


@lru_cache(_SESSIONS)
def check_session(session: SparkSession) -> None:
    """Raise `PlanError` if a worker cannot run tasks. Only success is cached."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    # Without Arrow, which may be what is missing.
    question = F.udf(_question(), "string", useArrow=False)
    try:
        answer = session.range(1).select(question("id")).collect()[0][0]
    except Exception as error:  # what Python, Py4J, the JVM and Spark Connect raise has nothing else in common
        raise PlanError(no_answer(str(error)), name="JN-WORKER-PYTHON") from error
    problem = Worker(**json.loads(answer)).problem
    if problem is not None:
        raise PlanError(problem, name="JN-WORKER-PYTHON")


def _question() -> Callable[[int], str]:
    """Return the check as code, since a worker may lack the module."""

    def answer(_: int) -> str:
        import json
        import sys
        from importlib import import_module

        versions, missing = {}, []
        for name in ("juncture", "numba", "numpy", "pyarrow"):
            try:
                versions[name] = import_module(name).__version__
            except ImportError:
                missing.append(name)
        version = versions.get("juncture", "")
        return json.dumps({"executable": sys.executable, "version": version, "missing": missing})

    return answer


def _version() -> str:
    return str(import_module("juncture").__version__)


def no_answer(message: str) -> str:
    """Return one sentence from Spark's message for a worker that did not answer."""
    versions = re.search(r"Python in worker has different version: (\S+) than that in driver: ([\d.]+)", message)
    if versions:
        return f"Spark's workers run Python {versions[1]}, but this process runs Python {versions[2].rstrip('.')}."
    missing = re.search(r'Cannot run program "([^"]+)"', message)
    if missing:
        return f"Spark's workers run {missing[1]}, which does not exist."
    # The last line of Python's traceback, which is inside the JVM's.
    errors = re.findall(r"^\w+(?:Error|Exception): .*$", message, re.MULTILINE) or [message.strip().partition("\n")[0]]
    return f"Spark's workers cannot run Python: {errors[-1].rstrip('.')}."
