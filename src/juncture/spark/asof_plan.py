"""The plan of an as-of join on Spark: what is known of the inputs, the choice, and the query."""

from __future__ import annotations

from dataclasses import replace

from juncture.planner.choose import choose
from juncture.planner.question import Choice, Question
from juncture.planner.rules import SENT
from juncture.planner.stats import Resources, Stats
from juncture.spark.asof import SHUFFLE_PARTITIONS, Built, build, partition_count
from juncture.spark.asof_native import has_native
from juncture.spark.extent import reachable
from juncture.spark.files import FileSide
from juncture.spark.partition import Sample
from juncture.spark.sides import Side
from juncture.spark.stats import AsofSurvey
from juncture.spec.asof import ResolvedAsof

__all__ = ["AsofPlanning"]


class AsofPlanning:
    """The making of one plan, which looks at the inputs no closer than the choice needs.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    given
        What the caller knows of them.
    resources
        What may be used.
    lazy
        Whether jobs at build time are forbidden.

    Attributes
    ----------
    survey
        What is known of the inputs.
    """

    def __init__(
        self, join: ResolvedAsof, left: Side, right: Side, given: Stats | None, resources: Resources, lazy: bool
    ) -> None:
        self._join, self._left, self._right = join, left, right
        self._resources, self._lazy = resources, lazy
        self._native = has_native(left.session)
        self._shuffled = int(left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
        self.survey = AsofSurvey(join, left, right, given)

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
        choice = self._choose(algorithm)
        while not self._lazy and choice.algorithm in SENT and self.survey.check(SENT[choice.algorithm]):
            choice = self._choose(algorithm)
        if choice.algorithm in SENT and not self._lazy and algorithm == "auto":
            self.survey.measure("right" if choice.algorithm == "broadcast" else "left")
            choice = self._choose(algorithm)
        sample = None
        if choice.algorithm in ("hash", "range") and not self._lazy and algorithm != "hash":
            sample = self.survey.sample(self._partitions())
            choice = self._choose(algorithm)
        built = self._build(choice.algorithm, sample)
        return choice, replace(built, details=(("left out", left_out), *built.details)) if left_out else built

    def _choose(self, algorithm: str) -> Choice:
        question = Question(
            join=self._join,
            engine="spark",
            stats=self.survey.stats,
            resources=self._resources,
            direct=isinstance(self._left, FileSide) and isinstance(self._right, FileSide),
            lazy=self._lazy,
            partitions=self._partitions(),
            native=self._native,
        )
        return choose(question, algorithm)

    def _partitions(self) -> int:
        return partition_count(self.survey.stats, self._resources, self._shuffled)

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
