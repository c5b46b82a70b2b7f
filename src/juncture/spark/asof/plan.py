"""The plan of an as-of join on Spark: what is known of the inputs, the choice, and the query."""

from __future__ import annotations

from dataclasses import replace

from juncture.planner.planning_input import Choice, Question
from juncture.planner.rules import SENT
from juncture.spark.asof.build import build
from juncture.spark.asof.native import has_native
from juncture.spark.asof.statistics import AsofSurvey
from juncture.spark.exchange.partition import Sample
from juncture.spark.input.pushdown import reachable
from juncture.spark.planning import Planning, Request
from juncture.spark.query import Built, partition_count

__all__ = ["AsofPlanning"]


class AsofPlanning(Planning):
    """The making of one plan of an as-of join."""

    in_python = (*SENT, "hash", "range")
    survey: AsofSurvey

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._native = has_native(request.left.session)
        self.survey = AsofSurvey(request.join, request.left, request.right, request.given)

    def run(self, algorithm: str) -> tuple[Choice, Built]:
        """Choose and build. What turns out too large to be sent is not chosen again."""
        if not self._lazy and algorithm in ("auto", "hash", "range"):
            # A side that is small enough to be sent is measured first, and limits the other one: mostly the left.
            self.survey.count("left")
        left, left_out = self.survey.stats.left, ""
        # Rows are not left out on a caller's word: were it wrong, so would be the answer.
        is_narrowed = self._join.spec.how not in ("right", "full") and not left.is_given("extent")
        if left.extent is not None and is_narrowed:
            self._right, left_out = reachable(self._join, left.extent, self._right)
            self.survey.narrow("right", self._right)
        choice = self._checked(algorithm)
        if choice.algorithm in SENT and not self._lazy and algorithm == "auto":
            self.survey.measure("right" if choice.algorithm == "broadcast" else "left")
            choice = self._choose(algorithm)
        sample = None
        if choice.algorithm in ("hash", "range") and not self._lazy and algorithm != "hash":
            sample = self.survey.sample(self._partitions())
            choice = self._choose(algorithm)
        built = self._build(choice.algorithm, sample)
        return choice, replace(built, details=(("left out", left_out), *built.details)) if left_out else built

    def _question(self) -> Question:
        return self._asked(partitions=self._partitions(), native=self._native)

    def _partitions(self) -> int:
        return partition_count(self.survey.stats, self._resources, self._shuffle_partitions)

    def _build(self, algorithm: str, sample: Sample | None) -> Built:
        return build(
            self._join,
            self._left,
            self._right,
            algorithm=algorithm,
            stats=self.survey.stats,
            resources=self._resources,
            sample=sample,
        )
