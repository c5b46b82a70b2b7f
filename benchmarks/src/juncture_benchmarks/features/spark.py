"""Ten joins to one spine on Spark: ours in one pass, and one after the other.

Every run has a session of its own, which has joined tiny tables before the clock starts. The result goes to Spark's
``noop`` sink, and on its way there it is observed: its rows are counted, and the values of each
column counted and summed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.features.local import names_of, spec_of, tables_of
from juncture_benchmarks.features.task import TABLES, Task
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.session import bench_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NAMES", "SparkTrial", "contestant", "joined", "observed"]

_TITLES = {"juncture": "Juncture, one pass", "juncture-chain": "Juncture, one join after the other"}

NAMES = tuple(_TITLES)
"""The contestants."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe a contestant that does the joins, having warmed up on tiny tables."""
    return Contestant(
        name=name,
        title=_TITLES[name],
        package="pyspark",
        ours=True,
        trial=f"{__name__}:SparkTrial",
        arguments={"name": name, "task": asdict(task), "tiny": asdict(tiny)},
    )


class SparkTrial:
    """One run on Spark."""

    def __init__(self, name: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._name, self._task, self._tiny = name, Task(**task), Task(**tiny)
        self._session = bench_session()

    def warm_up(self) -> None:
        """Join the tiny tables."""
        observed(joined(self._name, self._tiny, self._session))

    def run(self) -> Answer:
        """Join the tables, what it takes to plan it included, and throw the rows away one by one."""
        return observed(joined(self._name, self._task, self._session))

    def answer(self, result: Answer) -> dict[str, Any]:
        """Say what was observed, and end the session."""
        self._session.stop()
        return asdict(result)


def joined(name: str, task: Task, session: SparkSession) -> DataFrame:
    """Return the query of a contestant."""
    import juncture as jn

    frame: DataFrame
    if name == "juncture":
        frame = jn.join_many(task.path("spine"), tables_of(task), spark=session)
        return frame
    frame = session.read.parquet(task.path("spine"))
    for each in TABLES:
        right = session.read.parquet(task.path(each.name))
        frame = jn.plan(frame, right, spec_of(each)).execute().withColumnsRenamed(names_of(each))
    return frame


def observed(frame: DataFrame) -> Answer:
    """Run a query to its end, throw the rows away one by one, and return what tells them."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    names = sorted(name for each in TABLES for name in names_of(each).values())
    figures = [F.count(F.lit(1)).alias("rows")]
    for place, name in enumerate(names):
        figures += [F.count(name).alias(f"n{place}"), F.sum(name).alias(f"s{place}")]
    observation = Observation()
    frame.observe(observation, *figures).write.format("noop").mode("overwrite").save()
    found = observation.get
    sums = [found[f"{figure}{place}"] or 0 for place in range(len(names)) for figure in ("n", "s")]
    return Answer(rows=found["rows"], sums=tuple(sums))
