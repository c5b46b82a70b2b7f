"""Code ranges of as-of matches: from tolerances, and where a right row would be a better match.

All ranges are rounded outwards, so that no match is missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.columnar.order_encoding import StepCoder, float_codes
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.spec.asof import Asof, ResolvedAsof
from juncture.streams.limits import GREATEST, NO_LIMIT

_ROUNDED = 2
"""Largest rounding error of a sum or difference of floats, in codes."""


@dataclass(frozen=True)
class KeyRanges:
    """The code ranges within tolerances. ``possible`` masks left rows that can match; None for all."""

    low: Ints
    high: Ints
    possible: Mask | None


def ranges_of(join: ResolvedAsof, coder: StepCoder, codes: Ints, tolerances: pa.Array | None) -> KeyRanges:
    """Return the code ranges of left rows within their tolerance, a constant or a column."""
    if join.tolerance is None:
        return KeyRanges(np.full(len(codes), NO_LIMIT), np.full(len(codes), GREATEST), None)
    if tolerances is None:
        words, valid = coder.limit(join.tolerance), None
    else:
        words, valid = coder.limits(plain(tolerances))
    return KeyRanges(*_around(coder, codes, words), valid)


def served(join: ResolvedAsof, coder: StepCoder, codes: Ints) -> tuple[Ints, Ints]:
    """Return the code ranges of left rows that right rows can match, if all share one tolerance."""
    if join.tolerance is None or join.tolerance.column is not None:
        return np.full(len(codes), NO_LIMIT), np.full(len(codes), GREATEST)
    return _around(coder, codes, coder.limit(join.tolerance))


def improving(
    spec: Asof, coder: StepCoder, codes: Ints, best: Ints, has_all: Mask, ranges: KeyRanges
) -> tuple[Ints, Ints]:
    """Return the code ranges in which a right row would be a match: beside, or in place of, the last one so far.

    ``best`` has the code of the last match of each left row, ``has_all`` whether it has as many matches as it may.
    """
    low, high = ranges.low, ranges.high
    strict = not spec.allow_exact_matches
    if spec.direction == "backward":
        return np.where(has_all, np.maximum(low, best), low), np.minimum(high, moved(codes, -strict))
    if spec.direction == "forward":
        return np.maximum(low, moved(codes, +strict)), np.where(has_all, np.minimum(high, best), high)
    mirrored = _mirrored(coder, codes, best, later=spec.prefer == "later")
    is_behind = best <= codes
    low = np.where(has_all, np.maximum(low, np.where(is_behind, best, mirrored)), low)
    high = np.where(has_all, np.minimum(high, np.where(is_behind, mirrored, best)), high)
    return low, high


def moved(codes: Ints, steps: int) -> Ints:
    """Return codes some steps on, without overflow."""
    if not steps:
        return codes
    far = np.broadcast_to(np.int64(abs(steps)), codes.shape)
    return _ahead(codes, far) if steps > 0 else _behind(codes, far)


def _around(coder: StepCoder, codes: Ints, words: Words) -> tuple[Ints, Ints]:
    """Return the codes at some distances below and above."""
    if coder.domain.kind == "float":
        distance, values = words.view(np.float64), _floats(codes)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = float_codes(values - distance), float_codes(values + distance)
        return moved(low, -_ROUNDED), moved(high, _ROUNDED)
    steps = np.broadcast_to(np.minimum(words, np.uint64(GREATEST)).astype(np.int64), codes.shape)
    return _behind(codes, steps), _ahead(codes, steps)


def _mirrored(coder: StepCoder, codes: Ints, best: Ints, *, later: bool) -> Ints:
    """Return the code on the other side up to which a right row would be nearer, or as near and preferred."""
    is_behind = best <= codes
    if coder.domain.kind == "float":
        with np.errstate(over="ignore", invalid="ignore"):
            there = _floats(codes) + (_floats(codes) - _floats(best))
        found = float_codes(there)
        return np.where(is_behind, moved(found, _ROUNDED), moved(found, -_ROUNDED))
    steps = _distance(codes, best)
    nearer = np.maximum(steps - 1, 0)
    ahead, behind = (steps, nearer) if later else (nearer, steps)
    return np.where(is_behind, _ahead(codes, ahead), _behind(codes, behind))


def _distance(codes: Ints, others: Ints) -> Ints:
    """Return the distance of codes, at most `GREATEST`."""
    # Differences of codes are exact as unsigned integers.
    far = np.maximum(codes, others).view(np.uint64) - np.minimum(codes, others).view(np.uint64)
    return np.minimum(far, np.uint64(GREATEST)).astype(np.int64)


def _ahead(codes: Ints, steps: Ints) -> Ints:
    total = codes + steps
    return np.where(total < codes, np.int64(GREATEST), total)


def _behind(codes: Ints, steps: Ints) -> Ints:
    return ~_ahead(~codes, steps)


def _floats(codes: Ints) -> npt.NDArray[np.float64]:
    return (codes ^ ((codes >> 63) & GREATEST)).view(np.float64)
