"""The type of a column of written numbers, without changing a digit of a whole number.

A parser that uses 64-bit integers and otherwise floats makes 12345678901234567890123 and …124 equal, and 00123 and 123.
So each slice of a column is measured, the measures are combined, and then the column gets its type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS_MAX = 38
_DIGITS_OF_FLOATS = 15
"""Integers with at most this number of digits are exact as floats."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Measures of the numbers of a column."""

    fits_integers: bool = True  # all are 64-bit integers
    fits_floats: bool = True  # all integers among them are exact as floats
    is_plain: bool = True  # none has an exponent, is infinite or NaN
    starts_with_zero: bool = False  # one has a leading zero, like a code
    whole_digits: int = 1  # the maximum number of digits before and after the decimal point
    fraction_digits: int = 0

    def __or__(self, other: Numbers) -> Numbers:
        """Return the measures of the numbers of both."""
        return Numbers(
            fits_integers=self.fits_integers and other.fits_integers,
            fits_floats=self.fits_floats and other.fits_floats,
            is_plain=self.is_plain and other.is_plain,
            starts_with_zero=self.starts_with_zero or other.starts_with_zero,
            whole_digits=max(self.whole_digits, other.whole_digits),
            fraction_digits=max(self.fraction_digits, other.fraction_digits),
        )

    @property
    def type(self) -> pa.DataType:
        """The type that represents all of them exactly, or text.

        Examples
        --------
        >>> numbers_of(pa.chunked_array([["1", "2.5"]])).type, numbers_of(pa.chunked_array([["007"]])).type
        (DataType(double), DataType(string))
        """
        if self.starts_with_zero:
            return pa.string()
        if self.fits_integers:
            return pa.int64()
        are_whole = self.is_plain and not self.fraction_digits
        if self.fits_floats and not are_whole:
            return pa.float64()
        if self.is_plain and self.whole_digits + self.fraction_digits <= _DIGITS_MAX:
            return pa.decimal128(_DIGITS_MAX, self.fraction_digits)
        return pa.string()


def numbers_of(texts: pa.ChunkedArray) -> Numbers:
    """Measure numbers given as text, each a valid number or null."""
    texts = pc.ascii_trim_whitespace(texts.drop_null())
    if not len(texts):
        return Numbers()
    unsigned = pc.ascii_ltrim(texts, characters="+-")
    is_whole = pc.match_substring_regex(unsigned, "^[0-9]+$")
    is_plain = pc.match_substring_regex(unsigned, r"^([0-9]+\.?[0-9]*|\.[0-9]+)$")
    is_long = pc.and_(is_whole, pc.greater(pc.utf8_length(unsigned), _DIGITS_OF_FLOATS))
    fits_integers, fits_floats = _fits(texts.filter(is_long))
    plain = unsigned.filter(is_plain)
    point = pc.find_substring(plain, ".")
    length = pc.utf8_length(plain)
    whole = pc.if_else(pc.less(point, 0), length, point)
    fraction = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))
    return Numbers(
        fits_integers=pc.all(is_whole).as_py() and fits_integers,
        fits_floats=fits_floats,
        is_plain=pc.all(is_plain).as_py(),
        starts_with_zero=pc.any(pc.match_substring_regex(unsigned, "^0[0-9]")).as_py(),
        whole_digits=pc.max(whole).as_py() or 1,
        fraction_digits=pc.max(fraction).as_py() or 0,
    )


def _fits(wholes: pa.ChunkedArray) -> tuple[bool, bool]:
    """Return whether integers given as text are all 64-bit integers, and whether all are exact as floats."""
    try:
        integers = pc.cast(pc.ascii_ltrim(wholes, characters="+"), pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return False, all(_is_float(text) for text in pc.unique(wholes).to_pylist())
    floats = integers.astype(np.float64)
    # The greatest integers round to 2^63, which is not a 64-bit integer.
    return True, bool(np.array_equal(np.where(floats < 2.0**63, floats, 0).astype(np.int64), integers))


def _is_float(whole: str) -> bool:
    number = float(whole)
    return math.isfinite(number) and int(number) == int(whole)
