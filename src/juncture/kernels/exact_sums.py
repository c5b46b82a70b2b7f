"""Exact sums of floats as numbers of base 2^32: additions do not round, and the sum is rounded once.

Digit ``i`` of a sum counts 2^(32 i - 1074): the smallest float is 1 of the first. After `carry_digits` all digits but
the last are from 0 to 2^32 - 1, and the last has the sign.

The float 1.0 is 2^18 in digit 33. Adding 2^-1074, which is 1 in digit 0, changes no other digit.
"""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Ints, IntsOut, IntTable, IntTableOut
from juncture.kernels.compiled import compiled

_BITS = 32
_MASK = (1 << _BITS) - 1
_MANTISSA_BITS = 52
_HIDDEN = 1 << _MANTISSA_BITS
_EXPONENT = 0x7FF
_INFINITY = _EXPONENT << _MANTISSA_BITS


@compiled
def float_digits(bits: Ints, digits: IntsOut) -> None:
    """Find the lowest and the highest digit (``digits``, out) that floats need; reversed if all are 0 or not finite."""
    digits[0], digits[1] = _EXPONENT, -1
    for i in range(len(bits)):
        exponent = (bits[i] >> _MANTISSA_BITS) & _EXPONENT
        if exponent == _EXPONENT or bits[i] << 1 == 0:
            continue
        digit = max(exponent - 1, 0) // _BITS
        digits[0], digits[1] = min(digits[0], digit), max(digits[1], digit + 2)


@compiled
def add_floats(bits: Ints, rows: Ints, weights: Ints, base: int, digits: IntTableOut, special: IntTableOut) -> None:
    """Add floats to the sums ``rows``, times their ``weights``.

    ``digits`` has a line per digit from ``base`` on and a column per sum; none may overflow. ``special`` has lines that
    count plus infinity, minus infinity and NaN.
    """
    for i in range(len(bits)):
        row, weight = rows[i], weights[i]
        exponent, mantissa = (bits[i] >> _MANTISSA_BITS) & _EXPONENT, bits[i] & (_HIDDEN - 1)
        if exponent == _EXPONENT:
            special[2 if mantissa != 0 else 1 if bits[i] < 0 else 0, row] += weight
            continue
        if exponent != 0:
            mantissa |= _HIDDEN
            exponent -= 1
        if mantissa == 0:
            continue
        if bits[i] < 0:
            weight = -weight
        line, shift = exponent // _BITS - base, exponent % _BITS
        low, high = (mantissa & _MASK) << shift, (mantissa >> _BITS) << shift
        digits[line, row] += (low & _MASK) * weight
        digits[line + 1, row] += ((low >> _BITS) + (high & _MASK)) * weight
        digits[line + 2, row] += (high >> _BITS) * weight


@compiled
def carry_digits(digits: IntTableOut) -> None:
    """Normalize all digits but the last; ``digits`` has a line per digit and a column per sum."""
    for line in range(digits.shape[0] - 1):
        for column in range(digits.shape[1]):
            digits[line + 1, column] += digits[line, column] >> _BITS
            digits[line, column] &= _MASK


@compiled
def nearest_floats(digits: IntTable, base: int, bits: IntsOut) -> None:
    """Round sums to the nearest floats, ties to even; infinity beyond their range.

    ``digits`` must be carried, and ``base`` is the index of the first line. Out: the floats as ``bits``.
    """
    lines = digits.shape[0]
    # The last digit is read as two, and digits above are zero.
    size = np.zeros(lines + 3, np.int64)
    for column in range(digits.shape[1]):
        is_negative = lines > 0 and digits[lines - 1, column] < 0
        borrow = np.int64(0)
        for line in range(lines):
            digit = digits[line, column]
            if is_negative:
                digit = -digit - borrow
                borrow = np.int64(digit < 0)
            size[line] = digit & _MASK
            size[line + 1] = digit >> _BITS
        top = lines
        while top >= 0 and size[top] == 0:
            top -= 1
        if top < 0:
            bits[column] = 0
            continue
        highest = _BITS * top
        while size[top] >> (highest - _BITS * top) > 1:
            highest += 1
        # The end of the mantissa, counted from the smallest float and from the first digit.
        exponent = max(highest + _BITS * base - _MANTISSA_BITS, 0)
        end = exponent - _BITS * base
        if end <= 0:
            mantissa = (size[0] | size[1] << _BITS) << -end
        else:
            line, shift = end // _BITS, end % _BITS
            mantissa = size[line] >> shift | size[line + 1] << (_BITS - shift)
            if shift > 0:
                mantissa |= size[line + 2] << (2 * _BITS - shift)
            half, below = (end - 1) // _BITS, (end - 1) % _BITS
            is_more = size[half] & ((1 << below) - 1) != 0
            while half > 0 and not is_more:
                half -= 1
                is_more = size[half] != 0
            half = (end - 1) // _BITS
            if (size[half] >> below) & 1 and (is_more or mantissa & 1):
                mantissa += 1
        # The hidden bit of the mantissa adds one to the exponent, as does a carry from rounding.
        magnitude = min((exponent << _MANTISSA_BITS) + mantissa, _INFINITY) if exponent < _EXPONENT else _INFINITY
        bits[column] = magnitude | (-(1 << 63) if is_negative else 0)
