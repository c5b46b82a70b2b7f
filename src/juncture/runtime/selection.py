"""Selected rows or parts of a source, as a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.kernels.array_types import Ints
from juncture.runtime.sources import Source, numbers_in_parts
from juncture.runtime.take import take

Rows = npt.NDArray[np.integer]


class SelectedSource(Source):
    """Rows of a source, by ascending row number. Parts without selected rows are not read."""

    def __init__(self, source: Source, rows: Rows) -> None:
        self.schema = source.schema
        self._source = source
        self._rows = rows
        edges = _places(rows, source.bounds)
        self._parts = np.flatnonzero(np.diff(edges)).tolist()
        self._edges = [(int(edges[part]), int(edges[part + 1])) for part in self._parts]
        self.part_rows = [end - first for first, end in self._edges]

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of a part."""
        first, end = self._edges[part]
        place = int(self._source.bounds[self._parts[part]])
        for batch in self._source.read(self._parts[part], columns, coded):
            stop = first + int(_places(self._rows[first:end], np.array(place + batch.num_rows)))
            wanted = self._rows[first:stop].astype(np.int64) - place
            if len(wanted) == batch.num_rows:
                yield batch
            elif len(wanted):
                index = array_of(wanted, pa.int64())
                yield pa.RecordBatch.from_arrays([take(column, index) for column in batch.columns], schema=batch.schema)
            first, place = stop, place + batch.num_rows

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of selected rows."""
        if len(self._rows) == 0:
            return rows
        return self._source.row_numbers(np.where(rows >= 0, self._rows[rows], rows).astype(np.int64))

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of the columns, in proportion."""
        return self._source.bytes_of(columns) * len(self._rows) // max(self._source.num_rows, 1)


def _places(rows: Rows, bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the number of rows below each bound."""
    # With equal widths, NumPy does not copy all rows.
    return np.searchsorted(rows, bounds.astype(rows.dtype))


class SomeParts(Source):
    """Parts of a source, by ascending part number."""

    def __init__(self, source: Source, parts: Sequence[int]) -> None:
        self.schema = source.schema
        self.part_rows = [source.part_rows[part] for part in parts]
        self._source = source
        self._parts = parts

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        yield from self._source.read(self._parts[part], columns, coded)

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of rows among those of all parts."""
        starts = self._source.row_numbers(self._source.bounds[list(self._parts)])
        return numbers_in_parts(rows, self.bounds, starts)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of the columns, in proportion."""
        return self._source.bytes_of(columns) * self.num_rows // max(self._source.num_rows, 1)
