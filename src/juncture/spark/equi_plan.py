"""The plan of an equality join on Spark: what is known of the inputs, the choice, and the query."""

from __future__ import annotations

from juncture.planner.choose import choose
from juncture.planner.equi_spark import built_side
from juncture.planner.question import Choice, Question
from juncture.planner.rules import SENT
from juncture.planner.stats import Resources, Stats
from juncture.spark.asof import SHUFFLE_PARTITIONS, Built
from juncture.spark.equi import equi_pairs, hint_of
from juncture.spark.equi_stats import EquiSurvey
from juncture.spark.files import in_sql
from juncture.spark.salt import HotKey, SampledKeys, choose_hot_keys, copied_rows, join_salted, may_be_uneven
from juncture.spark.sides import Side
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import Side as Name

__all__ = ["EquiPlanning"]


class EquiPlanning:
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
        self, join: ResolvedEqui, left: Side, right: Side, given: Stats | None, resources: Resources, lazy: bool
    ) -> None:
        self._join, self._resources, self._lazy = join, resources, lazy
        self._partitions = int(left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
        self._pairs = equi_pairs(*in_sql(join, left, right))
        self._sampled: dict[Name, SampledKeys] = {}
        self._hot: tuple[HotKey, ...] = ()
        self.survey = EquiSurvey(left, right, given)

    def run(self, algorithm: str) -> tuple[Choice, Built]:
        """Choose and build."""
        if not self._lazy and algorithm not in SENT:
            self.survey.count("left", "right")
        choice = choose(self._question(), algorithm)
        while not self._lazy and (held := self._held(choice.algorithm)) is not None and self.survey.check(held):
            choice = choose(self._question(), algorithm)
        if choice.algorithm not in SENT and not self._lazy and self._may_be_uneven():
            self._sampled = self.survey.keys(self._pairs, self._join.how, self._resources.cores)
            self._hot = choose_hot_keys(self._sampled["left"], self._sampled["right"], self._resources)
            choice = choose(self._question(), algorithm)
        return choice, self._build(choice.algorithm)

    def _held(self, algorithm: str) -> Name | None:
        """Return the side that is sent whole, or that tables are made of."""
        return built_side(self._question()) if algorithm == "shuffle_hash" else SENT.get(algorithm)

    def _may_be_uneven(self) -> bool:
        question = self._question()
        return may_be_uneven(question.left_rows, question.right_rows, self._resources.constants)

    def _question(self) -> Question:
        return Question(
            join=self._join,
            engine="spark",
            stats=self.survey.stats,
            resources=self._resources,
            lazy=self._lazy,
            partitions=self._partitions,
        )

    def _build(self, algorithm: str) -> Built:
        built = built_side(self._question())
        hint = hint_of(algorithm, built=built)
        if algorithm in SENT:
            return Built(join_salted(self._pairs, self._join.how, (), hint))
        details = (("tables of", f"the {built} side"),) if algorithm == "shuffle_hash" else ()
        frame = join_salted(self._pairs, self._join.how, self._hot, hint)
        partitions = ("partitions", f"{self._partitions:,}, as the session shuffles ({SHUFFLE_PARTITIONS})")
        return Built(frame, details=(partitions, *details, ("hot keys", self._salting())))

    def _salting(self) -> str:
        """Say which keys are divided, into how many parts, and how many rows have to be repeated for it."""
        if not self._sampled:
            return f"not looked for: {'lazy=True forbids it' if self._lazy else 'there are few rows'}"
        if not self._hot:
            return "none would keep one task busy when all others are done"
        parts = [f"{key.divided} rows of one in {key.parts} parts" for key in self._hot]
        sides: tuple[Name, Name] = ("left", "right")
        copies = [f"{copied_rows(self._hot, side, self._sampled[side]):,.0f} copies of {side} rows" for side in sides]
        return f"{', '.join(parts)}; about {' and '.join(copies)}"
