"""The planning of a range, overlap or predicate join on Spark, its stages, and the statistics of its inputs.

With ``range``, both sides are shuffled once into partitions that are ranges of (key hash, code), and a row goes to all
partitions that it touches. Only rows around a cut, and long rows, are copied. A second shuffle, of such rows only,
finds whether a copied row matches in another partition.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.ordered.duration import NANOSECONDS
from juncture.planner.algorithm import Algorithm, JoinFeatures
from juncture.planner.statistics import Resources
from juncture.spark.exchange import BuiltJoin, ShuffledJoin, packet_schemas, partition_count, task_output
from juncture.spark.frames import to_arrow, union_all
from juncture.spark.inequality.bins import Bins, SampledSide, choose_bins, equal_key_pairs, estimated_pairs, join_bins
from juncture.spark.inequality.condition import inequality_pairs
from juncture.spark.input.sides import as_frames, reachable_files
from juncture.spark.planning import Planning, PlanRequest
from juncture.spark.sql import Pairs, RangeColumns, join_nested, key_hash
from juncture.spark.statistics import SAMPLE_ROWS, Statistics, balanced_by
from juncture.spark.tasks.cuts import Cuts, KeyRanges, balanced_cuts, even_cuts
from juncture.spark.tasks.inequality import BoundaryAggregate, JoinPairs, MarkMatches
from juncture.spark.tasks.join import JoinPartition, ResolveUnmatched
from juncture.spark.tasks.placement import Placement
from juncture.spec.condition import ResolvedInequality
from juncture.spec.schema import Side


def inequality_placements(join: ResolvedInequality) -> tuple[Placement, Placement] | None:
    """Return the placement of left and right rows, or None if the condition limits no values."""
    left, right = Placement.of(join, "left"), Placement.of(join, "right")
    return None if left is None or right is None else (left, right)


def inequality_stages(
    join: ResolvedInequality,
    placements: tuple[Placement, Placement],
    cuts: Cuts,
    output: pa.Schema,
    resources: Resources,
) -> ShuffledJoin:
    """Return the stages of the join's tasks."""
    (left, right), memory_bytes = packet_schemas(join), resources.memory_bytes
    in_packets = replace(join, left_schema=left, right_schema=right)
    stages = ShuffledJoin(join=join, placements=placements, cuts=cuts, memory_bytes=memory_bytes)
    is_split = len(cuts.split_hashes) > 0
    if is_split and join.aggregates:
        return replace(
            stages,
            marked=BoundaryAggregate(in_packets, placements, cuts, memory_bytes=memory_bytes),
            resolved=JoinPartition(in_packets, memory_bytes=memory_bytes, output=output),
        )
    marked = _marked_sides(join) if is_split else ()
    if not marked or join.how not in ("semi", "anti"):
        stages = replace(stages, joined=JoinPairs(in_packets, memory_bytes=memory_bytes, output=output))
    if not marked:
        return stages
    return replace(
        stages,
        marked=MarkMatches(in_packets, placements, cuts, marked, memory_bytes=memory_bytes),
        resolved=ResolveUnmatched(in_packets, memory_bytes=memory_bytes, output=output),
    )


def _marked_sides(join: ResolvedInequality) -> tuple[Side, ...]:
    """Return the sides whose rows may be copied and whose matches must be known."""
    sides: list[Side] = ["left"] if join.how in ("left", "full", "semi", "anti") else []
    interval = join.condition.interval
    # Rows that are points have no copies.
    if join.how in ("right", "full") and (interval is None or not interval.is_point("right")):
        sides.append("right")
    return tuple(sides)


def copies(ranges: KeyRanges, cuts: Cuts) -> float:
    """Return the average number of partitions of a row."""
    first, last = ranges.partitions(cuts)
    return float(np.mean(last - first)) + 1.0 if len(first) else 1.0


