"""Grids in this process, and values on the line between the row before and the row after."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, plain, plain_column, validity
from juncture.columnar.key_table import KeyCodes
from juncture.errors import DataError
from juncture.kernels.array_types import Floats, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.ordered.arithmetic import TooWideError
from juncture.runtime.memory import default_budget_bytes
from juncture.spec.spines import AFTER, BEFORE, InterpolatedColumns, ResolvedGrid

_ROW_BYTES = 48  # what a row takes while it is made


def grid_rows(grid: ResolvedGrid, table: pa.Table) -> tuple[Ints, pa.Array]:
    """Return for each row of a grid the number of a row of the table that has its key, and its value.

    Rows of the table with null in a key or an end are ignored. Keys come in the order of the table.
    """
    rows, codes = np.arange(table.num_rows), np.zeros(table.num_rows, np.int32)
    if grid.by:
        columns = [plain_column(table.column(name)) for name in grid.by]
        types = [column.type for column in columns]
        KeyCodes(types, types).add(columns, codes)
    first, last = _end(grid, table, "first"), _end(grid, table, "last")
    usable = (codes != EMPTY) & first[1] & last[1]
    rows, codes = rows[usable], codes[usable]
    if len(rows) == 0:
        return rows, pa.array([], grid.type)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    begins = np.minimum.reduceat(first[0][usable][order], starts)
    ends = np.maximum.reduceat(last[0][usable][order], starts)
    owners = rows[order][starts]
    by_row = np.argsort(owners)
    return expanded(grid, owners[by_row], begins[by_row], ends[by_row])


def expanded(grid: ResolvedGrid, owners: Ints, begins: Ints, ends: Ints) -> tuple[Ints, pa.Array]:
    """Return the rows of keys that begin and end at some steps: the owner of each, and its value."""
    begins = _rounded(grid, begins) if grid.is_rounded else begins
    # Unsigned, since keys may be as long as the type has values.
    steps = (ends.view(np.uint64) - begins.view(np.uint64)) // np.uint64(grid.every)
    some = ends >= begins
    rows = int(np.count_nonzero(some)) + float(steps[some].sum(dtype=np.float64))
    if rows * _ROW_BYTES > default_budget_bytes():
        raise DataError(
            f"The grid would have about {rows:.2g} rows, which do not fit in memory. Pass a greater every=, or start= "
            "and end=.",
            name="JN-GRID-SIZE",
        )
    counts = np.where(some, steps.view(np.int64) + 1, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    values = np.repeat(begins, counts) + within * grid.every
    return np.repeat(owners, counts), grid.domain.restore(values, None, grid.type)


def _rounded(grid: ResolvedGrid, begins: Ints) -> Ints:
    """Return where keys begin, rounded down to a whole multiple of a step."""
    rounded: Ints = begins // grid.every * grid.every
    # A value beyond the type changes when it is restored.
    restored, _ = grid.domain.encode(grid.domain.restore(rounded, None, grid.type))
    before = (rounded > begins) | (rounded != restored)
    if before.any():
        value = int(begins[before].min())
        raise DataError(
            f"A key starts at {value:,} steps of {grid.on!r}, but the preceding multiple of every={grid.every:,} is "
            f"beyond {grid.type}. Pass start=, or cast the column to a wider type.",
            name="JN-VALUE-RANGE",
        )
    return rounded


def ends_of(grid: ResolvedGrid, side: Literal["first", "last"], column: pa.Array, rows: int) -> tuple[Ints, Mask]:
    """Return the declared start or end of each row's key in steps, and a mask of the rows that declare it."""
    constant = grid.start if side == "first" else grid.end
    if constant is not None:
        values, valid = _steps(grid, pa.array([constant.as_py()], grid.type))
        return np.repeat(values, rows), np.repeat(valid, rows)
    return _steps(grid, plain(column))


def _steps(grid: ResolvedGrid, array: pa.Array) -> tuple[Ints, Mask]:
    try:
        values, valid = grid.domain.encode(array)
    except TooWideError as error:
        raise DataError(
            f"A value of {grid.on!r} does not fit 64 bits. Cast the column to int64.", name="JN-VALUE-RANGE"
        ) from error
    return values, np.ones(len(values), np.bool_) if valid is None else valid


def _end(grid: ResolvedGrid, table: pa.Table, side: Literal["first", "last"]) -> tuple[Ints, Mask]:
    name = grid.first if side == "first" else grid.last
    column = pa.nulls(0, grid.type) if name is None else plain_column(table.column(name).cast(grid.type))
    return ends_of(grid, side, column, table.num_rows)


def between(lines: InterpolatedColumns, rows: pa.Table) -> pa.Table:
    """Return left columns and interpolated values of `rows`, which have the columns of the rows before and after."""
    columns = [rows.column(name) for name in lines.left_columns]
    return pa.table(
        [*columns, *values_between(lines, rows)], names=[*lines.left_columns, *(name for _, name in lines.columns)]
    )


def values_between(lines: InterpolatedColumns, rows: pa.Table) -> list[pa.Array]:
    """Return the values on the lines, in the order of the columns; null where a row lacks one before or after."""
    now, before, after = (
        plain_column(rows.column(name)) for name in (lines.on, BEFORE + lines.right_on, AFTER + lines.right_on)
    )
    distances, done = (lines.domain.distances(later, before).astype(np.float64) for later in (after, now))
    with np.errstate(all="ignore"):
        share = np.where(distances > 0, done / distances, 0.0)
    results = []
    for name, _ in lines.columns:
        (low, here), (high, there) = (_numbers(rows.column(side + name)) for side in (BEFORE, AFTER))
        with np.errstate(all="ignore"):
            # If both rows are one, or have equal values, the result is that value to the last digit.
            value = np.where((share == 0.0) | (low == high), low, low + (high - low) * share)
        results.append(array_of(value, pa.float64(), here & there))
    return results


def _numbers(column: pa.ChunkedArray) -> tuple[Floats, Mask]:
    """Return numbers as floats, and which there are."""
    array = plain_column(column)
    valid = validity(array)
    values: Floats = array.cast(pa.float64()).fill_null(0).to_numpy()
    return values, np.ones(len(values), np.bool_) if valid is None else valid
