"""The planning of a range, overlap or predicate join on Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from juncture.errors import PlanError
from juncture.ordered.duration import NANOSECONDS
from juncture.planner.algorithm import Algorithm, JoinFeatures, held_side
from juncture.spark.exchange import BuiltJoin, join_broadcast, needed_right, partition_count, result_schema, task_output
from juncture.spark.inequality.bin_join import join_bins
from juncture.spark.inequality.bins import Bins, SampledSide, choose_bins, equal_key_pairs, estimated_pairs
from juncture.spark.inequality.condition import inequality_pairs
from juncture.spark.inequality.shuffle import inequality_placements, inequality_stages
from juncture.spark.inequality.statistics import InequalityStatistics, copies
from juncture.spark.input.pushdown import reachable_files
from juncture.spark.input.sides import as_frames
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.sql import Pairs, join_nested
from juncture.spark.statistics import balanced_by
from juncture.spark.tasks.cuts import Cuts, balanced_cuts, even_cuts
from juncture.spec.range import ResolvedRange

_FEW_PAIRS = 20_000_000
"""Up to this number, comparing pairs is faster than sampling."""
_LEVEL_LEAST, _LEVEL_MOST = -900, 900
_TIME_LEVELS = 60
"""Bins of this level or above are wider than any unit of time."""
_COPIES_MOST = 4.0
"""Partitions are enlarged while rows go to more than this many of them on average."""


class InequalityPlanning(Planning):
    """The planning of one range, overlap or predicate join."""

    statistics: InequalityStatistics

    def __init__(self, request: PlanRequest) -> None:
        super().__init__(request)
        self._learners |= {
            "sample": self._sample,
            "keys": self._sample_keys,
            "lengths": self._measure_lengths,
            "cuts": self._cut,
        }
        if isinstance(self._join, ResolvedRange):
            self._right, self._left_out = reachable_files(self._join, self._left, self._right)
        self._placements = inequality_placements(self._join)
        self._pairs, no_sql = self._sql_pairs()
        spans = None if self._pairs is None else self._pairs.spans
        self._features = JoinFeatures(
            has_keys=bool(self._join.left_by or self._join.condition.equalities),
            is_bounded=spans is not None,
            is_partitionable=self._placements is not None,
            no_sql=no_sql,
            needs_sample=spans is not None and (spans.width is None or not spans.are_points),
        )
        self._sampled: tuple[SampledSide, SampledSide] | None = None
        self._is_measured = False
        self._bins: Bins | None = None
        self._cuts: Cuts | None = None
        self._cut_details: tuple[tuple[str, str], ...] = ()
        self.statistics = InequalityStatistics(self._left, self._right, request.given)

    def _sql_pairs(self) -> tuple[Pairs | None, str | None]:
        """Return the join in SQL, or why SQL cannot express it."""
        try:
            return inequality_pairs(*as_frames(self._join, self._left, self._right)), None
        except PlanError as error:
            return None, str(error)

    def _sample(self, _: Algorithm) -> bool:
        """Choose bins and estimate matching pairs if the choice depends on it; return whether a job ran."""
        # The algorithm `bins`, if named, needs bins at any cost.
        is_wanted = self._named != "auto" or self._are_many()
        if self._sampled is not None or not is_wanted or self._pairs is None or self._pairs.spans is None:
            return False
        self._is_measured = self._named != "auto"
        self._arrange(self.statistics.spans(self._pairs, measured=self._is_measured))
        return True

    def _measure_lengths(self, _: Algorithm) -> bool:
        """Widen the bins for the longest of all rows; return whether a job ran."""
        if self._is_measured or self._pairs is None or self._sampled is None:
            return False
        self._is_measured = True
        self._arrange(self.statistics.measured(self._pairs, self._sampled))
        return True

    def _arrange(self, sides: tuple[SampledSide, SampledSide]) -> None:
        """Choose bins for a sample, and estimate matching pairs."""
        assert self._pairs is not None
        assert self._pairs.spans is not None
        spans, self._sampled = self._pairs.spans, sides
        bins = choose_bins(*sides, is_real=spans.is_real, are_points=spans.are_points, resources=self._resources)
        self._bins = bins
        self._features = replace(
            self._features,
            left_copies=bins.left_copies,
            right_copies=bins.right_copies,
            candidates=bins.candidates,
            key_pairs=equal_key_pairs(*sides) if self._pairs.keys else None,
            pairs=estimated_pairs(*sides),
            pairs_how="by a sample of both sides",
        )

    def _sample_keys(self, _: Algorithm) -> bool:
        """Estimate the pairs with equal keys, if they may be few enough for SQL; return whether a job ran."""
        is_known = self._features.key_pairs is not None or not self._are_many()
        if is_known or self._pairs is None or not self._pairs.keys or self._join.aggregates:
            return False
        pairs = equal_key_pairs(*self.statistics.spans(self._pairs, measured=False))
        share, how = 1.0, "the pairs of equal keys in a sample of both sides"
        if self._pairs.match is not None:
            share, how = 0.5, f"half of {how}: the other conditions are not sampled"
        self._features = replace(self._features, key_pairs=pairs, pairs=pairs * share, pairs_how=how)
        return True

    def _are_many(self) -> bool:
        """Return whether there may be enough pairs for a sample to pay off."""
        return (self.statistics.stats.left.rows or 0) * (self.statistics.stats.right.rows or 0) > _FEW_PAIRS

    def partitions(self) -> int:
        """Return the number of shuffle partitions, as far as it is known."""
        return self._shuffle_partitions if self._cuts is None else self._cuts.partitions

    def _cut(self, _: Algorithm) -> bool:
        """Choose the cuts of partitions from a sample; return whether a job ran."""
        if self._cuts is not None:
            return False
        assert self._placements is not None
        count = partition_count(self.statistics.stats, self._resources, self._resources.cores)
        left, right = self.statistics.key_ranges(self._placements, count)
        least = 2 * self._resources.cores
        while True:
            cuts = balanced_cuts(balanced_by(left, right), count) if count > 1 else even_cuts(1)
            times = copies(left.ranges, cuts), copies(right.ranges, cuts)
            if count <= least or max(times) <= _COPIES_MOST:
                break
            count = max(least, count // 2)
        sent = f"on average {times[0]:.2f} per left row, {times[1]:.2f} per right row"
        self._cuts = cuts
        self._cut_details = (("partitions", f"{cuts.described}; {sent}"),)
        return True

    def _broadcast(self, algorithm: Algorithm) -> BuiltJoin:
        schema = result_schema(self._join, self._left, self._right)
        seen = replace(self._join, right_schema=needed_right(self._join))
        sent = held_side(self._input(), algorithm)
        tasks, jobs = join_broadcast(seen, sent, self._left, self._right, schema, self._resources)
        return BuiltJoin.of([tasks], schema, jobs=jobs)

    def _shuffled(self, _: Algorithm) -> BuiltJoin:
        assert self._placements is not None
        assert self._cuts is not None
        schema = result_schema(self._join, self._left, self._right)
        stages = inequality_stages(self._join, self._placements, self._cuts, task_output(schema), self._resources)
        return BuiltJoin.of(stages.tasks(self._left, self._right), schema, details=self._cut_details)

    def _in_bins(self, _: Algorithm) -> BuiltJoin:
        assert self._pairs is not None
        bins = self._bins or _constant_bins(self._pairs)
        details = _bin_details(self._pairs, bins, self._features.pairs)
        return BuiltJoin(join_bins(self._pairs, self._join.how, bins), details=details)

    def _in_sql(self, _: Algorithm) -> BuiltJoin:
        assert self._pairs is not None
        return BuiltJoin(join_nested(self._pairs, self._join.how))

    _builders: ClassVar = {
        "broadcast": _broadcast,
        "broadcast_left": _broadcast,
        "range": _shuffled,
        "bins": _in_bins,
        "nested_loop": _in_sql,
        "sql": _in_sql,
    }


def _constant_bins(pairs: Pairs) -> Bins:
    """Return bins for windows of one constant length, without a sample."""
    assert pairs.spans is not None
    assert pairs.spans.width is not None
    level = 0
    while 2.0**level < pairs.spans.width and level < _LEVEL_MOST:
        level += 1
    while pairs.spans.is_real and level > _LEVEL_LEAST and 0 < pairs.spans.width <= 2.0 ** (level - 1):
        level -= 1
    if not pairs.spans.is_real:
        return Bins((level,), (), 1, right_copies=2.0)
    # Far from zero, adjacent floats differ by more than the length of a window.
    return Bins((level, level + 63), (), 1, unit=level, right_copies=4.0)


def _bin_details(pairs: Pairs, bins: Bins, matches: float | None) -> tuple[tuple[str, str], ...]:
    """Yield what `explain` says about bins."""
    assert pairs.spans is not None
    step_ns = pairs.spans.step_ns
    levels = sorted({*bins.left, *bins.right})
    widths = [_time(2.0**level * step_ns) if step_ns and level < _TIME_LEVELS else f"2^{level}" for level in levels]
    text = f"{' or '.join(widths)} wide; {bins.left_copies:.1f} per left row, {bins.right_copies:.1f} per right row"
    if matches is None:
        text += "; as wide as the windows, without a sample"
    else:
        text += (
            f"; about {bins.candidates:,.0f} right rows compared per left row, {matches:,.0f} matching pairs"
            "; the cheapest widths for a sample: narrower bins copy more rows, wider bins compare more pairs"
        )
    if not bins.hot:
        return (("bins", text),)
    parts = ", ".join(f"one split into {hot.parts} parts" for hot in bins.hot)
    return ("bins", text), ("hot bins", parts)


def _time(length_ns: float) -> str:
    """Return an approximate length of time in words."""
    unit = next((unit for unit in ("d", "h", "m", "s", "ms", "us") if length_ns >= NANOSECONDS[unit]), "ns")
    return f"{length_ns / NANOSECONDS[unit]:.3g}{unit}"
