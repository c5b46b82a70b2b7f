"""Sources: tables that any thread can read repeatedly, part by part; and Arrow tables as sources.

A part is a row group of a Parquet file (`juncture.runtime.parquet`) or a slice of a table. Rows are numbered from 0 in
the order of parts, and a join identifies a row by this number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.types import is_fixed
from juncture.kernels.array_types import Ints
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.threads import SIZES


class Source(ABC):
    """A table that several threads can read repeatedly, part by part."""

    schema: pa.Schema
    part_rows: Sequence[int]

    @abstractmethod
    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in batches of at most a million rows, with these columns in this order.

        Columns in `coded` may be dictionary-encoded if that is cheaper to read.
        """

    def numbered(
        self, part: int, columns: Sequence[str], coded: Collection[str] = (), /
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of a part as `read` does, each batch after the number of its first row."""
        first = int(self.bounds[part])
        for batch in self.read(part, columns, coded):
            yield first, batch
            first += batch.num_rows

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of all parts as `numbered` does."""
        return chain.from_iterable(self.numbered(part, columns) for part in range(len(self.part_rows)))

    def arrays(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[list[pa.Array]]:
        """Yield the columns of a part as `read` does."""
        return (batch.columns for batch in self.read(part, columns, coded))

    @abstractmethod
    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the estimated size of columns in memory."""

    def plain_bytes_of(self, columns: Sequence[str]) -> int:
        """Return the estimated size of decoded columns."""
        return self.bytes_of(columns)

    def within(self, _memory: MemoryBudget, /) -> Self:
        """Return the source with batches that fit the memory, if it decodes them."""
        return self

    def buffering(self, _columns: Sequence[str], /) -> Self:
        """Return the source that keeps columns as its parts are read, if it decodes them."""
        return self

    def column(self, _name: str, /) -> pa.Array | None:
        """Return the values of a column if they are in memory and can be one array, else None."""
        return None

    def extent(self, _part: int, _column: str, /) -> pa.Array | None:
        """Return the minimum and maximum of a column in a part if known without reading, else None."""
        return None

    def ends(self, column: str) -> pa.Array | None:
        """Return the minimum and maximum of a column if known without reading, else None."""
        extents = [self.extent(part, column) for part in range(len(self.part_rows))]
        part_extents = [extent for extent in extents if extent is not None]
        if not part_extents or len(part_extents) < len(extents):
            return None
        ends = pc.min_max(pa.chunked_array(part_extents))
        return pa.array([ends["min"], ends["max"]], part_extents[0].type)

    def nulls(self, _column: str, /) -> int | None:
        """Return the number of nulls in a column if known without reading, else None."""
        return None

    def is_declared_sorted(self, _column: str, /) -> bool:
        """Return whether the writer declared the rows ascending by a column."""
        return False

    def has_descent(self, _column: str, /) -> bool:
        """Return whether a column is known to descend from one part to the next."""
        return False

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of rows in the whole table. Some sources have only some of its parts or rows."""
        return rows

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """The number of each part's first row, and the number of all rows at the end."""
        return np.array([0, *accumulate(self.part_rows)], np.int64)

    @cached_property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.bounds[-1])


class SameRows(Source):
    """The rows of another source, in the same parts."""

    def __init__(self, source: Source) -> None:
        self.part_rows, self._source = source.part_rows, source

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of rows in the whole table."""
        return self._source.row_numbers(rows)


class TableSource(Source):
    """An Arrow table in memory."""

    def __init__(self, table: pa.Table, slice_rows: int = SIZES.slice_rows) -> None:
        self.schema = table.schema
        self.table, self._slice_rows = table, slice_rows
        # What `juncture.kernels.merge.order_of_values` returned for columns of 64-bit values.
        self.orders: dict[str, int] = {}
        # The minimum and maximum of columns, once they have been computed.
        self.column_ends: dict[str, pa.Array] = {}
        self._arrays: dict[str, pa.Array | None] = {}
        self.num_rows = rows = int(table.num_rows)
        self.part_rows = [min(slice_rows, rows - start) for start in range(0, rows, slice_rows)]

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield views of a slice's rows."""
        yield from self.table.select(columns).slice(part * self._slice_rows, self._slice_rows).to_batches()

    def arrays(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[list[pa.Array]]:
        """Yield the columns of a slice, without batches of them if there is one slice and each is in one piece."""
        single_chunks = [array for name in columns if (array := self.column(name)) is not None]
        is_single = len(self.part_rows) == 1 and len(single_chunks) == len(columns)
        return iter([single_chunks]) if is_single else super().arrays(part, columns, coded)

    def column(self, name: str, /) -> pa.Array | None:
        """Return the values of a column without copying them; None if they are in several pieces."""
        if name not in self._arrays:
            chunks = self.table.column(name)
            self._arrays[name] = chunks.chunk(0) if chunks.num_chunks == 1 else None
        return self._arrays[name]

    def __reduce__(self) -> tuple[type[TableSource], tuple[pa.Table]]:
        return TableSource, (self.table,)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the size of the columns; of those of fixed width, without the bits that mark nulls."""
        row_bytes, others = 0, list[str]()
        for name in columns:
            data_type = self.schema.field(name).type
            if is_fixed(data_type):
                row_bytes += data_type.bit_width // 8
            else:
                others.append(name)
        return self.num_rows * row_bytes + (int(self.table.select(others).nbytes) if others else 0)

    def nulls(self, column: str, /) -> int | None:
        """Return the number of nulls in a column."""
        return int(self.table.column(column).null_count)


def numbers_in_parts(rows: Ints, bounds: Ints, starts: Ints) -> Ints:
    """Return the numbers of rows in a table, given the bounds of some of its parts, and where these start there."""
    shifts = np.append(starts - bounds[:-1], 0)
    numbers: Ints = rows + shifts[np.searchsorted(bounds, rows, "right") - 1]
    return numbers
