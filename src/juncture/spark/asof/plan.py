"""The planning of an as-of join on Spark."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from juncture.errors import PlanError
from juncture.planner.algorithm import Algorithm, held_side
from juncture.spark.asof.shuffle import asof_stages, join_candidates
from juncture.spark.asof.sql import has_native, join_native, join_window
from juncture.spark.asof.statistics import AsofStatistics
from juncture.spark.exchange import BuiltJoin, join_broadcast, needed_right, partition_count, result_schema, task_output
from juncture.spark.input.pushdown import reachable
from juncture.spark.input.sides import as_frames
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.tasks.cuts import Sample, balanced_cuts, even_cuts
from juncture.spark.tasks.placement import Coding
from juncture.spec.resolved import Resolved


class AsofPlanning(Planning):
    """The planning of one as-of join."""

    statistics: AsofStatistics
    # A side that is small enough to broadcast is measured first, and limits the other one: mostly the left.
    _measured_sides = ("left",)

    def __init__(self, request: PlanRequest) -> None:
        super().__init__(request)
        check_table_order(request.join)
        self._native = has_native(request.left.session)
        self._sample: Sample | None = None
        self._learners |= {"text": self._measure_text, "sample": self._take_sample}
        self.statistics = AsofStatistics(request.join, request.left, request.right, request.given)

    def _prepare(self) -> None:
        """Count, and exclude right rows that no left row can match."""
        super()._prepare()
        left = self.statistics.stats.left
        # A wrong `on_range` from the caller would exclude rows that match, so only measured ranges are used.
        if left.on_range is None or left.is_given("on_range") or self._join.how in ("right", "full"):
            return
        self._right, self._left_out = reachable(self._join, left.on_range, self._right)
        self.statistics.narrow("right", self._right)

    def _measure_text(self, algorithm: Algorithm) -> bool:
        """Measure the strings of the side to broadcast; return whether a job ran."""
        return self.statistics.measure(held_side(self._input(), algorithm))

    def _take_sample(self, _: Algorithm) -> bool:
        """Sample keys and order of both sides to balance partitions; return whether a job ran."""
        if self._sample is not None:
            return False
        self._sample = self.statistics.sample(self.partitions())
        return True

    def partitions(self) -> int:
        """Return the number of shuffle partitions, as far as it is known."""
        return partition_count(self.statistics.stats, self._resources, self._shuffle_partitions)

    def _broadcast(self, _: Algorithm) -> BuiltJoin:
        join = self._join
        seen = join.for_tasks().over(join.left_schema, needed_right(join))
        tasks, jobs = join_broadcast(seen, "right", self._left, self._right, self._schema, self._resources)
        return BuiltJoin.of([tasks], self._schema, jobs=jobs)

    def _broadcast_left(self, _: Algorithm) -> BuiltJoin:
        tasks, jobs = join_candidates(self._join, self._left, self._right, self._schema, self._resources)
        return BuiltJoin.of([tasks], self._schema, jobs=jobs)

    def _shuffled(self, algorithm: Algorithm) -> BuiltJoin:
        count = self.partitions()
        if self._sample is None:
            cuts = even_cuts(count)
        else:
            cuts = balanced_cuts(self._sample, count, split_keys=algorithm.splits_keys)
        output = task_output(self._schema)
        stages = asof_stages(self._join, Coding.of(self._join), cuts, output, self._resources)
        tasks = stages.tasks(self._left, self._right)
        return BuiltJoin.of(tasks, self._schema, details=(("partitions", cuts.described),))

    def _in_one_window(self, _: Algorithm) -> BuiltJoin:
        return BuiltJoin(join_window(*as_frames(self._join, self._left, self._right)))

    def _natively(self, _: Algorithm) -> BuiltJoin:
        return BuiltJoin(join_native(*as_frames(self._join, self._left, self._right)))

    @property
    def _schema(self) -> pa.Schema:
        return result_schema(self._join, self._left, self._right)

    _builders: ClassVar = {
        "broadcast": _broadcast,
        "broadcast_left": _broadcast_left,
        "hash": _shuffled,
        "range": _shuffled,
        "window": _in_one_window,
        "native": _natively,
    }


def check_table_order(join: Resolved) -> None:
    """Raise `PlanError` if ``ties`` depends on a table order, which Spark does not have."""
    if join.goes_by_table_order and join.spec.how not in ("semi", "anti"):
        raise PlanError(
            f"ties={join.spec.ties!r} needs an order of the right rows, but Spark tables have none. Pass order_by=, "
            "or remove ties=.",
            name="JN-TIES-ORDER",
        )
