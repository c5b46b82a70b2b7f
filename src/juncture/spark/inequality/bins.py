"""Joins by bins, entirely in Spark SQL: only rows that share a bin are compared.

A bin of level *k* is 2ᵏ wide. A row is on the lowest level where it spans few bins, so rows of any length are in few
bins each. Two rows are compared on the higher of their levels. A sample of both sides decides the widths and the levels
of bins, and which are split.

Each left row is in one bin of its level, the one where it starts. A right row is in all bins of that level where a
matching left row may start: the bins that it touches, and a few before. Each pair therefore meets in exactly one bin,
left rows are not copied, and Spark's own join types handle unmatched rows. Right rows that are longer than left rows
meet them on the right row's level with the roles swapped. Then left rows are copied too, and unmatched rows are found
by match marks: the values of the deciding columns, since rows that agree in them match alike. No row needs a number.

Source of the idea: bucketing, double joining and filtering ("Efficient Range-Joins With Spark 2.0"), here with levels
instead of one width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.kernels.array_types import Floats, Ints
from juncture.planner.constants import Constants
from juncture.planner.statistics import Resources
from juncture.spark.frames import union_all
from juncture.spark.sql import SPARK_HOW, Pairs, key_hash, salt_of
from juncture.spark.statistics import hot_groups
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_EXTRA_BINS = (1, 2, 3, 4)
_TRIED_ROWS = 1_000
_NEAR_LEVELS = 3  # levels at most this far apart are merged
_LEVEL_MAX = 63
_LOWEST, _HIGHEST = -1_000, 1_000
"""The range of levels whose widths a float can represent."""
_LIMIT = 2.0**62  # the greatest number of a bin


@dataclass(frozen=True)
class SampledSide:
    """Sampled rows of a side: key hashes, first and last value, total rows, and the length of its longest row."""

    keys: Ints
    first: Floats
    last: Floats
    rows: float
    widest: float

    @property
    def weight(self) -> float:
        """Rows that each sampled row stands for."""
        return self.rows / max(len(self.keys), 1)

    @property
    def lengths(self) -> Floats:
        """Length of each row; 0 between equal infinities."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.where(self.last > self.first, self.last - self.first, 0.0), np.float64)


@dataclass(frozen=True)
class HotBin:
    """A bin (key hash, level, number) whose left rows are split into parts, each with all of its right rows."""

    key: int
    level: int
    number: int
    parts: int


