"""The bounds of left rows, as codes of the outermost right values within them.

The right values of an inequality are coded once, in their order, and an end becomes the code of the least (or greatest)
right value that satisfies it. So ends are exact whatever is added to a value: one that leaves 64 bits is no limit at
all, or one that nothing satisfies.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, raw_values, validity
from juncture.columnar.order_encoding import Coder, RankCoder, StepCoder, TooWideError, float_codes, steps_of
from juncture.kernels.array_types import Floats, Ints, Mask
from juncture.spec.schema import TIME_UNITS, Domain

LEAST, GREATEST = -(2**63), 2**63 - 1

Offset: TypeAlias = "int | float | Fraction | pa.Array"
"""What is added to a left value: a number of steps (a float among floats), or a column with one for each row."""


@dataclass(frozen=True)
class LimitEnd:
    """An end of a range of right values.

    Attributes
    ----------
    upper
        Whether it is the upper one.
    strict
        Whether the end itself does not match.
    """

    upper: bool
    strict: bool = False


@dataclass(frozen=True)
class LimitEncoding:
    """One order of values: codes of right columns in it, and the codes that left values limit them to.

    Attributes
    ----------
    coder
        By steps where they fit 64 bits, else by rank among the distinct right values.
    nan_counts
        Whether NaN is a value, equal to itself and greater than all others; otherwise it matches nothing.
    """

    coder: Coder
    nan_counts: bool = False

    @property
    def domain(self) -> Domain:
        """The values."""
        return self.coder.domain

    def by_rank(self, columns: Iterable[pa.Array]) -> LimitEncoding:
        """Return the encoding in which right columns with these values are coded by rank.

        It costs microseconds a value.
        """
        return LimitEncoding(RankCoder.of(self.domain, columns), self.nan_counts)

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes of right values, and which rows have one.

        Raises
        ------
        TooWideError
            If a value does not fit, and the encoding is not by rank.
        """
        codes, valid = self.coder.encode(array)
        return codes, validity(plain(array)) if self.nan_counts else valid

    def rough(self, array: pa.Array) -> Ints:
        """Return codes in the order of right values that need not fit; different values may have the same."""
        steps = steps_of(plain(array), self.domain)
        return float_codes(np.array([0.0 if step is None else float(step) for step in steps], np.float64))

    def limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Return the codes that left values limit right ones to.

        Parameters
        ----------
        array
            The left values.
        offset
            Added to each.
        end
            Which end they are.

        Returns
        -------
        codes
            The least code that satisfies a lower end, the greatest that satisfies an upper one.
        possible
            Which rows any value may satisfy: none where the value or the offset is null or NaN; None for all.
        """
        if self.domain.kind == "float":
            return self._float_limits(array, offset, end)
        if isinstance(self.coder, StepCoder):
            try:
                codes, valid = self.coder.encode(array)
                added, strict, known = _whole_offsets(offset, self.domain, end)
                codes, possible = _shifted(codes, added, LimitEnd(end.upper, strict))
                return codes, both(both(possible, valid), known)
            except TooWideError:
                pass
        return self._exact_limits(array, offset, end)

    def _float_limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        array = plain(array)
        values, possible = floats(array), validity(array)
        if isinstance(offset, pa.Array):
            column = plain(offset)
            possible = both(validity(column), possible)
            added: Floats | float = floats(column)
        else:
            added = float(offset)
        if isinstance(added, np.ndarray) or added != 0:
            with np.errstate(invalid="ignore", over="ignore"):
                values = values + added
        missing = np.isnan(values)
        if not self.nan_counts and missing.any():
            possible = both(possible, ~missing)
        codes = float_codes(values)
        if not end.strict:
            return codes, possible
        codes, inside = _shifted(codes, 0, end)
        return codes, both(possible, inside)

    def _exact_limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Calculate with Python's integers, row by row."""
        steps = steps_of(plain(array), self.domain)
        if isinstance(offset, pa.Array):
            added = _exact_offsets(plain(offset), self.domain)
        else:
            added = [Fraction(offset)] * len(steps)
        codes = np.zeros(len(steps), np.int64)
        possible = np.zeros(len(steps), np.bool_)
        ranked = self.coder.values if isinstance(self.coder, RankCoder) else None
        shift = 2**63 if isinstance(self.coder, StepCoder) and self.coder.unsigned else 0
        for row, (step, more) in enumerate(zip(steps, added, strict=True)):
            if step is None or more is None:
                continue
            limit = inward(step + more, end) - shift
            if ranked is not None:
                codes[row] = bisect_right(ranked, limit) - 1 if end.upper else bisect_left(ranked, limit)
                possible[row] = True
            else:
                codes[row] = min(max(limit, LEAST), GREATEST)
                possible[row] = limit >= LEAST if end.upper else limit <= GREATEST
        return codes, possible


