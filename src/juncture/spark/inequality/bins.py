"""The bins of a join by bins: how wide they are, on how many levels, and which are split, by a sample of both sides.

A bin of level *k* is 2ᵏ wide. A row lies on the lowest level where it spans few bins, so that rows of any length are
in a few bins each. Two rows meet on the higher one of their levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from juncture.kernels.array_types import Floats, Ints
from juncture.planner.constants import Constants
from juncture.planner.statistics import Resources

_REACHES = (1, 2, 3, 4)
_TRIED_ROWS = 1_000
_HOT_ROWS_MIN = 50
_HOT_BINS_MAX = 16
_SALTS_MAX = 32
_NEAR_LEVELS = 3
"""Levels that are no further apart than this are better one."""
_LEVEL_MAX = 63
_LOWEST, _HIGHEST = -1_000, 1_000
"""Levels between which bins are as wide as a float can say."""


@dataclass(frozen=True)
class SampledSide:
    """Rows of one side, picked by chance.

    Attributes
    ----------
    keys
        The hash of each one's key.
    first, last
        Where it starts and ends.
    rows
        How many rows they stand for.
    widest
        The length of the longest of all rows, not only of these.
    """

    keys: Ints
    first: Floats
    last: Floats
    rows: float
    widest: float

    @property
    def weight(self) -> float:
        """How many rows each of them stands for."""
        return self.rows / max(len(self.keys), 1)

    @property
    def lengths(self) -> Floats:
        """How long each one is; from an infinity to itself, not at all."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.where(self.last > self.first, self.last - self.first, 0.0), np.float64)


@dataclass(frozen=True)
class HotBin:
    """A bin whose left rows are divided among several tasks, each with all of its right rows.

    Attributes
    ----------
    key
        The hash of the key that it belongs to.
    level, number
        Which of the key's bins it is.
    parts
        Into how many it is divided.
    """

    key: int
    level: int
    number: int
    parts: int


@dataclass(frozen=True)
class Bins:
    """How rows are put into bins.

    Attributes
    ----------
    left, right
        The levels that left and right rows lie on, in order. None for right rows that are points, which are below all
        levels.
    reach
        How many bins a row spans at most on its level, beyond the first.
    unit
        The level whose bins are numbered; those above group them.
    hot
        The bins that are divided.
    left_copies, right_copies
        In how many bins a row is, on average.
    candidates
        How many pairs are compared for each left row, on average.
    is_spread
        Whether both sides are shuffled, however small: it costs more to compare their rows than to move them. Spark
        would make a task or two of a small file, and send the other side there.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    reach: int
    unit: int = 0
    hot: tuple[HotBin, ...] = ()
    left_copies: float = 1.0
    right_copies: float = 1.0
    candidates: float = 0.0
    is_spread: bool = False

    @property
    def above(self) -> tuple[int, ...]:
        """The levels of right rows on which they meet left rows of lower ones."""
        return tuple(level for level in self.right if level > self.left[0])


class _Neighbours:
    """Counts the right rows of a key near a place."""

    def __init__(self, left: SampledSide, right: SampledSide) -> None:
        keys = np.unique(right.keys)
        ends = np.concatenate([right.first, left.first, left.last, [0.0]])
        ends = ends[np.isfinite(ends)]
        self._low, extent = float(ends.min()), float(np.ptp(ends))
        # Keys are laid one after the other on one line, with room between them.
        self._scale = 0.25 / extent if extent else 1.0
        self._keys = keys
        self._places = np.sort(np.searchsorted(keys, right.keys) + self._place(right.first))
        self._weight = right.weight

    def _place(self, values: Floats) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.clip((values - self._low) * self._scale, -0.25, 0.5)

    def count(self, keys: Ints, low: Floats, high: Floats) -> Floats:
        """Return about how many rows of each key lie between two places."""
        at = np.searchsorted(self._keys, keys)
        known = (
            self._keys[np.minimum(at, len(self._keys) - 1)] == keys if len(self._keys) else np.zeros(len(keys), bool)
        )
        first = np.searchsorted(self._places, at + self._place(low), side="left")
        end = np.searchsorted(self._places, at + self._place(high), side="right")
        return np.asarray(np.where(known, np.maximum(end - first, 0), 0) * self._weight, np.float64)


def estimated_pairs(left: SampledSide, right: SampledSide) -> float:
    """Return about how many pairs of rows share a point.

    Parameters
    ----------
    left, right
        The sides. Right rows count where they start, so that long ones are underrated.
    """
    if len(left.keys) == 0 or len(right.keys) == 0:
        return 0.0
    inside = _Neighbours(left, right).count(left.keys, left.first, left.last)
    back = (
        _Neighbours(right, left).count(right.keys, right.first, right.last) if (right.last > right.first).any() else 0
    )
    return float(np.sum(inside) * left.weight + np.sum(back) * right.weight)


def equal_key_pairs(left: SampledSide, right: SampledSide) -> float:
    """Return about how many pairs of rows have equal keys."""
    keys, counts = np.unique(left.keys, return_counts=True)
    others, other_counts = np.unique(right.keys, return_counts=True)
    _, ours, theirs = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    return float(np.sum(counts[ours] * left.weight * other_counts[theirs] * right.weight))


def choose_bins(
    left: SampledSide, right: SampledSide, *, is_real: bool, are_points: bool, resources: Resources
) -> Bins:
    """Return the bins that should cost the least.

    Parameters
    ----------
    left, right
        The sides.
    is_real
        Whether places are numbers with fractions, so that bins may be narrower than one.
    are_points
        Whether right rows have no length, and so no levels.
    resources
        How many tasks run at once, and what a row costs.
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
    """Return what a row costs in a bin: it is copied, shuffled and sorted."""
    return constants.shuffle_ns + constants.sort_ns


