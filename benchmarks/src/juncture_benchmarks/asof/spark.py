"""The as-of join on Spark, by each algorithm of Juncture, and as Spark users write it.

Every run has a session of its own, which has done the whole join once before the clock starts. That first result is
written to Parquet and checked; the timed one goes to Spark's ``noop`` sink.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.dataset as ds

from juncture_benchmarks.asof.answer import found_answer
from juncture_benchmarks.asof.local import Task
from juncture_benchmarks.datasets import AsofTables
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.session import BATCH_BYTES, bench_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Input = Literal["frames", "scans", "paths"]
"""DataFrames whose rows come from the JVM, DataFrames that are no more than a scan of files, and paths."""

UNION_AND_WINDOW = """
    SELECT ts, {columns} val, matched.ts AS ts_right, matched.val AS val_right
    FROM (
        SELECT *, last(candidate, true) OVER (
            {partition} ORDER BY ts, is_left ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS matched
        FROM (
            SELECT ts, {columns} val, 1 AS is_left, CAST(NULL AS STRUCT<ts: BIGINT, val: DOUBLE>) AS candidate
            FROM {{left}}
            UNION ALL
            SELECT ts, {columns} NULL, 0, struct(ts, val)
            FROM {{right}}
        )
    )
    WHERE is_left = 1
"""
"""Union both tables, order them by time within each key, carry the last right row forward: what tempo does."""

NATIVE = """
    SELECT l.*, r.ts AS ts_right, r.val AS val_right
    FROM {{left}} l LEFT ASOF JOIN {{right}} r MATCH_CONDITION (l.ts >= r.ts) {condition}
"""
"""Spark's own as-of join."""


def union_and_window(task: Task, session: SparkSession) -> DataFrame:
    """Join with a union and a window."""
    columns = f"{task.by}," if task.by else ""
    partition = f"PARTITION BY {task.by}" if task.by else ""
    return _query(UNION_AND_WINDOW.format(columns=columns, partition=partition), task, session)


def native(task: Task, session: SparkSession) -> DataFrame:
    """Join with Spark's own as-of join."""
    condition = f"ON l.{task.by} = r.{task.by}" if task.by else ""
    return _query(NATIVE.format(condition=condition), task, session)


def _query(query: str, task: Task, session: SparkSession) -> DataFrame:
    left, right = (session.read.parquet(side) for side in (task.left, task.right))
    return session.sql(query, left=left, right=right)


def juncture(task: Task, session: SparkSession, given: Input, algorithm: str) -> tuple[DataFrame, str]:
    """Join with Juncture; also returns the algorithm that was chosen."""
    import juncture as jn

    spec = jn.Asof(on="ts", by=task.by, coalesce=False)
    if given == "paths":
        plan = jn.plan(task.left, task.right, spec, algorithm=algorithm, spark=session)
    else:
        left, right = (session.read.parquet(side) for side in (task.left, task.right))
        if given == "frames":
            left, right = (frame.where("ts IS NOT NULL") for frame in (left, right))
        plan = jn.plan(left, right, spec, algorithm=algorithm)
    return plan.execute(), plan.algorithm


def ours(tables: AsofTables, ties: Path, given: Input, algorithm: str = "auto") -> Contestant:
    """Describe Juncture, by an algorithm, given DataFrames, scans or paths."""
    return Contestant(
        name=f"juncture-{given}-{algorithm}",
        title=f"Juncture, {given}, {algorithm}",
        package="pyspark",
        ours=True,
        trial=f"{__name__}:SparkTrial",
        arguments={**_arguments(tables, ties), "given": given, "algorithm": algorithm},
    )


def with_limited_batches(tables: AsofTables, ties: Path) -> Contestant:
    """Describe Juncture, given DataFrames, where Spark limits the bytes that it hands to Python: its default."""
    asked = ours(tables, ties, "frames")
    arguments = {**asked.arguments, "batch_bytes": "256m"}
    return replace(asked, name=f"{asked.name}-limited", title=f"{asked.title}, Spark's limit", arguments=arguments)


def peer(name: Literal["union-and-window", "native"], tables: AsofTables, ties: Path) -> Contestant:
    """Describe a query that Spark runs by itself."""
    titles = {"union-and-window": "Spark, union and window", "native": "Spark, its own ASOF JOIN"}
    return Contestant(
        name=name,
        title=titles[name],
        package="pyspark",
        ours=False,
        trial=f"{__name__}:SparkTrial",
        arguments={**_arguments(tables, ties), "peer": name},
    )


def _arguments(tables: AsofTables, ties: Path) -> dict[str, Any]:
    return {"task": asdict(Task(str(tables.left), str(tables.right), tables.by)), "ties": str(ties)}


class SparkTrial:
    """One run on Spark: of a peer's query, or of Juncture."""

    def __init__(
        self,
        task: dict[str, Any],
        ties: str,
        peer: str | None = None,
        given: Input = "frames",
        algorithm: str = "auto",
        batch_bytes: str | None = None,
    ) -> None:
        self._task, self._ties = Task(**task), Path(ties)
        self._peer, self._given, self._algorithm = peer, given, algorithm
        self._chosen = ""
        limit = {} if batch_bytes is None else {BATCH_BYTES: batch_bytes}
        self._session = bench_session({"spark.sql.join.asofJoin.enabled": "true", **limit})

    def warm_up(self) -> None:
        """Join once, and keep the result in files to be checked."""
        self._first = tempfile.mkdtemp(prefix="first-", dir=".")
        self._join().write.mode("overwrite").parquet(self._first)

    def run(self) -> None:
        """Join again, and throw the rows away one by one."""
        self._join().write.format("noop").mode("overwrite").save()

    def answer(self, result: None) -> dict[str, Any]:  # noqa: ARG002 - the rows that count are in files
        """Boil the first result down, and end the session."""
        batches = ds.dataset(self._first, format="parquet").to_batches()
        answer = asdict(found_answer(batches, self._task.by, self._ties))
        self._session.stop()
        shutil.rmtree(self._first)
        return {**answer, "chosen": self._chosen} if self._chosen else answer

    def _join(self) -> DataFrame:
        if self._peer == "native":
            return native(self._task, self._session)
        if self._peer:
            return union_and_window(self._task, self._session)
        joined, self._chosen = juncture(self._task, self._session, self._given, self._algorithm)
        return joined
