"""Rows of pairs that do not fit in memory: right columns are fetched by row number, by way of the disk.

Pairs are sorted by right row, so that the right side is read once, from start to end, and the rows that it gives are
sorted back. Left columns never go to disk. This is late materialization (Abadi, Myers, DeWitt and Madden,
"Materialization strategies in a column-oriented DBMS", 2007).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import array_of, joined_batches, plain, raw_values
from juncture.kernels.array_types import Ints
from juncture.local.output.numbered import number_columns, plain_type_of, unmatched_columns
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sort import AscendingBatches, ExternalSorter
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpilledSource
from juncture.runtime.take import nulls, take
from juncture.spec.resolved import Resolved

RowPairs = tuple[Ints, Ints]
"""Left row numbers, ascending, and right ones; -1 without a match."""

_PAIRS_SHARE = 1 / 5
_ROWS_SHARE = 1 / 4
_BATCH_ROWS = 1 << 16
_SAMPLED = 1 << 10

_BY_LEFT = pa.schema([("position", pa.int64()), ("right_row", pa.int64()), ("left_row", pa.int64())])
_BY_RIGHT = pa.schema([("position", pa.int64()), ("right_row", pa.int64())])


def show_late(
    join: Resolved, pairs: Iterable[RowPairs], left: Source, right: Source, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, in the order of its pairs, in types without encodings.

    `pairs` include the left rows without a match that the join keeps. All are found before any is shown.
    """
    by_left = SpilledSource(_BY_LEFT, context.spill, 0)
    for batch in _pair_batches(pairs):
        by_left.write(batch)
    by_left.finish()
    context = context.streaming(UNDER_WAY_SHARE)
    late = _Late(join, left, right, context)
    yield from late.beside_left(by_left)
    yield from late.unmatched_right()


