"""Decimals of any precision, counted in units of their last digit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import integers_of, plain, raw_values, validity
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import TooWideError, any_of, multiplied
from juncture.ordered.domain import Domain, Rough

_DIGITS = 400
_DIGITS_MAX = 76


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
        digits = min(int(max(each.precision - each.scale for each in types) + self.scale), _DIGITS_MAX)
        dropped = max(0, int(10**digits).bit_length() - 63)
        first, rest = divmod(dropped, 64)

        def codes(array: pa.Array) -> tuple[Ints, Mask | None]:
            words = raw_values(array.cast(pa.decimal256(digits, self.scale)), np.uint64)
            highest = words[:, first] >> np.uint64(rest)
            if rest:
                highest |= words[:, first + 1] << np.uint64(64 - rest)
            return np.asarray(highest.view(np.int64), np.int64), validity(array)

        return Rough(codes, steps=2**dropped)

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
