"""The plan of an equality join on Spark: what is known of the inputs, the choice, and the query."""

from __future__ import annotations

from juncture.planner.equi_spark import built_side
from juncture.planner.planning_input import Choice, Question
from juncture.planner.rules import SENT
from juncture.spark.equi.join import equi_pairs, hint_of
from juncture.spark.equi.salt import HotKey, SampledKeys, choose_hot_keys, copied_rows, join_salted, may_be_uneven
from juncture.spark.equi.statistics import EquiSurvey
from juncture.spark.input.files import in_sql
from juncture.spark.planning import Planning, Request
from juncture.spark.query import SHUFFLE_PARTITIONS, Built
from juncture.spec.schema import Side as Name

__all__ = ["EquiPlanning"]


class EquiPlanning(Planning):
    """The making of one plan of an equality join."""

    survey: EquiSurvey

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._pairs = equi_pairs(*in_sql(request.join, request.left, request.right))
        self._sampled: dict[Name, SampledKeys] = {}
        self._hot: tuple[HotKey, ...] = ()
        self.survey = EquiSurvey(request.left, request.right, request.given)

    def run(self, algorithm: str) -> tuple[Choice, Built]:
        """Choose and build."""
        if not self._lazy and algorithm not in SENT:
            self.survey.count("left", "right")
        choice = self._checked(algorithm)
        if choice.algorithm not in SENT and not self._lazy and self._may_be_uneven():
            self._sampled = self.survey.keys(self._pairs, self._join.how, self._resources.cores)
            self._hot = choose_hot_keys(self._sampled["left"], self._sampled["right"], self._resources)
            choice = self._choose(algorithm)
        return choice, self._build(choice.algorithm)

    def _held(self, algorithm: str) -> Name | None:
        """Return the side that is sent whole, or that tables are made of."""
        return built_side(self._question()) if algorithm == "shuffle_hash" else super()._held(algorithm)

    def _may_be_uneven(self) -> bool:
        question = self._question()
        return may_be_uneven(question.left_rows, question.right_rows, self._resources.constants)

    def _question(self) -> Question:
        return self._asked(partitions=self._shuffle_partitions)

    def _build(self, algorithm: str) -> Built:
        built = built_side(self._question())
        hint = hint_of(algorithm, built=built)
        if algorithm in SENT:
            return Built(join_salted(self._pairs, self._join.how, (), hint))
        details = (("tables of", f"the {built} side"),) if algorithm == "shuffle_hash" else ()
        frame = join_salted(self._pairs, self._join.how, self._hot, hint)
        partitions = ("partitions", f"{self._shuffle_partitions:,}, as the session shuffles ({SHUFFLE_PARTITIONS})")
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
