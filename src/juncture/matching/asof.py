"""What as-of joins compare, and the code ranges of their matches.

Ranges follow from tolerances, and from where a right row would be a better match. They are rounded outwards, so that no
match is missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.errors import DataError, PlanError
from juncture.kernels.array_types import Ints, Mask
from juncture.matching.condition import ComparedRows
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError, moved
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import Side


@dataclass(frozen=True)
class AsofCondition:
    """What an as-of join compares: key columns and one line of order codes, as `Condition` does for other joins."""

    join: ResolvedAsof

    @property
    def nulls_equal(self) -> bool:
        """Whether null keys match."""
        return self.join.nulls_equal

    @property
    def key_types(self) -> tuple[list[pa.DataType], list[pa.DataType]]:
        """The types of the key columns of both sides."""
        return self.join.key_types

    def rows(self, batch: pa.RecordBatch, side: Side) -> ComparedRows:
        """Return the part of rows that the join compares."""
        is_left = side == "left"
        by, on = (self.join.left_by, self.join.left_on) if is_left else (self.join.right_by, self.join.right_on)
        try:
            codes, valid = self.join.domain.encode(batch.column(on))
        except TooWideError:
            raise DataError(
                f"Column {on!r} of the {side} side has a value that does not fit a 64-bit code. Cast the column to a "
                "type with fewer digits or a coarser unit.",
                name="JN-VALUE-RANGE",
            ) from None
        return ComparedRows([batch.column(name) for name in by], codes.reshape(1, -1), valid)


def check_asof(join: ResolvedAsof, inputs: str) -> None:
    """Raise an error for features that need an order of the right rows. ``inputs`` names them in the message."""
    if join.goes_by_table_order and join.how not in ("semi", "anti"):
        raise PlanError(
            f"ties={join.spec.ties!r} needs an order of the right rows, but {inputs} have none. Pass order_by= with "
            "the columns that define the order, or remove ties=.",
            name="JN-TIES-ORDER",
        )


@dataclass(frozen=True)
class KeyRanges:
    """The code ranges within tolerances. ``possible`` masks left rows that can match; None for all."""

    low: Ints
    high: Ints
    possible: Mask | None


def tolerance_ranges(join: ResolvedAsof, codes: Ints, tolerances: pa.Array | None) -> KeyRanges:
    """Return the code ranges of left rows within their tolerance, a constant or a column."""
    if join.tolerance is None:
        return KeyRanges(np.full(len(codes), MIN_CODE), np.full(len(codes), MAX_CODE), None)
    if tolerances is None:
        words, valid = join.domain.limit(join.tolerance), None
    else:
        words, valid = join.domain.limits(tolerances)
    return KeyRanges(*join.domain.around(codes, words), valid)


def left_ranges(join: ResolvedAsof, codes: Ints) -> tuple[Ints, Ints]:
    """Return the code ranges of left rows that right rows can match, if all share one tolerance."""
    if join.tolerance is None or join.tolerance.column is not None:
        return np.full(len(codes), MIN_CODE), np.full(len(codes), MAX_CODE)
    return join.domain.around(codes, join.domain.limit(join.tolerance))


def improving_ranges(
    join: ResolvedAsof, codes: Ints, best: Ints, has_all: Mask, ranges: KeyRanges
) -> tuple[Ints, Ints]:
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