class _Late:
    """The fetching of right rows, and those without a match, which are met on the way."""

    def __init__(self, join: Resolved, left: Source, right: Source, context: JoinContext) -> None:
        self._join, self._left, self._right, self._context = join, left, right, context
        self._keeps_right = join.how in ("right", "full")
        self._right_names = list(dict.fromkeys(join.output_names["right"]))
        self._schema = pa.schema([(field.name, plain_type_of(field.type)) for field in join.output_schema])
        self._unmatched = SpilledSource(self._schema, context.spill, 0)

    def beside_left(self, pairs: SpilledSource) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pairs in their order."""
        by_left = AscendingBatches(_BY_LEFT, _rows(pairs, _BY_LEFT))
        fetched = self._fetched(pairs)
        names = list(dict.fromkeys(self._join.output_names["left"])) or self._left.schema.names[:1]
        for first, batch in self._left.scan(names):
            left_columns = dict(zip(names, map(plain, batch.columns), strict=True))
            for some in by_left.through(first + batch.num_rows - 1):
                yield self._row_batch(left_columns, first, some, fetched)
        # All right rows are read to the end, for those without a match.
        for _ in fetched.rest():
            raise AssertionError("a row was fetched for no pair")

    def _row_batch(
        self, left_columns: dict[str, pa.Array], first: int, pairs: pa.RecordBatch, fetched: AscendingBatches
    ) -> pa.RecordBatch:
        """Return the output rows of some pairs, given the columns of left rows from the first of them on."""
        positions, right_rows, left_rows = (raw_values(column, np.int64) for column in pairs.columns)
        rows = list(fetched.through(int(positions[-1])))
        here = right_rows >= 0
        right_columns = dict[str, pa.Array]()
        if rows:
            right, index = joined_batches(rows), array_of(np.cumsum(here) - 1, pa.int64(), here)
            right_columns = {name: take(right.column(name), index) for name in self._right_names}
        index = array_of(left_rows - first, pa.int64())
        columns = []
        for column, field in zip(self._join.output, self._schema, strict=False):
            if column.side == "left":
                columns.append(take(left_columns[column.source], index))
            else:
                columns.append(right_columns.get(column.source, nulls(len(here), field.type)))
        columns += number_columns(self._join, left_rows, right_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _fetched(self, pairs: SpilledSource) -> AscendingBatches:
        """Return the right rows of pairs, in their order."""
        types = [(name, plain_type_of(self._right.schema.field(name).type)) for name in self._right_names]
        position = "position"
        while position in self._right_names:
            position += "_"
        schema = pa.schema([*types, (position, pa.int64())])
        if not self._right_names and not self._keeps_right:
            return AscendingBatches(schema, iter(()))
        by_right = self._sorter("pairs by right row", _PAIRS_SHARE, _BY_RIGHT, "right_row", self._right.num_rows)
        matched = (batch.filter(pc.greater_equal(batch.column(1), 0)) for batch in _rows(pairs, _BY_RIGHT))
        rows = self._read_right(AscendingBatches(_BY_RIGHT, by_right.sort(matched)), schema)
        in_order = self._sorter("rows in order", _ROWS_SHARE, schema, position, pairs.num_rows)
        return AscendingBatches(schema, in_order.sort(rows))

    def _read_right(self, by_right: AscendingBatches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the right side, and yield the rows of pairs, whose right rows ascend."""
        names = self._right_names
        if self._keeps_right:
            names = list(dict.fromkeys([*names, *(c.filled_from for c in self._join.output if c.filled_from)]))
        advance = self._context.progress.of("payload")
        for part in range(len(self._right.part_rows)):
            end = int(self._right.bounds[part + 1])
            coming = by_right.next_value()
            if not self._keeps_right and (coming is None or coming >= end):
                continue
            for start, batch in self._right.numbered(part, names or self._right.schema.names[:1]):
                arrays = {name: plain(column) for name, column in zip(names, batch.columns, strict=False)}
                is_matched = np.zeros(batch.num_rows, np.bool_)
                for pairs in by_right.through(start + batch.num_rows - 1):
                    rows = raw_values(pairs.column(1), np.int64) - start
                    is_matched[rows] = True
                    index = array_of(rows, pa.int64())
                    taken = [take(arrays[name], index) for name in self._right_names]
                    yield pa.RecordBatch.from_arrays([*taken, pairs.column(0)], schema=schema)
                if self._keeps_right:
                    self._keep_unmatched(arrays, np.flatnonzero(~is_matched), start)
            advance(end, self._right.num_rows)
        self._unmatched.finish()

    def _keep_unmatched(self, arrays: dict[str, pa.Array], rows: Ints, start: int) -> None:
        """Write right rows without a match."""
        index = array_of(rows, pa.int64())
        columns = unmatched_columns(self._join, self._schema, len(rows), lambda name: take(arrays[name], index))
        columns += number_columns(self._join, np.full(len(rows), -1), rows + start)
        self._unmatched.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def unmatched_right(self) -> Iterator[pa.RecordBatch]:
        """Yield the right rows without a match, once all others have been shown."""
        yield from _rows(self._unmatched, self._schema)

    def _sorter(self, what: str, share: float, schema: pa.Schema, column: str, values: int) -> ExternalSorter:
        context = self._context.within(self._context.memory.reserve(what, share))
        return ExternalSorter(schema, column, context, (np.arange(_SAMPLED) * values // _SAMPLED).astype(np.int64))


def _pair_batches(pairs: Iterable[RowPairs]) -> Iterator[pa.RecordBatch]:
    """Yield pairs with their positions."""
    first = 0
    for left_rows, right_rows in pairs:
        for start in range(0, len(left_rows), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            positions = np.arange(first, first + len(left_rows[rows]))
            first += len(positions)
            columns = [array_of(values, pa.int64()) for values in (positions, right_rows[rows], left_rows[rows])]
            yield pa.RecordBatch.from_arrays(columns, schema=_BY_LEFT)


def _rows(source: SpilledSource, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in source.scan(schema.names))
