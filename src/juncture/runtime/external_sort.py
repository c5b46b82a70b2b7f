"""Batches sorted by an integer column: in memory if they fit, otherwise partitioned by value ranges on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, raw_values, rows_of
from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import order_of
from juncture.runtime.spill import SpillFile

_log = logging.getLogger(__name__)


_RANGES_LEAST, _RANGES_MOST = 16, 256
_PIECE_BYTES = 1 << 15
"""The minimum size of a separate piece of a file."""

_BYTES_MOST = 1 << 30
"""Arrow's string arrays are limited to less than twice this size."""

_MORE = 2.0
"""Factor for more ranges than the average size requires, because sizes vary."""

_SAMPLED = 16
"""Sampled values per piece, to estimate the distribution within a range."""

_BATCH_ROWS = 1 << 16
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class ExternalSorter:
    """Sorts batches stably by a column of 64-bit integers without nulls. All memory of `context` is used.

    Batches that fit are sorted in memory. Otherwise rows are partitioned into ranges at quantiles of `sample` (default:
    the first rows) and written; then ranges are read and sorted in parallel, without merging. Rows are written once if
    the sample is representative; rows of ranges that are too large are partitioned and written again (Vitter,
    Algorithms and Data Structures for External Memory, 2008, 5.1; Frazer and McKellar, "Samplesort", 1970).
    """

    def __init__(
        self,
        schema: pa.Schema,
        column: str,
        context: JoinContext,
        sample: Ints | None = None,
    ) -> None:
        self._schema = schema
        self._position = schema.get_field_index(column)
        memory_bytes = context.memory.total_bytes
        # A group of rows that is written exists three times: as read, in order, and encoded.
        self._group_bytes = max(_PIECE_BYTES, min(memory_bytes // (3 * context.threads.at_once), _BYTES_MOST))
        # A range that is read exists twice, and the consumer has another one.
        self._range_bytes = max(1, min(memory_bytes // (2 * context.threads.at_once + 1), _BYTES_MOST))
        self._context = context
        self._alone = context.alone()
        self._sample = sample

    def sort(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume all batches, and return an iterator over their rows in order."""
        batches = iter(batches)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > self._range_bytes:
                break
        else:
            return iter(self._sorted(held, self._context))
        sample = np.concatenate([self._values(batch) for batch in held]) if self._sample is None else self._sample
        everything = _Range(_LEAST, _GREATEST, sample=[sample])
        return self._read(*self._cut(_one_after_the_other(held, batches), everything, self._most_ranges))

    @property
    def _most_ranges(self) -> int:
        """The maximum number of pieces of a group of rows that are worth writing."""
        return max(_RANGES_LEAST, min(_RANGES_MOST, self._group_bytes // _PIECE_BYTES))

    def _cut(self, batches: Iterable[pa.RecordBatch], whole: _Range, count: int) -> tuple[SpillFile, list[_Range]]:
        """Write rows to a file, with separate pieces for each of about `count` ranges."""
        file = self._context.spill.file(self._schema)
        _log.debug("Sorting by way of the disk: rows are cut into about %d ranges", count)
        edges = whole.edges(count)
        ranges = [_Range(first, end - 1) for first, end in pairwise([whole.first, *edges.tolist(), whole.last + 1])]

        def encode(group: list[pa.RecordBatch]) -> list[tuple[_Range, int, Ints, pa.Buffer]]:
            rows = joined_batches(group)
            group.clear()
            which = np.searchsorted(edges, self._values(rows), "right").astype(np.uint16)
            if (which[1:] < which[:-1]).any():
                rows = rows_of(rows, array_of(np.argsort(which, kind="stable"), pa.int64()))
            spans = pairwise([0, *np.cumsum(np.bincount(which, minlength=len(ranges))).tolist()])
            pieces = ((each, rows.slice(start, end - start)) for each, (start, end) in zip(ranges, spans, strict=True))
            return [
                (each, piece.nbytes, self._some(piece), file.encoded(piece)) for each, piece in pieces if piece.num_rows
            ]

        for pieces in self._context.threads.map(encode, self._groups(batches)):
            for each, size, sample, piece in pieces:
                each.pieces.append(file.append(piece))
                each.size_bytes += size
                each.sample.append(sample)
        file.finish()
        return file, ranges

    def _some(self, piece: pa.RecordBatch) -> Ints:
        """Return a sample of a piece's values, as a copy so that the piece can be freed."""
        values = self._values(piece)
        return values[:: -(-len(values) // _SAMPLED)].copy()

    def _groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """Group batches that are partitioned together."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            rows = max(1, self._group_bytes * batch.num_rows // max(batch.nbytes, 1))
            for piece in _slices(batch, rows):
                if held and size + piece.nbytes > self._group_bytes:
                    yield held
                    held, size = [], 0
                held.append(piece)
                size += piece.nbytes
        if held:
            yield held

    def _read(self, file: SpillFile, ranges: Iterable[_Range]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ranges in order, and remove their file."""
        together = _together(ranges, self._range_bytes)
        for are_small, several in groupby(together, lambda each: each.size_bytes <= self._range_bytes):
            if are_small:
                for batches in self._context.threads.map(partial(self._read_small, file), several):
                    yield from batches
            else:
                for each in several:
                    yield from self._read_large(file, each)
        file.remove()

    def _read_small(self, file: SpillFile, one: _Range) -> list[pa.RecordBatch]:
        """Return the rows of a range in order."""
        return self._sorted(list(file.read(one.pieces)), self._alone)

    def _read_large(self, file: SpillFile, one: _Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in order that does not fit beside other ranges."""
        pieces = file.read(one.pieces)
        if one.first == one.last:
            # Rows with one value are still in input order.
            for group in self._groups(pieces):
                yield from _slices(joined_batches(group), _BATCH_ROWS)
        elif one.size_bytes <= self._context.threads.count * self._range_bytes:
            yield from self._sorted(list(pieces), self._context)
        else:
            count = min(self._most_ranges, int(_MORE * one.size_bytes / self._range_bytes) + 1)
            yield from self._read(*self._cut(pieces, one, count))

    def _sorted(self, batches: list[pa.RecordBatch], context: JoinContext) -> list[pa.RecordBatch]:
        """Return the rows of some batches in order."""
        if not batches:
            return []
        rows = joined_batches(batches)
        values = self._values(rows)
        if (values[1:] < values[:-1]).any():
            rows = rows_of(rows, array_of(order_of([values], context), pa.int32()))
        return list(_slices(rows, _BATCH_ROWS))

    def _values(self, batch: pa.RecordBatch) -> Ints:
        values: Ints = raw_values(batch.column(self._position), np.int64)
        return values


@dataclass
class _Range:
    """Rows with values from `first` to `last`, inclusive, in pieces on disk."""

    first: int
    last: int
    pieces: list[int] = field(default_factory=list)
    size_bytes: int = 0
    sample: list[Ints] = field(default_factory=list)

    def edges(self, count: int) -> Ints:
        """Return the values that split this range into parts with about equally many rows.

        A value with more rows than that gets its own range.
        """
        ordered = np.sort(np.concatenate(self.sample))
        # With at least three ranges, two edges differ or a value repeats, so every recursion narrows the range.
        count = max(count, 3)
        quantiles = ordered[len(ordered) * np.arange(1, count) // count]
        values, times = np.unique(quantiles, return_counts=True)
        often = values[(times > 1) & (values < self.last)]
        edges: Ints = np.unique(np.concatenate([values, often + 1]))
        return edges[(edges > self.first) & (edges <= self.last)]


def _together(ranges: Iterable[_Range], size_most: int) -> Iterator[_Range]:
    """Merge neighbouring ranges while they fit."""
    held: _Range | None = None
    for each in ranges:
        if held is None:
            held = each
        elif held.size_bytes + each.size_bytes <= size_most:
            held = _Range(held.first, each.last, held.pieces + each.pieces, held.size_bytes + each.size_bytes)
        else:
            yield held
            held = each
    if held is not None:
        yield held


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _one_after_the_other(held: list[pa.RecordBatch], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield buffered batches, releasing each, then the others."""
    held.reverse()
    while held:
        yield held.pop()
    yield from batches


class AscendingBatches:
    """Batches in ascending order of their last column, handed out piece by piece."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches
        self._waiting: pa.RecordBatch | None = None

    def fill(self, size_bytes: int) -> list[pa.RecordBatch]:
        """Return about a number of bytes of rows; at least one row, unless none is left."""
        held: list[pa.RecordBatch] = []
        size = 0
        while (not held or size < size_bytes) and (batch := self._next()) is not None:
            held.append(batch)
            size += batch.nbytes
        return held

    def through(self, value: int) -> Iterator[pa.RecordBatch]:
        """Hand out all rows up to a value, it included."""
        while (batch := self._next()) is not None:
            end = int(np.searchsorted(last_values(batch), value, "right"))
            if end < batch.num_rows:
                self._waiting = batch.slice(end)
            if end:
                yield batch.slice(0, end)
            if end < batch.num_rows:
                return

    def next_value(self) -> int | None:
        """Return the value of the next row; None if none is left."""
        while (batch := self._next()) is not None:
            if batch.num_rows:
                self._waiting = batch
                return int(last_values(batch)[0])
        return None

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Hand out all rows that are left."""
        while (batch := self._next()) is not None:
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        batch, self._waiting = self._waiting, None
        return next(self._batches, None) if batch is None else batch


def last_values(batch: pa.RecordBatch) -> Ints:
    """Return the values of the last column."""
    values: Ints = raw_values(batch.column(batch.num_columns - 1), np.int64)
    return values
