"""Conversion of join rows to a table of the left input's library.

The join returns row numbers in place of columns, and the library's own frame selects its rows by number. So values
without an Arrow type are returned unchanged. Results for Arrow tables need no conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.kernels.array_types import Ints
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

Schemas = tuple[pa.Schema, pa.Schema]

ROW_NUMBER = "row number"
"""The column of a table without other columns, whose slices would lose their number of rows."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The rows of a join."""

    join: Resolved
    left: Ints  # left row numbers; -1 without a left row
    right: Ints | None  # right row numbers; None if the right table is not a frame of the same library
    # By output name: aggregates, left ones filled from unmatched right rows, right ones if ``right`` is None.
    columns: pa.Table


class Frame(Protocol):
    """A library's table that selects its own rows."""

    table: pa.Table

    def joined(self, right: Any, rows: Joined) -> Any:
        """Return the rows of a join as a table of the library. A `right` table of another library is None."""
        ...

    def beside(self, tables: list[Any]) -> Any:
        """Concatenate tables of the same length horizontally."""
        ...


def without_runs(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column decoded from run-end encoding, which other libraries cannot read."""
    if not pat.is_run_end_encoded(column.type):
        return column
    data_type = column.type.value_type
    data_type = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(data_type, data_type)
    chunks = []
    for chunk in column.chunks:
        positions = np.arange(chunk.offset, chunk.offset + len(chunk))
        runs = np.searchsorted(chunk.run_ends.to_numpy(), positions, side="right")
        chunks.append(chunk.values.cast(data_type).take(pa.array(runs)))
    return pa.chunked_array(chunks, data_type)


def numbered(schema: pa.Schema) -> pa.Schema:
    """Return the columns with which a table is read: row numbers if it has no others."""
    return schema if schema.names else schema.append(pa.field(ROW_NUMBER, pa.int64()))


def _with_numbers(join: Resolved) -> Resolved:
    """Return a join whose tables without columns have row numbers."""
    if join.left_schema.names and join.right_schema.names:
        return join
    return replace(join, left_schema=numbered(join.left_schema), right_schema=numbered(join.right_schema))


@dataclass(frozen=True)
class ArrowAnswer:
    """The result as Arrow, with the metadata of the input fields. `run` is the join to execute."""

    run: Resolved
    schema: pa.Schema

    @classmethod
    def of(cls, join: Resolved, schemas: Schemas) -> Self:
        """Return the result of a join of tables with these input schemas."""
        schema = join.user_schema(*schemas)
        run = _with_numbers(join)
        if not schema.names:
            # Without columns, rows cannot be counted.
            run = replace(run, numbered=("left",))
        return cls(run, schema)

    def table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return the rows of the join."""
        return pa.Table.from_batches(self.batches(batches), self.schema)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join."""
        for batch in batches:
            yield batch if self.schema.names else batch.select([]).replace_schema_metadata(self.schema.metadata)


@dataclass(frozen=True)
class FrameAnswer:
    """The result as a table of the left input's library."""

    join: Resolved  # the requested join
    run: Resolved  # returns row numbers after the columns that frames do not select
    left: Frame
    right: Frame | None  # None if it is of another library
    schema: pa.Schema  # of `run`
    fields: pa.Schema  # the columns without row numbers

    @classmethod
    def of(cls, join: Resolved, schemas: Schemas, left: Frame, right: Frame | None) -> Self:
        """Return the result of a join of a frame and another table with these input schemas."""
        right_frame = right if type(right) is type(left) else None
        sides: tuple[Side, ...] = ("left",)
        if right_frame is not None and any(column.side == "right" for column in join.output):
            sides = SIDES
        others = tuple(
            column
            for column in join.output
            if (column.filled_from is not None if column.side == "left" else right_frame is None)
        )
        names = [column.name for column in others] + [each.name for each in join.aggregates]
        described = join.user_schema(*schemas)
        fields = pa.schema([described.field(name) for name in names])
        run = replace(_with_numbers(join), output=others, numbered=sides)
        answer = cls(join, run, left, right_frame, run.user_schema(*schemas), fields)
        # Unsupported types raise before any row is read.
        answer.table([])
        return answer

    def table(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Return the rows of the join."""
        rows = pa.Table.from_batches(batches, self.schema)
        first = len(self.run.output)
        end = first + len(self.run.numbered)
        left, *right = (_numbers(column) for column in rows.columns[first:end])
        joined = Joined(
            join=self.join,
            left=left,
            right=right[0] if right else None,
            columns=pa.Table.from_arrays(rows.columns[:first] + rows.columns[end:], schema=self.fields),
        )
        return self.left.joined(self.right, joined)


def _numbers(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = column.fill_null(-1).to_numpy()
    return numbers
