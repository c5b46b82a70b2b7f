"""Integers, floats (coded by their bits, also with 64-bit integers among them), and decimals of any precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import both, float_codes, floats, floats_of, integers_of, plain, raw_values, validity
from juncture.kernels.array_types import Floats as FloatArray
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.ordered.arithmetic import (
    MIN_CODE,
    LimitEnd,
    Offset,
    TooWideError,
    any_of,
    multiplied,
    shifted,
    signed_integers,
)
from juncture.ordered.domain import Coder, Domain, Read, Rough

_SHIFT = 2**63
_DIGITS = 400
_DIGITS_MAX = 76
_INTEGER_MAX = 2**53  # floats represent all integers up to this magnitude
_SLACK = 2.0**-50  # greatest relative error of a float after a few operations


@dataclass(frozen=True)
class Integers(Domain):
    """Integers. If all columns are ``unsigned``, codes are shifted by half the range."""

    kind: ClassVar[str] = "integer"
    has_regular_steps: ClassVar[bool] = True
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (pat.is_integer,)
    distance_noun: ClassVar[str] = "an integer"

    unsigned: bool = False

    def common(self, other: Domain) -> Domain | None:
        """Return the domain of both, exactly; of integers and floats, that of floats."""
        if isinstance(other, Integers):
            return Integers(self.unsigned and other.unsigned)
        return other.common(self) if other.floating else None

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the integers, shifted if they are unsigned."""
        array = plain(array)
        valid = validity(array)
        if self.unsigned:
            wide = raw_values(array.cast(pa.uint64()), np.uint64)
            return (wide ^ np.uint64(_SHIFT)).view(np.int64), valid
        return signed_integers(array, valid), valid

    def restores(self, data_type: pa.DataType, /) -> bool:
        """Return whether codes of a type determine its values."""
        return bool(pat.is_integer(data_type))

    def restore(self, codes: Ints, valid: Mask | None, data_type: pa.DataType) -> pa.Array:
        """Return the integers of codes."""
        return super().restore(codes ^ np.int64(-_SHIFT) if self.unsigned else codes, valid, data_type)

    def code_of(self, step: Any) -> int:
        """Return the code of an integer, of any size."""
        return int(step) - _SHIFT if self.unsigned else int(step)

    def step_of(self, code: int) -> int:
        """Return the integer of a code."""
        return code + _SHIFT if self.unsigned else code

    @property
    def unshifted(self) -> Integers:
        """The same domain with codes that are steps."""
        return Integers()

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the integers, halved if any column is of unsigned 64-bit integers, so that both signs fit."""
        if any(map(pat.is_uint64, types)):
            return Rough(lambda array: (_half(array), validity(array)), steps=2)
        bits = max(int(each.bit_width) + int(pat.is_unsigned_integer(each)) for each in types)
        return Rough(lambda array: (signed_integers(array, None), validity(array)), min(64, bits))


@dataclass(frozen=True)
class Floats(Domain):
    """Floats.

    With ``has_integers``, they are compared with 64-bit integers. The comparison is exact; distances are those between
    the nearest floats. With ``nan_counts``, NaN is a value, equal to itself and greater than all others; otherwise it
    matches nothing.
    """

    kind: ClassVar[str] = "float"
    floating: ClassVar[bool] = True
    missing_text: ClassVar[str] = "null or NaN"
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (pat.is_integer, pat.is_floating)
    distance_noun: ClassVar[str] = "an integer or float"

    has_integers: bool = False
    nan_counts: bool = False

    def common(self, other: Domain) -> Domain | None:
        """Return the domain of both."""
        if isinstance(other, Integers):
            return Floats(has_integers=True)
        return Floats(self.has_integers or other.has_integers) if isinstance(other, Floats) else None

    @property
    def is_asof_only(self) -> bool:
        """Whether only as-of joins of tables compare such values."""
        return self.has_integers

    @property
    def sql_refusal(self) -> str | None:
        """Why SQL does not compare such values; None if it does."""
        if self.has_integers:
            return "the on columns are integers and floats, and SQL would round the integers."
        return None

    def refusal(self, _on: str, what: str, /) -> str | None:
        """Return why joins of other inputs than tables do not compare such values; None if they do."""
        if not self.has_integers:
            return None
        return (
            f"on= compares 64-bit integers with floats, which {what} cannot do exactly. Cast one of them to the type "
            "of the other."
        )

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the bits in the order of floats. Raise `TooWideError` for an integer that no float represents."""
        array = plain(array)
        valid = validity(array)
        if self.has_integers and pat.is_integer(array.type) and array.type.bit_width == 64:
            values = raw_values(array, np.uint64 if pat.is_uint64(array.type) else np.int64)
            if any_of((values > _INTEGER_MAX) | (values < -_INTEGER_MAX), valid):
                raise TooWideError
        codes, valid = _codes_of(array)
        return codes, validity(array) if self.nan_counts else valid

    def ranked(self, read: Read) -> Coder:
        """Return this domain, as `encode` suffices for all floats; with integers, ranks."""
        return super().ranked(read) if self.has_integers else self

    def code_of(self, step: Any) -> int:
        """Return the code of a float."""
        return int(float_codes(np.array([step], np.float64))[0])

    def step_of(self, code: int) -> float:
        """Return the float of a code."""
        return float(floats_of(np.array([code], np.int64))[0])

    def rough(self, _types: Sequence[pa.DataType], /) -> Rough:
        """Return the codes of floats. Integers have the code of the nearest float, which keeps the order."""
        return Rough(_codes_of)

    def whole_steps(
        self,
        steps: Decimal,
        *,
        up: bool = False,  # noqa: ARG002 - rounded to the nearest float
    ) -> int | float:
        """Return the nearest float."""
        return float(steps)

    def limits(self, array: pa.Array) -> tuple[Words, Mask | None]:
        """Return each row's tolerance, and which rows have one: neither null, NaN nor negative."""
        array = plain(array)
        values = floats(array) + 0.0
        if pat.is_integer(array.type) and (values > _INTEGER_MAX).any():
            # The nearest float of an integer may exceed it.
            exact, valid = self.tolerances(array)
            return self.words(exact), valid
        return self._valid_limits(values.view(np.uint64), values >= 0, validity(array))

    def _rounded_down(self, distance: Any) -> Any:
        return distance

    def words(self, distances: list[Any]) -> Words:
        """Return the bits of the greatest floats that do not exceed some numbers."""
        return np.array([_float_below(distance) for distance in distances], np.float64).view(np.uint64)

    def ends(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Return the last code within each limit, and which rows any value can satisfy; None for all."""
        array = plain(array)
        values, possible = floats(array), validity(array)
        if isinstance(offset, pa.Array):
            column = plain(offset)
            possible = both(validity(column), possible)
            added: FloatArray | float = floats(column)
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
        codes, inside = shifted(codes, 0, end)
        return codes, both(possible, inside)

    def around(self, codes: Ints, distances: Words) -> tuple[Ints, Ints]:
        """Return the codes at some distances below and above, rounded outward."""
        values, far = floats_of(codes), np.ascontiguousarray(distances).view(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            far = far + (np.abs(values) + far) * _SLACK + np.finfo(np.float64).tiny
            low, high = values - far, values + far
        return np.where(np.isnan(low), MIN_CODE, float_codes(low)), float_codes(high)

    def mirrored(self, codes: Ints, others: Ints, *, later: bool) -> Ints:  # noqa: ARG002 - both directions include equal distances
        """Return the farthest codes on the opposite side that may be as near as others."""
        values, other = floats_of(codes), floats_of(others)
        with np.errstate(over="ignore", invalid="ignore"):
            far = np.abs(values - other)
        low, high = self.around(codes, far.view(np.uint64))
        return np.where(others > codes, low, high)

    def distances(self, one: pa.Array, other: pa.Array) -> FloatArray:
        """Return the distances between plain values as floats; 0 for null, and between equal infinities."""
        a, b = (floats(side) for side in (one, other))
        valid = both(validity(one), validity(other))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where((a == b) | (False if valid is None else ~valid), 0.0, np.abs(a - b))


def _codes_of(array: pa.Array) -> tuple[Ints, Mask | None]:
    """Return the codes of plain numbers, rounded to floats, and which are neither null nor NaN."""
    valid = validity(array)
    values = raw_values(array.cast(pa.float64(), safe=False), np.float64)
    missing = np.isnan(values)
    if missing.any():
        valid = ~missing if valid is None else valid & ~missing
    return float_codes(values), valid


def _float_below(limit: Any) -> float:
    """Return the greatest float that is not greater than a number."""
    try:
        near = float(limit)
    except OverflowError:
        return math.inf
    return math.nextafter(near, -math.inf) if near > limit else near


def _half(array: pa.Array) -> Ints:
    if not pat.is_uint64(array.type):
        return signed_integers(array, None) >> 1
    halves: Ints = (raw_values(array, np.uint64) >> np.uint64(1)).astype(np.int64)
    return halves


@dataclass(frozen=True)
class Decimals(Domain):
    """Decimals of at most ``scale`` digits after the point, which may be negative."""

    kind: ClassVar[str] = "decimal"
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (pat.is_integer, pat.is_decimal)
    distance_noun: ClassVar[str] = "an integer or decimal"

    scale: int

    def common(self, other: Domain) -> Domain | None:
        """Return the domain with the digits of both."""
        return Decimals(max(self.scale, other.scale)) if isinstance(other, Decimals) else None

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the units of the last digit. Raise `TooWideError` if one does not fit in 64 bits."""
        array = plain(array)
        valid = validity(array)
        return multiplied(_unscaled(array, valid), 10 ** (self.scale - array.type.scale), valid), valid

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the highest 63 bits that a decimal of these types can have, rounded down."""
        whole_digits = int(max(each.precision - each.scale for each in types))
        # Of long decimals, the last digits of the common scale do not fit.
        scale = min(self.scale, _DIGITS_MAX - whole_digits)
        digits = whole_digits + scale
        dropped = max(0, int(10**digits).bit_length() - 63)
        first, rest = divmod(dropped, 64)

        def codes(array: pa.Array) -> tuple[Ints, Mask | None]:
            if array.type.scale > scale:
                # Imported late, so that a command with a wrong argument ends at once.
                import pyarrow.compute as pc

                array = pc.round(array, scale, "down")
            words = raw_values(array.cast(pa.decimal256(digits, scale)), np.uint64)
            highest = words[:, first] >> np.uint64(rest)
            if rest:
                highest |= words[:, first + 1] << np.uint64(64 - rest)
            return np.asarray(highest.view(np.int64), np.int64), validity(array)

        return Rough(codes, steps=2**dropped * 10 ** (self.scale - scale))

    def steps(self, array: pa.Array) -> list[Any]:
        """Return the units of the last digit."""
        with localcontext(prec=_DIGITS):
            return [None if value is None else int(value.scaleb(self.scale)) for value in array.to_pylist()]

    @property
    def step(self) -> Fraction:
        """A unit of the last digit."""
        return Fraction(10) ** -self.scale

    def distance_text(self, steps: Any) -> str:
        """Return a distance in units of the last digit as text."""
        return f"{steps} steps of 1e-{self.scale}" if self.scale else str(steps)

    def distance_steps(self, array: pa.Array) -> tuple[Ints, Fraction]:
        """Return integers, or units of the last digit of decimals."""
        if pat.is_decimal(array.type):
            return _unscaled(array, validity(array)), Fraction(10) ** (self.scale - array.type.scale)
        return super().distance_steps(array)

    def exact_distances(self, array: pa.Array) -> list[Any]:
        """Return distances in units of the last digit."""
        return [None if value is None else Fraction(value) / self.step for value in array.to_pylist()]


def _unscaled(array: pa.Array, valid: Mask | None) -> Ints:
    """Return decimals as integers of their last digit; raise `TooWideError` if one does not fit in 64 bits."""
    if array.type.bit_width <= 64:
        return integers_of(array)
    words = raw_values(array, np.int64)
    if any_of((words[:, 1:] != (words[:, :1] >> 63)).any(axis=1), valid):
        raise TooWideError
    return np.ascontiguousarray(words[:, 0])
