"""The bins of a join: their widths, their levels, and which are split, from a sample of both sides.

A bin of level *k* is 2ᵏ wide. A row is on the lowest level where it spans few bins, so rows of any length are in few
bins each. Two rows are compared on the higher of their levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from juncture.kernels.array_types import Floats, Ints
from juncture.planner.constants import Constants
from juncture.planner.statistics import Resources
from juncture.spark.statistics import hot_groups

_REACHES = (1, 2, 3, 4)
_TRIED_ROWS = 1_000
_NEAR_LEVELS = 3
"""Levels at most this far apart are merged."""
_LEVEL_MAX = 63
_LOWEST, _HIGHEST = -1_000, 1_000
"""The range of levels whose widths a float can represent."""


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
    """The assignment of rows to bins.

    A right level of None has points, below all levels. With `is_spread`, both sides are shuffled even if small, since
    comparing their rows costs more than moving them; Spark would otherwise use a task or two and broadcast the other
    side.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    reach: int  # most bins that a row spans on its level, beyond the first
    unit: int = 0  # the level whose bins are numbered; higher levels group them
    hot: tuple[HotBin, ...] = ()
    left_copies: float = 1.0  # average number of bins of a left row
    right_copies: float = 1.0
    candidates: float = 0.0  # average number of pairs compared for each left row
    is_spread: bool = False

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
        self._low, extent = float(ends.min()), float(np.ptp(ends))
        # Keys are placed one after the other on one axis, with gaps between them.
        self._scale = 0.25 / extent if extent else 1.0
        self._keys = keys
        self._places = np.sort(np.searchsorted(keys, right.keys) + self._place(right.first))
        self._weight = right.weight

    def _place(self, values: Floats) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.clip((values - self._low) * self._scale, -0.25, 0.5)

    def count(self, keys: Ints, low: Floats, high: Floats) -> Floats:
        """Return the approximate number of rows of each key between two values."""
        at = np.searchsorted(self._keys, keys)
        known = (
            self._keys[np.minimum(at, len(self._keys) - 1)] == keys if len(self._keys) else np.zeros(len(keys), bool)
        )
        first = np.searchsorted(self._places, at + self._place(low), side="left")
        end = np.searchsorted(self._places, at + self._place(high), side="right")
        return np.asarray(np.where(known, np.maximum(end - first, 0), 0) * self._weight, np.float64)


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

    With `is_real` values have fractions, so bins may be narrower than 1. With `are_points` right rows have no length
    and no level.
    """
    tried = _subsample(left)
    neighbours = _Neighbours(tried, right) if len(tried.keys) and len(right.keys) else None
    lowest = _lowest_level(left, right) if is_real else 0
    best: tuple[float, Bins] | None = None
    for reach in _REACHES:
        left_needs = _needs(tried.lengths, reach, lowest)
        right_needs = np.zeros(0, np.int64) if are_points else _needs(right.lengths, reach, lowest)
        tops = [_needs(np.array([side.widest]), reach, lowest)[0] for side in (left, right)]
        top = int(tops[0] if are_points else max(tops))
        cost, levels = _cheapest(
            tried, left_needs, right, right_needs, neighbours, reach, lowest, top, resources.constants
        )
        used_left = _used(levels, np.append(left_needs, tops[0]))
        used_right = () if are_points else _used(levels, np.append(right_needs, tops[1]))
        bins = _near(Bins(used_left, used_right, reach, unit=lowest))
        if best is None or cost < best[0]:
            best = cost, bins
    assert best is not None
    return _described(best[1], left, tried, right, neighbours, resources)


def _copy_ns(constants: Constants) -> float:
    """Return the cost of a row in a bin: copied, shuffled and sorted."""
    return constants.shuffle_ns + constants.sort_ns


def _subsample(side: SampledSide) -> SampledSide:
    step = max(1, len(side.keys) // _TRIED_ROWS)
    return SampledSide(side.keys[::step], side.first[::step], side.last[::step], side.rows, side.widest)


def _lowest_level(left: SampledSide, right: SampledSide) -> int:
    """Return a level below which nothing improves."""
    ends = np.concatenate([left.first, left.last, right.first, right.last])
    ends = np.abs(ends[np.isfinite(ends)])
    most = float(ends.max(initial=0.0))
    return max(_LOWEST, min(_HIGHEST - _LEVEL_MAX, math.frexp(most)[1] - 40)) if most else 0


def _needs(widths: Floats, reach: int, lowest: int) -> Ints:
    """Return the level on which a row of a width surely spans at most ``reach`` further bins."""
    with np.errstate(divide="ignore", over="ignore"):
        # A window that ends before it starts matches nothing on any level.
        finite = np.nextafter(np.maximum(np.nan_to_num(widths, nan=0.0), 0.0), np.inf)
        levels = np.ceil(np.log2(finite / reach))
    return np.asarray(np.clip(levels, lowest, lowest + _LEVEL_MAX), np.int64)


def _used(levels: Sequence[int], needs: Ints) -> tuple[int, ...]:
    """Return the levels that contain rows."""
    ordered = np.array(levels)
    return tuple(np.unique(ordered[np.minimum(np.searchsorted(ordered, needs), len(ordered) - 1)]).tolist())


def _cheapest(
    left: SampledSide,
    left_needs: Ints,
    right: SampledSide,
    right_needs: Ints,
    neighbours: _Neighbours | None,
    reach: int,
    lowest: int,
    top: int,
    constants: Constants,
) -> tuple[float, list[int]]:
    """Return the levels of least cost of copies and comparisons, with ``top`` as the highest."""
    levels = np.unique(np.concatenate([[top], left_needs, right_needs, [max(lowest, top - 3)]]))
    levels = levels[levels <= top]
    copy = (right.rows * (reach + 1) + (left.rows if len(right_needs) else 0)) * _copy_ns(constants)
    share = right_needs if len(right_needs) else np.zeros(0, np.int64)
    cost = np.full(len(levels), np.inf)
    came = np.full(len(levels), -1)
    for i, level in enumerate(levels):
        width = 2.0**level
        seen = _seen(neighbours, left, width, reach)
        for j in range(-1, i):
            below = levels[j] if j >= 0 else -(2**40)
            own = (left_needs > below) & (left_needs <= level)
            pairs = float(seen[own].sum()) * left.weight
            # By symmetry, a right row on this level is compared with as many left rows around it.
            pairs += (
                float(np.mean(seen) if len(seen) else 0.0)
                * left.rows
                / max(right.rows, 1)
                * (np.count_nonzero((share > below) & (share <= level)) * right.weight)
            )
            total = (cost[j] if j >= 0 else 0.0) + copy + pairs * constants.bin_pair_ns
            if total < cost[i]:
                cost[i], came[i] = total, j
    chosen, at = [], len(levels) - 1
    while at >= 0:
        chosen.append(int(levels[at]))
        at = int(came[at])
    return float(cost[-1]), chosen[::-1]


def _seen(neighbours: _Neighbours | None, side: SampledSide, width: float | Floats, reach: int) -> Floats:
    """Return how many rows share the bins of each row."""
    if neighbours is None:
        return np.zeros(len(side.keys))
    # An overflow is beyond all other values, like infinity.
    with np.errstate(over="ignore"):
        return neighbours.count(side.keys, side.first - width / 2, side.first + (reach + 0.5) * width)


def _near(bins: Bins) -> Bins:
    """Raise left rows to slightly higher levels of right rows, so that no left row is copied."""
    if not bins.above or bins.above[-1] - bins.left[0] > _NEAR_LEVELS:
        return bins
    highest = bins.above[-1]
    left = tuple(sorted({max(level, highest) for level in bins.left}))
    return Bins(left, bins.right, bins.reach, bins.unit)


def _described(
    bins: Bins,
    left: SampledSide,
    tried: SampledSide,
    right: SampledSide,
    neighbours: _Neighbours | None,
    resources: Resources,
) -> Bins:
    """Return bins with their estimates and their hot bins."""
    needs = _needs(tried.lengths, bins.reach, min(bins.left))
    own = np.array(bins.left)[np.minimum(np.searchsorted(bins.left, needs), len(bins.left) - 1)]
    width = 2.0 ** own.astype(np.float64)
    seen = _seen(neighbours, tried, width, bins.reach)
    spanned = np.zeros(0) if not bins.right else right.lengths / 2.0 ** bins.left[0]
    beyond = float(np.clip(spanned, 0, bins.reach).mean()) if len(spanned) else 0.0
    left_copies = 1.0 + len(bins.above) * (bins.reach + 1)
    right_copies = len(bins.left) * (bins.reach + 1 + beyond)
    candidates = float(seen.mean()) if len(seen) else 0.0
    moved_ns = (left.rows * left_copies + right.rows * right_copies) * _copy_ns(resources.constants)
    return Bins(
        left=bins.left,
        right=bins.right,
        reach=bins.reach,
        unit=bins.unit,
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
    needs = _needs(left.lengths, bins.reach, min(bins.left))
    own = np.array(bins.left)[np.minimum(np.searchsorted(bins.left, needs), len(bins.left) - 1)]
    width = 2.0 ** own.astype(np.float64)
    limit = 2.0**62
    numbers = np.floor(np.clip(left.first / width, -limit, limit)).astype(np.int64)
    groups, counts = np.unique(np.stack([left.keys, own, numbers]), axis=1, return_counts=True)
    width = 2.0 ** groups[1].astype(np.float64)
    with np.errstate(over="ignore"):
        start = groups[2] * width
        end = start + (bins.reach + 1) * width
    seen = _Neighbours(left, right).count(groups[0], start, end)
    rows = counts * left.weight
    copy_ns = _copy_ns(resources.constants)
    cost = rows * seen * resources.constants.bin_pair_ns + (rows + seen) * copy_ns
    fair = (cost.sum() + (left.rows + right.rows) * copy_ns) / (2 * resources.cores)
    return tuple(
        HotBin(int(groups[0][i]), int(groups[1][i]), int(groups[2][i]), parts)
        for i, parts in hot_groups(cost, counts, fair)
    )
