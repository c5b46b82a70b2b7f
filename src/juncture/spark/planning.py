"""The common part of all plans on Spark: a loop that chooses an algorithm and measures the facts that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql.types import StructType

from juncture.planner.algorithm import Algorithm, Fact, JoinFeatures, Need, PlanningInput, held_side
from juncture.planner.choose import algorithms_of, choose
from juncture.planner.decision import Choice
from juncture.planner.statistics import Resources, Stats
from juncture.spark.exchange import (
    SHUFFLE_PARTITIONS,
    BuiltJoin,
    LastTasks,
    broadcast_side,
    needed_right,
    result_schema,
    task_output,
)
from juncture.spark.input.sides import FileSide, FrameSide, SparkSide
from juncture.spark.session.session import BATCH_BYTES, BATCH_BYTES_UNLIMITED, check_workers
from juncture.spark.statistics import Statistics
from juncture.spark.tasks.join import JoinBroadcast
from juncture.spec.schema import SIDES, Side

_WORTH_A_WORD_S = 1.0  # the least cost of a setting, in seconds, that a plan mentions


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The resolved join, its inputs, the caller's statistics and the resources; `lazy` forbids jobs."""

    join: Any
    left: SparkSide
    right: SparkSide
    user_stats: Stats | None
    resources: Resources
    lazy: bool


class Planning:
    """The planning of one join. It measures no more of the inputs than the choice needs."""

    statistics: Statistics
    # Builds the join from the measured facts, by the name of the planner's row, which is its argument.
    _builders: ClassVar[Mapping[str, Callable[[Any, Algorithm], BuiltJoin]]]
    _measured_sides: ClassVar[tuple[Side, ...]] = ("left", "right")

    def __init__(self, request: PlanRequest) -> None:
        self._join, self._left, self._right = request.join, request.left, request.right
        self._resources, self._lazy = request.resources, request.lazy
        self._shuffle_partitions = int(request.left.session.conf.get(SHUFFLE_PARTITIONS) or 1)
        self._algorithms = algorithms_of(self._join.spec, "spark")
        self._named, self._native, self._left_out = "auto", False, ""
        self._features = JoinFeatures()
        # Each measures a fact that an algorithm needs, unless known, and returns whether it did.
        self._learners: dict[Fact, Callable[[Algorithm], bool]] = {"size": self._count_held}

    def check(self, named: str) -> None:
        """Raise `PlanError` if the named algorithm, or with ``"auto"`` every algorithm, cannot run on the workers."""
        in_python = [name for name, algorithm in self._algorithms.items() if algorithm.in_python]
        # It takes a job to find out.
        if self._lazy or not in_python or named not in ("auto", *in_python):
            return
        check_workers(self._left.session, [name for name in self._algorithms if name not in in_python])

    def run(self, named: str) -> tuple[Choice, BuiltJoin]:
        """Choose an algorithm and build its query."""
        self._named = named
        self._prepare()
        choice = choose(self._input(), named)
        # What turns out too large, or to cost more than was thought, is not chosen again.
        while not self._lazy and self._learn(self._algorithms[choice.algorithm]):
            choice = choose(self._input(), named)
        algorithm = self._algorithms[choice.algorithm]
        built = self._builders[algorithm.name](self, algorithm)
        left_out = (("pruned", self._left_out),) if self._left_out else ()
        return choice, replace(built, details=(*left_out, *built.details, *self._slowed_by(algorithm)))

    def _slowed_by(self, algorithm: Algorithm) -> tuple[tuple[str, str], ...]:
        """Return a warning if a session setting makes the transfer of rows to Python slow."""
        if not algorithm.in_python:
            return ()
        sides = zip(SIDES, (self._left, self._right), strict=True)
        rows = sum(self.statistics.of(name).rows or 0 for name, side in sides if isinstance(side, FrameSide))
        lost_s = rows * self._resources.constants.row_size_ns / self._resources.cores / 1e9
        if lost_s < _WORTH_A_WORD_S:
            return ()
        advice = f"Set {BATCH_BYTES} to {BATCH_BYTES_UNLIMITED}"
        return (("to Python", f"about {lost_s:,.0f} s to measure the bytes of each row. {advice} to avoid it."),)

    def _learn(self, algorithm: Algorithm) -> bool:
        """Measure the first unknown fact that an algorithm needs; return whether there was one."""
        needs = (need for need in algorithm.needs if self._named == "auto" or not need.unnamed)
        return any(self._learners[need.fact](algorithm) for need in needs if need.fact != "counts")

    def _prepare(self) -> None:
        """Count both sides where unknown, unless the named algorithm needs no counts."""
        if not self._lazy and (self._named == "auto" or Need("counts") in self._algorithms[self._named].needs):
            self.statistics.count(*self._measured_sides)

    def _count_held(self, algorithm: Algorithm) -> bool:
        """Count the side to buffer if only the caller states its size; return whether it was counted."""
        return self.statistics.check(held_side(self._input(), algorithm))

    def _input(self) -> PlanningInput:
        """Return the planner's input from all known facts."""
        return PlanningInput(
            join=self._join,
            engine="spark",
            stats=self.statistics.stats,
            resources=self._resources,
            direct=isinstance(self._left, FileSide) and isinstance(self._right, FileSide),
            lazy=self._lazy,
            is_stream=isinstance(self._left, FrameSide) and self._left.is_stream,
            partitions=self.partitions(),
            native=self._native,
            features=self._features,
        )

    def partitions(self) -> int:
        """Return the number of shuffle partitions, as far as it is known."""
        return self._shuffle_partitions

    @cached_property
    def _schema(self) -> StructType:
        return result_schema(self._join, self._left, self._right)

    def _broadcast(self, algorithm: Algorithm) -> BuiltJoin:
        """Build the join of one side's tasks with the whole other side, which shuffles nothing."""
        join = self._join.for_tasks().over(self._join.left_schema, needed_right(self._join))
        columns = {"left": join.left_schema.names, "right": join.right_schema.names}
        keys = {"left": join.left_by, "right": join.right_by}
        sides, sent = {"left": self._left, "right": self._right}, held_side(self._input(), algorithm)
        split_side = "right" if sent == "left" else "left"
        table, jobs = broadcast_side(sides[sent], columns[sent], sent)
        frame, feed = sides[split_side].rows(columns[split_side], keys[split_side])
        output, memory_bytes = task_output(self._schema), self._resources.memory_bytes
        stage = JoinBroadcast(feed, join, table, sent, memory_bytes=memory_bytes, output=output)
        return BuiltJoin.of([LastTasks(frame, stage)], self._schema, jobs=jobs)