class InequalityStatistics(Statistics):
    """The statistics of two inputs and of the spans of their rows."""

    def spans(self, pairs: Pairs, *, measured: bool) -> tuple[SampledSide, SampledSide]:
        """Sample the keys and spans of both sides in one SQL job.

        With `measured`, which doubles the time, also find the longest of all rows, not only of the sampled ones.
        """
        parts = [self._placed(name, pairs) for name in self.sides]
        table = to_arrow(union_all([*parts, *(self._lengths(pairs) if measured else ())]))
        left, right = (self._sampled(name, table, pairs) for name in self.sides)
        picked = pc.sum(pc.is_in(table["side"], pa.array(list(self.sides)))).as_py() or 0
        self.jobs.append(f"sampled {picked:,} rows of both sides{', and measured the longest' if measured else ''}")
        return left, right

    def measured(self, pairs: Pairs, sides: tuple[SampledSide, SampledSide]) -> tuple[SampledSide, SampledSide]:
        """Return samples with the length of the longest of all rows, in one job unless known."""
        parts = self._lengths(pairs)
        if not parts:
            return sides
        table = to_arrow(union_all(parts))
        self.jobs.append("measured the longest rows")
        left, right = (
            replace(side, widest=_longest(name, table, side.widest))
            for name, side in zip(self.sides, sides, strict=True)
        )
        return left, right

    def _placed(self, name: Side, pairs: Pairs) -> DataFrame:
        """Return the sampled spans of a side; without spans, all rows have the same value."""
        ends = (F.lit(0) if pairs.spans is None else F.col(f"{name[0]}{end}") for end in ("first", "last"))
        first, last = (end.cast("double") for end in ends)
        side = pairs.sides[name]
        columns = {"side": F.lit(name), "key": key_hash(side.keys), "first": first, "last": last}
        rows = self.some(name, side.rows, SAMPLE_ROWS)
        return rows.select(*(column.alias(each) for each, column in columns.items()))

    def _lengths(self, pairs: Pairs) -> list[DataFrame]:
        """Measure the longest rows of each side where unknown."""
        parts = []
        for name in self.sides:
            if pairs.spans is None or not _has_length(name, pairs.spans):
                continue
            figures = [F.lit(f"widest {name}").alias("side"), F.lit(0).cast("long").alias("key")]
            widest = pairs.sides[name].rows.agg(F.max(_length(name[0], pairs)).alias("last"))
            parts.append(widest.select(*figures, F.lit(0.0).alias("first"), "last"))
        return parts

    def _sampled(self, name: Side, table: pa.Table, pairs: Pairs) -> SampledSide:
        mine = table.filter(pc.equal(table["side"], name))
        usable = mine.filter(pc.and_(mine["first"].is_valid(), mine["last"].is_valid()))
        share = usable.num_rows / max(mine.num_rows, 1)
        if pairs.is_keyed:
            self.learn_keys(name, usable["key"].to_numpy(), mine.num_rows)
        keys, first, last = (usable[column].to_numpy() for column in ("key", "first", "last"))
        width = pairs.spans.width if pairs.spans is not None and name == "left" else None
        rows = float(self.of(name).rows or 0) * share
        side = SampledSide(keys, first, last, rows, widest=math.nextafter(width or 0.0, math.inf))
        if width is None:
            side = replace(side, widest=math.nextafter(float(side.lengths.max(initial=0.0)), math.inf))
        return replace(side, widest=_longest(name, table, side.widest))


def _has_length(name: Side, spans: RangeColumns) -> bool:
    """Return whether the lengths of a side's rows must be measured."""
    if name == "right":
        return not spans.are_points
    # Rounding may move the ends of floats apart.
    return spans.width is None or spans.is_real


def _longest(name: Side, table: pa.Table, otherwise: float) -> float:
    """Return the measured length of the longest row of a side, or a default."""
    longest = table.filter(pc.equal(table["side"], f"widest {name}"))["last"].drop_null().to_pylist()
    return math.nextafter(longest[0], math.inf) if longest else otherwise


def _length(side: str, pairs: Pairs) -> Column:
    assert pairs.spans is not None
    first, last = F.col(f"{side}first"), F.col(f"{side}last")
    if pairs.spans.is_real:
        # The difference of equal infinities would be NaN.
        return F.when(last > first, last.cast("double") - first.cast("double")).otherwise(F.lit(0.0))
    return F.when(first.isNotNull(), F.coalesce(F.try_subtract(last, first).cast("double"), F.lit(2.0**64)))


_FEW_PAIRS = 20_000_000  # up to this number, comparing pairs is faster than sampling
_LEVEL_LEAST, _LEVEL_MOST = -900, 900
_TIME_LEVELS = 60  # bins of this level or above are wider than any unit of time
_COPIES_MOST = 4.0  # partitions are enlarged while rows go to more than this many of them on average


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
        if len(self._join.position("left")) == 1:  # The windows of a range join limit the values of right rows.
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
        self.statistics = InequalityStatistics(self._left, self._right, request.user_stats)

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
            key_pairs=equal_key_pairs(*sides) if self._pairs.is_keyed else None,
            pairs=estimated_pairs(*sides),
            pairs_how="by a sample of both sides",
        )

    def _sample_keys(self, _: Algorithm) -> bool:
        """Estimate the pairs with equal keys, if they may be few enough for SQL; return whether a job ran."""
        is_known = self._features.key_pairs is not None or not self._are_many()
        if is_known or self._pairs is None or not self._pairs.is_keyed or self._join.aggregates:
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

    def _shuffled(self, _: Algorithm) -> BuiltJoin:
        assert self._placements is not None
        assert self._cuts is not None
        output = task_output(self._schema)
        stages = inequality_stages(self._join, self._placements, self._cuts, output, self._resources)
        return BuiltJoin.of(stages.tasks(self._left, self._right), self._schema, details=self._cut_details)

    def _in_bins(self, _: Algorithm) -> BuiltJoin:
        assert self._pairs is not None
        bins = self._bins or _constant_bins(self._pairs)
        details = _bin_details(self._pairs, bins, self._features.pairs)
        return BuiltJoin(join_bins(self._pairs, self._join.how, bins), details=details)

    def _in_sql(self, _: Algorithm) -> BuiltJoin:
        assert self._pairs is not None
        return BuiltJoin(join_nested(self._pairs, self._join.how))

    _builders: ClassVar = {
        "broadcast": Planning._broadcast,
        "broadcast_left": Planning._broadcast,
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
