"""What the making of all plans on Spark has in common: one loop that chooses, and learns what the choice needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from juncture.planner.algorithm import Algorithm, Fact, Need, held_side
from juncture.planner.choose import algorithms_of, choose
from juncture.planner.decision import Choice
from juncture.planner.planning_input import JoinFeatures, PlanningInput
from juncture.planner.statistics import Resources, Stats
from juncture.spark.input.files import FileSide
from juncture.spark.input.frame import FrameSide, SparkSide
from juncture.spark.query import SHUFFLE_PARTITIONS, BuiltJoin
from juncture.spark.session.session import BATCH_BYTES, BATCH_BYTES_UNLIMITED
from juncture.spark.statistics import Statistics
from juncture.spark.workers import check_workers
from juncture.spec.schema import Side

_WORTH_A_WORD_S = 1.0
"""What a setting has to cost before a plan speaks of it."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
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
    left: SparkSide
    right: SparkSide
    given: Stats | None
    resources: Resources
    lazy: bool


class Planning(ABC):
    """The making of one plan, which learns no more of the inputs than the choice needs.

    Parameters
    ----------
    request
        What it is made for.

    Attributes
    ----------
    statistics
        What is known of the inputs.
    """

    statistics: Statistics
    _measured_sides: ClassVar[tuple[Side, ...]] = ("left", "right")

    def __init__(self, request: PlanRequest) -> None:
        self._join, self._left, self._right = request.join, request.left, request.right
        self._resources, self._lazy = request.resources, request.lazy
        self._shuffle_partitions = int(request.left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
        self._algorithms = algorithms_of(self._join.spec, "spark")
        self._named, self._native, self._left_out = "auto", False, ""
        self._features = JoinFeatures()
        # Each learns a fact that an algorithm needs, if it is not known, and tells whether it did.
        self._learners: dict[Fact, Callable[[Algorithm], bool]] = {"size": self._count_held}

    def check(self, named: str) -> None:
        """Refuse algorithms that Spark's workers cannot run.

        Raises
        ------
        PlanError
            If the named one is such, or ``"auto"`` may choose one.
        """
        in_python = [name for name, algorithm in self._algorithms.items() if algorithm.in_python]
        # It takes a job to find out.
        if self._lazy or not in_python or named not in ("auto", *in_python):
            return
        check_workers(self._left.session, [name for name in self._algorithms if name not in in_python])

    def run(self, named: str) -> tuple[Choice, BuiltJoin]:
        """Choose and build."""
        self._named = named
        self._prepare()
        choice = choose(self._input(), named)
        # What turns out too large, or to cost more than was thought, is not chosen again.
        while not self._lazy and self._learn(self._algorithms[choice.algorithm]):
            choice = choose(self._input(), named)
        built = self._build(choice.algorithm)
        left_out = (("left out", self._left_out),) if self._left_out else ()
        return choice, replace(built, details=(*left_out, *built.details, *self._slowed_by(choice.algorithm)))

    def _slowed_by(self, algorithm: str) -> tuple[tuple[str, str], ...]:
        """Say which setting of the session's makes Spark slow to hand rows to an algorithm in Python, if it matters."""
        if not self._algorithms[algorithm].in_python:
            return ()
        names: tuple[Side, Side] = ("left", "right")
        sides = zip(names, (self._left, self._right), strict=True)
        rows = sum(self.statistics.of(name).rows or 0 for name, side in sides if isinstance(side, FrameSide))
        lost_s = rows * self._resources.constants.row_size_ns / self._resources.cores / 1e9
        if lost_s < _WORTH_A_WORD_S:
            return ()
        advice = f"Spark adds up the sizes of all columns for each row, some {lost_s:,.0f} s of it, unless"
        return (("to Python", f"{advice} {BATCH_BYTES} is {BATCH_BYTES_UNLIMITED}"),)

    def _learn(self, algorithm: Algorithm) -> bool:
        """Learn the first fact that an algorithm needs and that is not known; tell whether there was one."""
        needs = (need for need in algorithm.needs if self._named == "auto" or not need.unnamed)
        return any(self._learners[need.fact](algorithm) for need in needs if need.fact != "counts")

    def _prepare(self) -> None:
        """Count the rows of both sides where they are not known, unless what was named can do without."""
        if not self._lazy and (self._named == "auto" or Need("counts") in self._algorithms[self._named].needs):
            self.statistics.count(*self._measured_sides)

    def _count_held(self, algorithm: Algorithm) -> bool:
        """Count the side that is held if its size is known by nothing but a word; tell whether that was done."""
        return self.statistics.check(held_side(self._input(), algorithm))

    def _input(self) -> PlanningInput:
        """Return what the choice depends on, as far as it is known."""
        return PlanningInput(
            join=self._join,
            engine="spark",
            stats=self.statistics.stats,
            resources=self._resources,
            direct=isinstance(self._left, FileSide) and isinstance(self._right, FileSide),
            lazy=self._lazy,
            is_stream=isinstance(self._left, FrameSide) and self._left.is_stream,
            partitions=self._partitions(),
            native=self._native,
            features=self._features,
        )

    def _partitions(self) -> int:
        return self._shuffle_partitions

    @abstractmethod
    def _build(self, algorithm: str) -> BuiltJoin:
        """Build the join with what has been learnt."""
