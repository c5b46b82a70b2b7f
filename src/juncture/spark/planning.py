"""What the making of all plans on Spark has in common: what is asked, and a choice that trusts no one about sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from juncture.planner.choose import choose, kind_of
from juncture.planner.planning_input import Choice, Question
from juncture.planner.rules import SENT
from juncture.planner.stats import Resources, Stats
from juncture.spark.input.files import FileSide
from juncture.spark.input.frame import Side
from juncture.spark.query import SHUFFLE_PARTITIONS, Built
from juncture.spark.statistics import Survey
from juncture.spark.workers import check_workers
from juncture.spec.schema import Side as Name

__all__ = ["Planning", "Request"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a plan is to be made for.

    Attributes
    ----------
    join, left, right
        The resolved join and its inputs.
    given
        What the caller knows of them.
    resources
        What may be used.
    lazy
        Whether jobs at build time are forbidden.
    """

    join: Any
    left: Side
    right: Side
    given: Stats | None
    resources: Resources
    lazy: bool


class Planning(ABC):
    """The making of one plan, which looks at the inputs no closer than the choice needs.

    Parameters
    ----------
    request
        What it is made for.

    Attributes
    ----------
    in_python
        The algorithms whose tasks are Python.
    survey
        What is known of the inputs.
    """

    in_python: ClassVar[tuple[str, ...]] = ()
    survey: Survey

    def __init__(self, request: Request) -> None:
        self._join, self._left, self._right = request.join, request.left, request.right
        self._resources, self._lazy = request.resources, request.lazy
        self._shuffle_partitions = int(request.left.session.conf.get(SHUFFLE_PARTITIONS) or 1)

    def check(self, algorithm: str) -> None:
        """Refuse algorithms that Spark's workers cannot run.

        Raises
        ------
        PlanError
            If the named one is such, or ``"auto"`` may choose one.
        """
        # It takes a job to find out.
        if self._lazy or not self.in_python or algorithm not in ("auto", *self.in_python):
            return
        known = kind_of(self._join.spec).algorithms["spark"]
        check_workers(self._left.session, [name for name in known if name not in self.in_python])

    @abstractmethod
    def run(self, algorithm: str) -> tuple[Choice, Built]:
        """Choose and build."""

    @abstractmethod
    def _question(self) -> Question:
        """Return what the choice depends on, as far as it is known."""

    def _asked(self, **more: Any) -> Question:
        """Return what every choice depends on, and more."""
        return Question(
            join=self._join,
            engine="spark",
            stats=self.survey.stats,
            resources=self._resources,
            direct=isinstance(self._left, FileSide) and isinstance(self._right, FileSide),
            lazy=self._lazy,
            **more,
        )

    def _choose(self, algorithm: str) -> Choice:
        return choose(self._question(), algorithm)

    def _checked(self, algorithm: str) -> Choice:
        """Choose, and count what would be held: what turns out too large for that is not chosen again."""
        choice = self._choose(algorithm)
        while not self._lazy and (held := self._held(choice.algorithm)) is not None and self.survey.check(held):
            choice = self._choose(algorithm)
        return choice

    def _held(self, algorithm: str) -> Name | None:
        """Return the side that an algorithm has the driver or tasks hold."""
        return SENT.get(algorithm)
