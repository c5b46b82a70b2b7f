"""Equality joins on Spark, by Juncture, and by Spark without hints.

Every run has a session of its own, which has done a small join before the clock starts. The result goes to Spark's
``noop`` sink, and on its way there it is observed: its rows are counted, and their weights summed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.equi.task import IDS, Task
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.session import bench_session, observed_answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NAMES", "SparkTrial", "contestant", "joined"]

_TITLES = {
    "juncture": "Juncture",
    "juncture-sort_merge": "Juncture, sort_merge",
    "spark": "Spark by itself",
    "spark-merge": "Spark, hint merge",
}

NAMES = tuple(_TITLES)
"""The contestants."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe a contestant that does a join, having warmed up on a tiny one."""
    return Contestant(
        name=name,
        title=_TITLES[name],
        package="pyspark",
        ours=name.startswith("juncture"),
        trial=f"{__name__}:SparkTrial",
        arguments={"name": name, "task": asdict(task), "tiny": asdict(tiny)},
    )


class SparkTrial:
    """One run on Spark."""

    def __init__(self, name: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._name, self._task, self._tiny = name, Task(**task), Task(**tiny)
        self._session = bench_session()

    def warm_up(self) -> None:
        """Do the tiny join."""
        observed_answer(joined(self._name, self._tiny, self._session), IDS)

    def run(self) -> Answer:
        """Do the join, what it takes to plan it included, and throw the rows away one by one."""
        return observed_answer(joined(self._name, self._task, self._session), IDS)

    def answer(self, result: Answer) -> dict[str, Any]:
        """Return the observed values, and end the session."""
        self._session.stop()
        return asdict(result)


def joined(name: str, task: Task, session: SparkSession) -> DataFrame:
    """Return the query of a contestant."""
    left, right = (session.read.parquet(side) for side in (task.left, task.right))
    who, _, how = name.partition("-")
    if who == "juncture":
        import juncture as jn

        frame: DataFrame = jn.join(left, right, on="key", algorithm=how or "auto")
        return frame
    right = right.withColumnsRenamed({"id": IDS[1], "val": "val_right"})
    return left.join(right.hint(how) if how else right, "key")
