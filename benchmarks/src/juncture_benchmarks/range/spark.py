"""Range and overlap joins on Spark, by each algorithm of Juncture, and as Spark users write them.

Every run has a session of its own, which has done a small join of the same kind before the clock starts. The result
goes to Spark's ``noop`` sink, and on its way there it is observed: its rows are counted, and their weights summed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.range.task import Task
from juncture_benchmarks.session import bench_session, observed_answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PEERS", "SparkTrial", "ours", "peer", "peer_query"]

Peer = Literal["naive", "double-join"]

NAIVE = """
    SELECT {shown} FROM {{left}} l JOIN {{right}} r ON {condition}
"""
"""The condition, and nothing else: a nested loop or a cartesian product."""

DOUBLE_JOIN = """
    SELECT {left_columns}, {right_columns}
    FROM (SELECT *, {left_on} div {width} AS bin FROM {{left}}) l
    JOIN (
        SELECT *, {right_on} div {width} AS bin FROM {{right}}
        UNION ALL
        SELECT *, {right_on} div {width} + 1 AS bin FROM {{right}}
    ) r
    ON l.bin = r.bin AND {condition}
"""
"""Bins as wide as the look-back, right rows in their own and in the next: bucketing, double-joining and filtering."""

_TITLES: dict[Peer, str] = {"naive": "Spark, the condition alone", "double-join": "Spark, bins and a double join"}

PEERS: tuple[Peer, ...] = tuple(_TITLES)
"""The queries that Spark runs by itself."""


def ours(task: Task, tiny: Task, algorithm: str = "auto") -> Contestant:
    """Describe Juncture, by an algorithm."""
    return Contestant(
        name=f"juncture-{algorithm}",
        title=f"Juncture, {algorithm}",
        package="pyspark",
        ours=True,
        trial=f"{__name__}:SparkTrial",
        arguments={"task": asdict(task), "tiny": asdict(tiny), "algorithm": algorithm},
    )


def peer(name: Peer, task: Task, tiny: Task) -> Contestant:
    """Describe a query that Spark runs by itself; the double join is for windows that look back."""
    return Contestant(
        name=name,
        title=_TITLES[name],
        package="pyspark",
        ours=False,
        trial=f"{__name__}:SparkTrial",
        arguments={"task": asdict(task), "tiny": asdict(tiny), "peer": name},
    )


class SparkTrial:
    """One run on Spark: of a peer's query, or of Juncture."""

    def __init__(
        self,
        task: dict[str, Any],
        tiny: dict[str, Any],
        peer: Peer | None = None,
        algorithm: str = "auto",
    ) -> None:
        self._task, self._tiny = Task(**task), Task(**tiny)
        self._peer, self._algorithm = peer, algorithm
        self._chosen = ""
        self._session = bench_session()

    def warm_up(self) -> None:
        """Do the tiny join; by ``range`` as well where the planner may choose it, so that Python workers are there."""
        for algorithm in dict.fromkeys((self._algorithm, "range" if self._algorithm == "auto" else self._algorithm)):
            observed_answer(self._join(self._tiny, algorithm), self._tiny.joined_ids)

    def run(self) -> Answer:
        """Do the join, and throw the rows away one by one."""
        return observed_answer(self._join(self._task, self._algorithm), self._task.joined_ids)

    def answer(self, result: Answer) -> dict[str, Any]:
        """Return the observed values, and end the session."""
        self._session.stop()
        return {**asdict(result), "chosen": self._chosen} if self._chosen else asdict(result)

    def _join(self, task: Task, algorithm: str) -> DataFrame:
        if self._peer is not None:
            return peer_query(self._peer, task, self._session)
        import juncture as jn

        left, right = (self._session.read.parquet(side) for side in (task.left, task.right))
        plan = jn.plan(left, right, task.spec(), algorithm=algorithm)
        self._chosen = plan.algorithm
        frame: DataFrame = plan.execute()
        return frame


def peer_query(name: Peer, task: Task, session: SparkSession) -> DataFrame:
    """Return the query of a peer."""
    left, right = (session.read.parquet(side) for side in (task.left, task.right))
    if name == "naive":
        query = NAIVE.format(shown=task.shown(), condition=task.condition())
    else:
        places = (f"unix_micros({on})" if task.shape == "events" else on for on in task.on)
        query = DOUBLE_JOIN.format(
            left_columns=", ".join(f"l.{column}" for column in left.columns),
            right_columns=task.shown().removeprefix("l.*, "),
            left_on=next(places),
            right_on=next(places),
            width=-task.lower,
            condition=task.condition(),
        )
    return session.sql(query, left=left, right=right)
