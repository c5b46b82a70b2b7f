"""Code ranges of as-of matches: from tolerances, and where a right row would be a better match.

All ranges are rounded outwards, so that no match is missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, moved
from juncture.spec.asof import ResolvedAsof


@dataclass(frozen=True)
class KeyRanges:
    """The code ranges within tolerances. ``possible`` masks left rows that can match; None for all."""

    low: Ints
    high: Ints
    possible: Mask | None


def ranges_of(join: ResolvedAsof, codes: Ints, tolerances: pa.Array | None) -> KeyRanges:
    """Return the code ranges of left rows within their tolerance, a constant or a column."""
    if join.tolerance is None:
        return KeyRanges(np.full(len(codes), MIN_CODE), np.full(len(codes), MAX_CODE), None)
    if tolerances is None:
        words, valid = join.domain.limit(join.tolerance), None
    else:
        words, valid = join.domain.limits(tolerances)
    return KeyRanges(*join.domain.around(codes, words), valid)


def served(join: ResolvedAsof, codes: Ints) -> tuple[Ints, Ints]:
    """Return the code ranges of left rows that right rows can match, if all share one tolerance."""
    if join.tolerance is None or join.tolerance.column is not None:
        return np.full(len(codes), MIN_CODE), np.full(len(codes), MAX_CODE)
    return join.domain.around(codes, join.domain.limit(join.tolerance))


def improving(join: ResolvedAsof, codes: Ints, best: Ints, has_all: Mask, ranges: KeyRanges) -> tuple[Ints, Ints]:
    """Return the code ranges in which a right row would be a match: beside, or in place of, the last one so far.

    ``best`` has the code of the last match of each left row, ``has_all`` whether it has as many matches as it may.
    """
    low, high = ranges.low, ranges.high
    direction, *others = join.directions
    if not others and not direction.forward:
        return np.where(has_all, np.maximum(low, best), low), np.minimum(high, moved(codes, -direction.strict))
    if not others:
        return np.maximum(low, moved(codes, +direction.strict)), np.where(has_all, np.minimum(high, best), high)
    mirrored = join.domain.mirrored(codes, best, later=join.spec.prefer == "later")
    is_behind = best <= codes
    low = np.where(has_all, np.maximum(low, np.where(is_behind, best, mirrored)), low)
    high = np.where(has_all, np.minimum(high, np.where(is_behind, mirrored, best)), high)
    return low, high
