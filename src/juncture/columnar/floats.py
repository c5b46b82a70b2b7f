"""Numbers as floats, and floats as integers of the same order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values
from juncture.kernels.array_types import Floats, Ints

_INT64_MAX = 2**63 - 1


def float_codes(values: Floats) -> Ints:
    """Return integers in the order of floats; 0.0 and -0.0 are equal, and NaN is the greatest.

    Examples
    --------
    >>> codes = float_codes(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.nan]))
    >>> [bool(a <= b) for a, b in zip(codes, codes[1:])], bool(codes[2] == codes[3])
    ([True, True, True, True, True], True)
    """
    bits = (values + 0.0).view(np.int64)
    codes = bits ^ ((bits >> 63) & _INT64_MAX)
    missing = np.isnan(values)
    return np.where(missing, _INT64_MAX, codes) if missing.any() else codes


def floats_of(codes: Ints) -> Floats:
    """Return the floats of codes: the inverse of `float_codes`."""
    values: Floats = (codes ^ ((codes >> 63) & _INT64_MAX)).view(np.float64)
    return values


def floats(array: pa.Array) -> Floats:
    """Return numbers as floats, rounded if necessary."""
    if pat.is_integer(array.type):
        kind = "u" if pat.is_unsigned_integer(array.type) else "i"
        integers: Floats = raw_values(array, f"{kind}{array.type.bit_width // 8}").astype(np.float64)
        return integers
    numbers: Floats = raw_values(array.cast(pa.float64()), np.float64)
    return numbers
