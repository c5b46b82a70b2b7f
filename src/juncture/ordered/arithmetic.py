"""Arithmetic on steps and codes in 64 bits, without overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import WHOLE_ITEMS, raw_values
from juncture.kernels.array_types import Ints, Mask

MIN_CODE, MAX_CODE = -(2**63), 2**63 - 1

Offset: TypeAlias = "int | float | Fraction | pa.Array"
"""The distance added to a value: a number of steps (a float among floats), or a column with one for each row."""


class TooWideError(Exception):
    """A value or a distance does not fit in 64 bits, so the join must start again with ranks or exact numbers."""


@dataclass(frozen=True)
class LimitEnd:
    """An end of a range of values: whether it is the upper one, and whether the end itself does not match."""

    upper: bool
    strict: bool = False


def inward(value: Fraction | int, end: LimitEnd) -> int:
    """Return the last whole number within an end."""
    if end.upper:
        return math.ceil(value) - 1 if end.strict else math.floor(value)
    return math.floor(value) + 1 if end.strict else math.ceil(value)


def shifted(codes: Ints, offset: int | Ints, end: LimitEnd) -> tuple[Ints, Mask | None]:
    """Add offsets to codes without overflow, and return which rows any code can satisfy; None for all.

    A limit beyond all codes is none, or excludes all of them. Raise `TooWideError` if the offset does not fit.
    """
    carry = np.zeros(0, np.int8)
    for added in (offset, end.strict * (-1 if end.upper else 1)):
        if isinstance(added, int) and added == 0:
            continue
        if isinstance(added, int) and not MIN_CODE <= added <= MAX_CODE:
            raise TooWideError
        step = np.asarray(added, np.int64)
        total = codes + step
        wrapped = ((codes ^ total) & (step ^ total)) < 0
        if np.count_nonzero(wrapped):
            # Overflow in one direction and then in the other returns to the right code.
            carry = (carry if len(carry) else np.zeros(len(codes), np.int8)) + wrapped * np.sign(step).astype(np.int8)
        codes = total
    if not len(carry) or not carry.any():
        return codes, None
    codes = np.where(carry == 0, codes, np.where(carry > 0, MAX_CODE, MIN_CODE))
    return codes, carry >= 0 if end.upper else carry <= 0


def moved(codes: Ints, steps: int) -> Ints:
    """Return codes some steps on, without overflow."""
    if not steps:
        return codes
    far = np.broadcast_to(np.uint64(abs(steps)), codes.shape)
    return above(codes, far) if steps > 0 else below(codes, far)


def above(codes: Ints, steps: np.ndarray) -> Ints:
    """Return codes some unsigned steps above, at most the greatest code."""
    unsigned = codes.view(np.uint64)
    # Differences of 64-bit integers fit in 64 bits without a sign.
    return np.where(steps >= np.uint64(MAX_CODE) - unsigned, MAX_CODE, (unsigned + steps).view(np.int64))


def below(codes: Ints, steps: np.ndarray) -> Ints:
    """Return codes some unsigned steps below, at least the least code."""
    return ~above(~codes, steps)


def signed_integers(array: pa.Array, valid: Mask | None) -> Ints:
    """Return integers of any type in 64 bits; raise `TooWideError` if one does not fit."""
    integers = raw_values(array, WHOLE_ITEMS[array.type.id])
    if integers.dtype == np.uint64:
        integers = integers.view(np.int64)
        if any_of(integers < 0, valid):
            raise TooWideError
    values: Ints = integers.astype(np.int64, copy=False)
    return values


def any_of(mask: Mask, valid: Mask | None) -> bool:
    """Return whether any valid row is true."""
    return bool((mask if valid is None else mask & valid).any())


def multiplied(values: Ints, factor: int, valid: Mask | None) -> Ints:
    """Multiply integers; raise `TooWideError` on overflow."""
    if factor == 1:
        return values
    if valid is not None:
        values = np.where(valid, values, 0)
    most = (2**63 - 1) // factor
    if ((values > most) | (values < -most)).any():
        raise TooWideError
    return values * np.int64(factor) if most > 0 else np.zeros_like(values)
