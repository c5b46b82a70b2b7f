"""The right columns that the output shows: read once, held in memory, taken from in any order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain
from juncture.columnar.types import is_fixed
from juncture.kernels.array_types import Ints, Rows
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.take import FixedColumn, is_awkward, joined, nulls, ordered
from juncture.runtime.threads import Threads


class Payload:
    """Columns of a table, to take any rows from.

    Rows that follow one another may be taken as a view if the source `shares` its memory, which retains the whole
    column.
    """

    def __init__(
        self,
        columns: dict[str, pa.Array | pa.ChunkedArray],
        types: dict[str, pa.DataType],
        *,
        shares: bool = False,
        source: Source | None = None,
    ) -> None:
        self._columns = columns
        self._source = source
        self._types = types
        self._shares = shares

    @property
    def row_bytes(self) -> int:
        """About how many bytes a row takes."""
        return sum(
            each.type.bit_width // 8 if is_fixed(each.type) else int(each.nbytes) // max(len(each), 1)
            for each in self._columns.values()
        )

    def release(self, keep: Collection[str] = ()) -> None:
        """Let go of the columns in memory but some. No other can be taken after that."""
        self._columns = {name: column for name, column in self._columns.items() if name in keep}

    def take(self, names: Sequence[str], rows: Rows, threads: Threads | None = None) -> list[pa.ChunkedArray]:
        """Return columns of some rows, in their order; null where a row is negative."""
        if self._shares and _are_consecutive(rows):
            views = (self._columns[name].slice(int(rows[0]), len(rows)) for name in names)
            return [pa.chunked_array([view]) if isinstance(view, pa.Array) else view for view in views]
        all_rows = (0, len(rows))
        return [
            pa.chunked_array(
                ordered(self._columns[name], rows, self._types[name], all_rows, threads), self._types[name]
            )
            for name in names
        ]

    def column(self, name: str, rows: Rows, threads: Threads | None = None) -> pa.ChunkedArray:
        """Return a column of some rows."""
        return self.take([name], rows, threads)[0]

    def row_numbers(self, rows: Rows) -> Ints:
        """Return the numbers of some rows in their table; -1 where a row is negative."""
        assert self._source is not None
        return self._source.row_numbers(rows.astype(np.int64))


class Holder:
    """Collects columns of a source as its parts are read, by several threads at once."""

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source = source
        self._single: dict[str, pa.Array] = {}
        if isinstance(source, TableSource):
            for name in columns:
                column = source.table.column(name)
                if column.num_chunks == 1 and not is_awkward(column.type):
                    self._single[name] = column.chunk(0)
        self._types = {name: source.schema.field(name).type for name in columns}
        self.columns = tuple(name for name in columns if name not in self._single)
        self._fixed = {
            name: FixedColumn(self._types[name], source.num_rows)
            for name in self.columns
            if is_fixed(self._types[name])
        }
        self._pieces: dict[str, list[list[pa.Array]]] = {
            name: [[] for _ in source.part_rows] for name in self.columns if name not in self._fixed
        }

    def put(self, part: int, start: int, batch: pa.RecordBatch) -> None:
        """Keep a batch, the next of its part, whose first row has this number."""
        for name, fixed in self._fixed.items():
            fixed.put(start, plain(batch.column(name)))
        for name, parts in self._pieces.items():
            array = batch.column(name)
            parts[part].append(array if pat.is_dictionary(array.type) else plain(array))

    def finish(self) -> Payload:
        """Return the columns."""
        columns: dict[str, pa.Array | pa.ChunkedArray] = dict(self._single)
        for name, fixed in self._fixed.items():
            columns[name] = fixed.finish()
        for name, parts in self._pieces.items():
            arrays = [array for part in parts for array in part]
            columns[name] = joined(arrays) if arrays else plain(nulls(0, self._types[name]))
            parts.clear()
        return Payload(columns, self._types, source=self._source)


def read_payload(source: Source, columns: Sequence[str], context: JoinContext) -> Payload:
    """Hold columns in memory."""
    holder = Holder(source, columns)
    if holder.columns:
        read_all(source, (), lambda _batch, _rows: None, context, holder=holder)
    return holder.finish()


def read_all(
    source: Source,
    columns: Sequence[str],
    take: Callable[[pa.RecordBatch, slice], None],
    context: JoinContext,
    *,
    coded: Collection[str] = (),
    phase: str | None = None,
    holder: Holder | None = None,
) -> None:
    """Read a source once, by several threads, and pass each batch with the numbers of its rows to `take`.

    `holder` keeps its columns on the way, so that they need not be read again. Columns in `coded` may be
    dictionary-encoded, and `phase` is what progress is reported as.
    """
    holder_columns = () if holder is None else holder.columns
    # Batches without columns would have no rows either.
    names = list(dict.fromkeys((*columns, *holder_columns))) if holder_columns else list(columns)
    names = names or source.schema.names[:1]

    def read(part: int) -> None:
        for start, batch in source.numbered(part, names, coded):
            if holder is not None:
                holder.put(part, start, batch)
            take(batch, slice(start, start + batch.num_rows))

    advance = None if phase is None else context.progress.of(phase)
    for part, _ in enumerate(context.threads.map(read, range(len(source.part_rows)))):
        if advance is not None:
            advance(int(source.bounds[part + 1]), source.num_rows)


def _are_consecutive(rows: Rows) -> bool:
    """Return whether rows are there, and follow one another."""
    if len(rows) == 0 or rows[0] < 0 or int(rows[-1]) - int(rows[0]) != len(rows) - 1:
        return False
    return bool((rows[1:] - rows[:-1] == 1).all())
