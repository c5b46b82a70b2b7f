"""Codes of integers in a narrow range: their distance from the least one, without a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.key_encoding import Form, Integers, form_of
from juncture.columnar.types import plain_type
from juncture.kernels import keys as kernels
from juncture.kernels.array_types import Codes
from juncture.kernels.hash_table import EMPTY

_CODES_PER_ROW = 4
_CODES_LEAST = 1 << 10


def counts_steps(data_type: pa.DataType) -> bool:
    """Return whether values are whole numbers of steps, and Arrow computes the minimum and maximum of the type."""
    plain = plain_type(data_type)
    return bool(pat.is_integer(plain) or pat.is_date(plain) or pat.is_timestamp(plain) or pat.is_time(plain))


def is_narrow(least: int, greatest: int, rows: int) -> bool:
    """Return whether a range of keys is so narrow, for the number of rows, that a place for each key pays.

    Examples
    --------
    >>> is_narrow(1_000_000, 1_999_999, rows=500_000), is_narrow(0, 2**40, rows=500_000)
    (True, False)
    """
    return greatest - least < max(_CODES_LEAST, _CODES_PER_ROW * rows)


@dataclass(frozen=True)
class DenseKeys:
    """Codes of keys in one column of integers, dates or times; codes of values that no row has are unused.

    Null has no code.
    """

    form: Form
    least: int
    count: int

    @classmethod
    def of(cls, first: pa.DataType, second: pa.DataType, ends: pa.Array | None, rows: int) -> Self | None:
        """Return codes for keys of the first type, or None if their range is too wide for the number of rows.

        `ends` are the least and the greatest key, or None if these are not known.
        """
        if ends is None or ends.null_count:
            return None
        form = form_of(first, second)
        encoded = form.of(ends)
        if not isinstance(encoded, Integers) or encoded.valid is not None:
            return None
        least, greatest = encoded.values.tolist()
        # Unsigned integers beyond signed ones are encoded as negative ones, so the order of the ends can be reversed.
        is_dense = least <= greatest and is_narrow(least, greatest, rows)
        return cls(form, least, greatest - least + 1) if is_dense else None

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the side that the range is of."""
        self.find(columns, codes)

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows; `EMPTY` outside of the range."""
        encoded = self.form.of(columns[0])
        assert isinstance(encoded, Integers)
        codes[:] = 0 if encoded.valid is None else np.where(encoded.valid, 0, EMPTY)
        kernels.number_dense(encoded.values, self.least, self.count, codes)