@dataclass(frozen=True)
class Bins:
    """The assignment of rows to bins. A right level of None has points, below all levels."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    extra_bins: int  # most bins that a row spans on its level, beyond the first
    unit: int = 0  # the level whose bins are numbered; higher levels group them
    hot: tuple[HotBin, ...] = ()
    left_copies: float = 1.0  # average number of bins of a left row
    right_copies: float = 1.0
    candidates: float = 0.0  # average number of pairs compared for each left row
    is_spread: bool = False  # both sides are shuffled even if small, where comparing rows costs more than moving them

    @property
    def above(self) -> tuple[int, ...]:
        """The levels of right rows that are compared with left rows of lower levels."""
        return tuple(level for level in self.right if level > self.left[0])


class _Neighbours:
    """Counts the right rows of a key around a value."""

    def __init__(self, left: SampledSide, right: SampledSide) -> None:
        keys = np.unique(right.keys)
        ends = np.concatenate([right.first, left.first, left.last, [0.0]])
        ends = ends[np.isfinite(ends)]
        # Halves, since floats may be farther apart than the greatest float.
        self._low, half_extent = float(ends.min()), float(ends.max()) / 2 - float(ends.min()) / 2
        # Keys are placed one after the other on one axis, with gaps between them.
        self._scale = 0.125 / half_extent if half_extent else 1.0
        self._keys = keys
        self._positions = np.sort(np.searchsorted(keys, right.keys) + self._position(right.first))
        self._weight = right.weight

    def _position(self, values: Floats) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.clip((values - self._low) * self._scale, -0.25, 0.5)

    def count(self, keys: Ints, low: Floats, high: Floats) -> Floats:
        """Return the approximate number of rows of each key between two values."""
        at = np.searchsorted(self._keys, keys)
        has_key = (
            self._keys[np.minimum(at, len(self._keys) - 1)] == keys if len(self._keys) else np.zeros(len(keys), bool)
        )
        first = np.searchsorted(self._positions, at + self._position(low), side="left")
        end = np.searchsorted(self._positions, at + self._position(high), side="right")
        return np.asarray(np.where(has_key, np.maximum(end - first, 0), 0) * self._weight, np.float64)


def estimated_pairs(left: SampledSide, right: SampledSide) -> float:
    """Return the approximate number of overlapping pairs; right rows count at their start only."""
    if len(left.keys) == 0 or len(right.keys) == 0:
        return 0.0
    inside = _Neighbours(left, right).count(left.keys, left.first, left.last)
    back = (
        _Neighbours(right, left).count(right.keys, right.first, right.last) if (right.last > right.first).any() else 0
    )
    return float(np.sum(inside) * left.weight + np.sum(back) * right.weight)


def equal_key_pairs(left: SampledSide, right: SampledSide) -> float:
    """Return the approximate number of pairs with equal keys."""
    keys, counts = np.unique(left.keys, return_counts=True)
    others, other_counts = np.unique(right.keys, return_counts=True)
    _, left_positions, right_positions = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    return float(np.sum(counts[left_positions] * left.weight * other_counts[right_positions] * right.weight))


def choose_bins(
    left: SampledSide, right: SampledSide, *, is_real: bool, are_points: bool, resources: Resources
) -> Bins:
    """Return the bins of least estimated cost.

    With `is_real`, bins may be narrower than 1. With `are_points`, right rows have no length and no level.
    """
    tried = _subsample(left)
    neighbours = _Neighbours(tried, right) if len(tried.keys) and len(right.keys) else None
    lowest = _lowest_level(left, right) if is_real else 0
    best: tuple[float, Bins] | None = None
    for extra_bins in _EXTRA_BINS:
        left_needs = _needs(tried.lengths, extra_bins, lowest)
        right_needs = np.zeros(0, np.int64) if are_points else _needs(right.lengths, extra_bins, lowest)
        tops = [_needs(np.array([side.widest]), extra_bins, lowest)[0] for side in (left, right)]
        top = int(tops[0] if are_points else max(tops))
        cost, levels = _cheapest(
            tried, left_needs, right, right_needs, neighbours, extra_bins, lowest, top, resources.constants
        )
        # Only levels that contain rows are used.
        used_left = np.unique(_raised(levels, np.append(left_needs, tops[0]))).tolist()
        used_right = [] if are_points else np.unique(_raised(levels, np.append(right_needs, tops[1]))).tolist()
        bins = _near(Bins(tuple(used_left), tuple(used_right), extra_bins, unit=lowest))
        if best is None or cost < best[0]:
            best = cost, bins
    assert best is not None
    return _described(best[1], left, tried, right, neighbours, resources)


def _copy_ns(constants: Constants) -> float:
    """Return the cost of a row in a bin: copied, shuffled and sorted."""
    return constants.shuffle_ns + constants.sort_ns


def _subsample(side: SampledSide) -> SampledSide:
    step = max(1, len(side.keys) // _TRIED_ROWS)
    return replace(side, keys=side.keys[::step], first=side.first[::step], last=side.last[::step])


def _lowest_level(left: SampledSide, right: SampledSide) -> int:
    """Return a level below which nothing improves."""
    ends = np.concatenate([left.first, left.last, right.first, right.last])
    ends = np.abs(ends[np.isfinite(ends)])
    most = float(ends.max(initial=0.0))
    return max(_LOWEST, min(_HIGHEST - _LEVEL_MAX, math.frexp(most)[1] - 40)) if most else 0


def _needs(widths: Floats, extra_bins: int, lowest: int) -> Ints:
    """Return the level on which a row of a width surely spans at most ``extra_bins`` further bins."""
    with np.errstate(divide="ignore", over="ignore"):
        # A window that ends before it starts matches nothing on any level.
        finite = np.nextafter(np.maximum(np.nan_to_num(widths, nan=0.0), 0.0), np.inf)
        levels = np.ceil(np.log2(finite / extra_bins))
    return np.asarray(np.clip(levels, lowest, lowest + _LEVEL_MAX), np.int64)


def _raised(levels: Sequence[int], needs: Ints) -> Ints:
    """Return the lowest level that is wide enough for each need."""
    return np.asarray(np.array(levels)[np.minimum(np.searchsorted(levels, needs), len(levels) - 1)], np.int64)


def _cheapest(
    left: SampledSide,
    left_needs: Ints,
    right: SampledSide,
    right_needs: Ints,
    neighbours: _Neighbours | None,
    extra_bins: int,
    lowest: int,
    top: int,
    constants: Constants,
) -> tuple[float, list[int]]:
    """Return the levels of least cost of copies and comparisons, with ``top`` as the highest."""
    levels = np.unique(np.concatenate([[top], left_needs, right_needs, [max(lowest, top - 3)]]))
    levels = levels[levels <= top]
    copy = (right.rows * (extra_bins + 1) + (left.rows if len(right_needs) else 0)) * _copy_ns(constants)
    share = right_needs if len(right_needs) else np.zeros(0, np.int64)
    cost = np.full(len(levels), np.inf)
    previous = np.full(len(levels), -1)
    for i, level in enumerate(levels):
        width = 2.0**level
        candidate_counts = _candidate_counts(neighbours, left, width, extra_bins)
        for j in range(-1, i):
            below = levels[j] if j >= 0 else -(2**40)
            on_level = (left_needs > below) & (left_needs <= level)
            pairs = float(candidate_counts[on_level].sum()) * left.weight
            # By symmetry, a right row on this level is compared with as many left rows around it.
            pairs += (
                float(np.mean(candidate_counts) if len(candidate_counts) else 0.0)
                * left.rows
                / max(right.rows, 1)
                * (np.count_nonzero((share > below) & (share <= level)) * right.weight)
            )
            total = (cost[j] if j >= 0 else 0.0) + copy + pairs * constants.bin_pair_ns
            if total < cost[i]:
                cost[i], previous[i] = total, j
    chosen, at = [], len(levels) - 1
    while at >= 0:
        chosen.append(int(levels[at]))
        at = int(previous[at])
    return float(cost[-1]), chosen[::-1]


def _candidate_counts(
    neighbours: _Neighbours | None, side: SampledSide, width: float | Floats, extra_bins: int
) -> Floats:
    """Return how many rows share the bins of each row."""
    if neighbours is None:
        return np.zeros(len(side.keys))
    # An overflow is beyond all other values, like infinity.
    with np.errstate(over="ignore"):
        return neighbours.count(side.keys, side.first - width / 2, side.first + (extra_bins + 0.5) * width)


def _near(bins: Bins) -> Bins:
    """Raise left rows to slightly higher levels of right rows, so that no left row is copied."""
    if not bins.above or bins.above[-1] - bins.left[0] > _NEAR_LEVELS:
        return bins
    highest = bins.above[-1]
    left = tuple(sorted({max(level, highest) for level in bins.left}))
    return Bins(left, bins.right, bins.extra_bins, bins.unit)


def _described(
    bins: Bins,
    left: SampledSide,
    tried: SampledSide,
    right: SampledSide,
    neighbours: _Neighbours | None,
    resources: Resources,
) -> Bins:
    """Return bins with their estimates and their hot bins."""
    own_levels = _raised(bins.left, _needs(tried.lengths, bins.extra_bins, min(bins.left)))
    candidate_counts = _candidate_counts(neighbours, tried, 2.0 ** own_levels.astype(np.float64), bins.extra_bins)
    spanned = np.zeros(0) if not bins.right else right.lengths / 2.0 ** bins.left[0]
    beyond = float(np.clip(spanned, 0, bins.extra_bins).mean()) if len(spanned) else 0.0
    left_copies = 1.0 + len(bins.above) * (bins.extra_bins + 1)
    right_copies = len(bins.left) * (bins.extra_bins + 1 + beyond)
    candidates = float(candidate_counts.mean()) if len(candidate_counts) else 0.0
    moved_ns = (left.rows * left_copies + right.rows * right_copies) * _copy_ns(resources.constants)
    return replace(
        bins,
        hot=_hot(bins, left, right, resources),
        left_copies=left_copies,
        right_copies=right_copies,
        candidates=candidates,
        is_spread=left.rows * candidates * resources.constants.bin_pair_ns > moved_ns,
    )


def _hot(bins: Bins, left: SampledSide, right: SampledSide, resources: Resources) -> tuple[HotBin, ...]:
    """Return the bins that would keep one task running after all others have ended."""
    if len(left.keys) == 0 or len(right.keys) == 0:
        return ()
    own_levels = _raised(bins.left, _needs(left.lengths, bins.extra_bins, min(bins.left)))
    width = 2.0 ** own_levels.astype(np.float64)
    numbers = np.floor(np.clip(left.first / width, -_LIMIT, _LIMIT)).astype(np.int64)
    groups, counts = np.unique(np.stack([left.keys, own_levels, numbers]), axis=1, return_counts=True)
    width = 2.0 ** groups[1].astype(np.float64)
    with np.errstate(over="ignore"):
        start = groups[2] * width
        end = start + (bins.extra_bins + 1) * width
    candidate_counts = _Neighbours(left, right).count(groups[0], start, end)
    rows = counts * left.weight
    copy_ns = _copy_ns(resources.constants)
    cost = rows * candidate_counts * resources.constants.bin_pair_ns + (rows + candidate_counts) * copy_ns
    fair = (cost.sum() + (left.rows + right.rows) * copy_ns) / (2 * resources.cores)
    return tuple(
        HotBin(int(groups[0][i]), int(groups[1][i]), int(groups[2][i]), parts)
        for i, parts in hot_groups(cost, counts, fair)
    )


_TOO_LONG = (
    "juncture.errors.StateError: [JN-INPUT-CHANGED] An interval is longer than all intervals were when the join was "
    "planned. Plan the join again, with inputs that do not change."
)


def join_bins(pairs: Pairs, how: str, bins: Bins) -> DataFrame:
    """Return the result of a join by bins; `pairs` has spans."""
    work = _BinJoin(pairs, bins)
    if how == "inner":
        return pairs.result(work.matches())
    keeps_right = how in ("right", "full")
    if not bins.above:
        rows = work.joined("left" if keeps_right and how == "full" else "inner" if keeps_right else how)
    elif how in ("semi", "anti"):
        return pairs.result(work.by_match("left", how))
    else:
        rows = work.matches()
        if how in ("left", "full"):
            rows = rows.unionByName(work.by_match("left", "anti"), allowMissingColumns=True)
    if keeps_right:
        rows = rows.unionByName(work.by_match("right", "anti"), allowMissingColumns=True)
    return pairs.result(rows)


class _BinJoin:
    def __init__(self, pairs: Pairs, bins: Bins) -> None:
        self._pairs = pairs
        self._bins = bins
        self._left, self._right = (_placed(pairs, side, bins) for side in SIDES)

    def joined(self, how: str) -> DataFrame:
        """Return left rows in one bin each, joined with right rows in all bins where they may match."""
        left, right = self._sides()
        names = ["level", "bin"]
        if self._bins.hot:
            content = F.xxhash64(*self._pairs.sides["left"].hashable, "lfrom", "lto")
            hot = ((self._is_in(each, "left"), each.parts) for each in self._bins.hot)
            left = left.withColumn("lsalt", salt_of(content, hot))
            right = right.withColumn("rsalt", self._right_salts())
            names.append("salt")
        same = [F.col(f"l{name}") == F.col(f"r{name}") for name in names]
        return self._shuffled(left).join(right, self._pairs.condition(*same), SPARK_HOW[how])

    def matches(self) -> DataFrame:
        """Return all matching pairs."""
        rows = self.joined("inner")
        return rows.unionByName(self._swapped(), allowMissingColumns=True) if self._bins.above else rows

    def by_match(self, side: Side, how: str) -> DataFrame:
        """Return the rows of a side with a match (``semi``) or without one (``anti``)."""
        return self._pairs.by_marks(self._pairs.sides[side].rows, side, self._marks(side), how)

    def _marks(self, side: Side) -> DataFrame:
        """Return match marks of a side, with duplicates."""
        decisive = self._pairs.sides[side].decisive
        inputs = [self._sides(), *([self._swapped_sides()] if self._bins.above else [])]
        marks = []
        for left, right in inputs:
            rows, others = (left, right) if side == "left" else (right, left)
            marks.append(rows.join(others, self._same_bin(), "left_semi").select(*decisive))
        return union_all(marks)

    def _swapped(self) -> DataFrame:
        """Return the pairs of right rows with left rows of lower levels."""
        left, right = self._swapped_sides()
        return self._shuffled(left).join(right, self._same_bin(), "inner")

    def _shuffled(self, rows: DataFrame) -> DataFrame:
        """Repartition a side if the join compares many pairs, so that Spark also shuffles the other."""
        return rows.hint("merge") if self._bins.is_spread else rows

    def _sides(self) -> tuple[DataFrame, DataFrame]:
        """Return left rows in one bin each, and right rows in all bins where they may match."""
        left = self._left.withColumns({"llevel": F.col("lown"), "lbin": self._bin("lfrom", F.col("lown"))})
        return left, self._replicated(self._right, "r", self._bins.left, lowest=F.col("rown"))

    def _swapped_sides(self) -> tuple[DataFrame, DataFrame]:
        """Return left rows in all bins where they may match right rows of higher levels, which are in one bin each."""
        above = F.when(F.col("rown").isin(*self._bins.above), F.col("rown"))
        right = self._right.withColumns({"rlevel": above, "rbin": self._bin("rfrom", above)}).where(
            "rlevel IS NOT NULL"
        )
        return self._replicated(self._left, "l", self._bins.above, lowest=F.col("lown") + 1), right

    def _same_bin(self) -> Column:
        return self._pairs.condition(F.col("llevel") == F.col("rlevel"), F.col("lbin") == F.col("rbin"))

    def _bin(self, code: str, level: Column) -> Column:
        return _number(F.col(code), level, self._bins)

    def _replicated(self, rows: DataFrame, side: str, levels: tuple[int, ...], *, lowest: Column) -> DataFrame:
        """Copy each row of a side into all bins where a matching row of the other may start."""
        is_point = side == "r" and not self._bins.right
        bins = []
        for level in levels:
            first, last = (self._bin(f"{side}{end}", F.lit(level)) for end in ("from", "to"))
            before = (F.try_subtract(first, F.lit(back).cast("long")) for back in range(self._bins.extra_bins, 0, -1))
            bins += [(level, number) for number in (*before, first)]
            for on in range(1, 1 if is_point else self._bins.extra_bins + 1):
                further = F.try_add(first, F.lit(on).cast("long"))
                bins.append((level, F.when(further <= last, further)))
        structs = [
            F.struct(
                F.lit(level).alias("level"), (number if is_point else F.when(lowest <= level, number)).alias("bin")
            )
            for level, number in bins
        ]
        rows = rows.where(F.col(f"{side}from").isNotNull()).withColumn("place", F.explode(F.array(*structs)))
        names = {f"{side}level": F.col("place.level"), f"{side}bin": F.col("place.bin")}
        return rows.withColumns(names).drop("place").where(F.col(f"{side}bin").isNotNull())

    def _right_salts(self) -> Column:
        """Return all parts of a right row's bin."""
        parts = F.lit(1)
        for hot in self._bins.hot:
            parts = F.when(self._is_in(hot, "right"), F.lit(hot.parts)).otherwise(parts)
        return F.explode(F.sequence(F.lit(0), parts - 1))

    def _is_in(self, hot: HotBin, side: Side) -> Column:
        keys = self._pairs.sides[side].keys
        here = (F.col(f"{side[0]}bin") == F.lit(hot.number)) & (F.col(f"{side[0]}level") == F.lit(hot.level))
        return here & (key_hash(keys) == F.lit(hot.key)) if keys else here