def inward(value: Fraction | int, end: LimitEnd) -> int:
    """Return the last whole number within an end."""
    if end.upper:
        return math.ceil(value) - 1 if end.strict else math.floor(value)
    return math.floor(value) + 1 if end.strict else math.ceil(value)


def _shifted(codes: Ints, offset: int | Ints, end: LimitEnd) -> tuple[Ints, Mask | None]:
    """Add offsets to codes, without wrapping around: a limit beyond all codes is none, or excludes all of them.

    Raises
    ------
    TooWideError
        If the offset does not fit 64 bits.
    """
    carry = np.zeros(0, np.int8)
    for added in (offset, end.strict * (-1 if end.upper else 1)):
        if isinstance(added, int) and added == 0:
            continue
        if isinstance(added, int) and not LEAST <= added <= GREATEST:
            raise TooWideError
        step = np.asarray(added, np.int64)
        total = codes + step
        wrapped = ((codes ^ total) & (step ^ total)) < 0
        if wrapped.any():
            # Wrapping up and then down again comes out right.
            carry = (carry if len(carry) else np.zeros(len(codes), np.int8)) + wrapped * np.sign(step).astype(np.int8)
        codes = total
    if not carry.any():
        return codes, None
    codes = np.where(carry == 0, codes, np.where(carry > 0, GREATEST, LEAST))
    return codes, carry >= 0 if end.upper else carry <= 0


def _whole_offsets(offset: Offset, domain: Domain, end: LimitEnd) -> tuple[int | Ints, bool, Mask | None]:
    """Return offsets as whole steps, whether the end is strict with these, and which rows have one.

    Raises
    ------
    TooWideError
        If one does not fit 64 bits.
    """
    if not isinstance(offset, pa.Array):
        whole = inward(Fraction(offset), end)
        return whole, False, None
    array = plain(offset)
    values, ratio = _scaled(array, domain)
    valid = validity(array)
    if valid is not None:
        values = np.where(valid, values, 0)
    if ratio.denominator == 1:
        most = GREATEST // ratio.numerator
        if ratio.numerator > 1 and ((values > most) | (values < -most)).any():
            raise TooWideError
        return values * np.int64(min(ratio.numerator, GREATEST)), end.strict, valid
    if ratio.numerator > 1 or ratio.denominator > GREATEST:
        raise TooWideError
    floors = values // np.int64(ratio.denominator)
    rounded = (floors * np.int64(ratio.denominator) != values).astype(np.int64)
    if end.upper:
        return floors + (rounded - 1) * end.strict, False, valid
    return floors + (1 if end.strict else rounded), False, valid


def _scaled(array: pa.Array, domain: Domain) -> tuple[Ints, Fraction]:
    """Return a column's numbers as integers, and how many steps one of them is.

    Raises
    ------
    TooWideError
        If they do not fit 64 bits.
    """
    data_type = array.type
    if pat.is_duration(data_type):
        unit_ns = 1_000 ** (3 - TIME_UNITS.index(data_type.unit))
        return raw_values(array, np.int64), Fraction(unit_ns, domain.step_ns)
    if pat.is_decimal(data_type) or pat.is_floating(data_type) or pat.is_uint64(data_type):
        raise TooWideError
    return raw_values(array.cast(pa.int64()), np.int64), domain.steps_in_one


def _exact_offsets(array: pa.Array, domain: Domain) -> list[Fraction | None]:
    """Return a column's numbers in steps, one by one; None for null and what is not finite."""
    if pat.is_duration(array.type):
        unit_ns = 1_000 ** (3 - TIME_UNITS.index(array.type.unit))
        ratio = Fraction(unit_ns, domain.step_ns)
        array = array.cast(pa.int64())
    else:
        ratio = domain.steps_in_one
    missing = (None, math.inf, -math.inf)
    return [None if value in missing or value != value else Fraction(value) * ratio for value in array.to_pylist()]


def floats(array: pa.Array) -> Floats:
    """Return numbers as floats, rounded where they have to be."""
    if pat.is_decimal(array.type):
        decimals: Floats = raw_values(array.cast(pa.float64()), np.float64)
        return decimals
    if pat.is_integer(array.type):
        kind = "u" if pat.is_unsigned_integer(array.type) else "i"
        integers: Floats = raw_values(array, f"{kind}{array.type.bit_width // 8}").astype(np.float64)
        return integers
    plain_floats: Floats = raw_values(array.cast(pa.float64()), np.float64)
    return plain_floats


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return what two masks have in common; None stands for all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