def _subsample(side: SampledSide) -> SampledSide:
    step = max(1, len(side.keys) // _TRIED_ROWS)
    return SampledSide(side.keys[::step], side.first[::step], side.last[::step], side.rows, side.widest)


def _lowest_level(left: SampledSide, right: SampledSide) -> int:
    """Return a level so low that nothing is gained below."""
    ends = np.concatenate([left.first, left.last, right.first, right.last])
    ends = np.abs(ends[np.isfinite(ends)])
    most = float(ends.max(initial=0.0))
    return max(_LOWEST, min(_HIGHEST - _LEVEL_MAX, math.frexp(most)[1] - 40)) if most else 0


def _needs(widths: Floats, reach: int, lowest: int) -> Ints:
    """Return the level on which a row of a width surely spans no more than ``reach`` further bins."""
    with np.errstate(divide="ignore", over="ignore"):
        # A window that ends before it starts matches nothing, on any level.
        finite = np.nextafter(np.maximum(np.nan_to_num(widths, nan=0.0), 0.0), np.inf)
        levels = np.ceil(np.log2(finite / reach))
    return np.asarray(np.clip(levels, lowest, lowest + _LEVEL_MAX), np.int64)


def _used(levels: Sequence[int], needs: Ints) -> tuple[int, ...]:
    """Return the levels on which some row lies."""
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
    """Return the levels for which copies and comparisons cost the least, the highest of them being ``top``."""
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
            # A right row on this level is compared with the left rows around it: as many, by symmetry.
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
    """Return how many rows share the bins that each row sees."""
    if neighbours is None:
        return np.zeros(len(side.keys))
    # What overflows lies beyond all others, as infinity does.
    with np.errstate(over="ignore"):
        return neighbours.count(side.keys, side.first - width / 2, side.first + (reach + 0.5) * width)


def _near(bins: Bins) -> Bins:
    """Lift left rows to the levels of right ones that are not much higher: then no left row has to be copied."""
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
    """Return bins with what they come to, and with the hot ones."""
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
    """Return the bins that would keep one task busy when all others are done."""
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
    hot = np.flatnonzero((cost > fair) & (counts >= _HOT_ROWS_MIN))
    hot = hot[np.argsort(-cost[hot], kind="stable")][:_HOT_BINS_MAX]
    return tuple(
        HotBin(
            key=int(groups[0][i]),
            level=int(groups[1][i]),
            number=int(groups[2][i]),
            parts=int(min(_SALTS_MAX, 2 * math.ceil(cost[i] / fair))),
        )
        for i in hot
    )
