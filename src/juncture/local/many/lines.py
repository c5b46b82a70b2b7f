"""Values on the line between the row before and the row after."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, plain, validity
from juncture.kernels.array_types import Floats
from juncture.spec.interpolate import AFTER, BEFORE, InterpolatedColumns


def between(lines: InterpolatedColumns, rows: pa.Table) -> pa.Table:
    """Return left columns and interpolated values of `rows`, which have the columns of the rows before and after."""
    columns = [rows.column(name) for name in lines.kept]
    return pa.table([*columns, *values_between(lines, rows)], names=[*lines.kept, *(name for _, name in lines.columns)])


def values_between(lines: InterpolatedColumns, rows: pa.Table) -> list[pa.Array]:
    """Return the values on the lines, in the order of the columns; null where a row lacks one before or after."""
    now, before, after = (
        _one(rows.column(name)) for name in (lines.on, BEFORE + lines.right_on, AFTER + lines.right_on)
    )
    whole, done = (lines.domain.distances(later, before).astype(np.float64) for later in (after, now))
    with np.errstate(all="ignore"):
        share = np.where(whole > 0, done / whole, 0.0)
    found = []
    for name, _ in lines.columns:
        (low, here), (high, there) = (_numbers(rows.column(side + name)) for side in (BEFORE, AFTER))
        with np.errstate(all="ignore"):
            # If both rows are one, or have equal values, the result is that value to the last digit.
            value = np.where((share == 0.0) | (low == high), low, low + (high - low) * share)
        found.append(array_of(value, pa.float64(), here & there))
    return found


def _numbers(column: pa.ChunkedArray) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return numbers as floats, and which there are."""
    array = _one(column)
    valid = validity(array)
    values: Floats = array.cast(pa.float64()).fill_null(0).to_numpy()
    return values, np.ones(len(values), np.bool_) if valid is None else valid


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    whole = column.combine_chunks()
    return plain(whole if isinstance(whole, pa.Array) else whole.chunk(0))