def _placed(pairs: Pairs, name: Side, bins: Bins) -> DataFrame:
    """Return the rows of a side with the numbers of the smallest bins that they span, and their level, as columns."""
    assert pairs.spans is not None
    side, rows = name[0], pairs.sides[name].rows
    ends = {f"{side}from": F.col(f"{side}first"), f"{side}to": F.col(f"{side}last")}
    if pairs.spans.is_real:
        # Rounding and clipping keep the order.
        for column, end in ends.items():
            scaled = end.cast("double") * F.lit(2.0**-bins.unit)
            ends[column] = F.floor(F.least(F.greatest(scaled, F.lit(-_LIMIT)), F.lit(_LIMIT))).cast("long")
    rows = rows.withColumns(ends)
    levels = bins.left if name == "left" else bins.right
    if not levels:
        return rows.withColumn(f"{side}own", F.lit(None).cast("int"))
    smallest = F.raise_error(F.lit(_TOO_LONG)).cast("int")
    for level in reversed(levels):
        first, last = (_number(F.col(f"{side}{end}"), F.lit(level), bins) for end in ("from", "to"))
        smallest = F.when(F.try_subtract(last, first) <= bins.extra_bins, F.lit(level)).otherwise(smallest)
    return rows.withColumn(f"{side}own", F.when(F.col(f"{side}from").isNotNull(), smallest))


def _number(code: Column, level: Column, bins: Bins) -> Column:
    """Return the number of a code's bin on a level."""
    return F.call_function("shiftright", code, level - F.lit(bins.unit))
