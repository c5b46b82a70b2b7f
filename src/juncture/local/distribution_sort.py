"""Batches sorted by row numbers: in memory as far as they fit, and beyond that cut on disk by ranges of the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.arrays import array_of, raw_values, rows_of
from juncture.local.external_sort import joined_batches
from juncture.local.sorting import order_of
from juncture.local.spill import SpillFile, SpillFolder
from juncture.local.threads import Threads

__all__ = ["DistributionSorter"]

Ints = npt.NDArray[np.int64]

_RANGES_MOST = 256
_PIECE_BYTES = 1 << 15
"""What is worth a piece of a file of its own."""

_BYTES_MOST = 1 << 30
"""Arrow's strings hold less than twice as much in one piece."""

_MORE = 2.0
"""Ranges are not all of one size."""

_BATCH_ROWS = 1 << 16


class DistributionSorter:
    """Sorts batches by one of their columns, stably, where it is known what its values spread over.

    Parameters
    ----------
    schema, column
        Of the batches; the column holds integers of 64 bits, none of them null.
    limits
        Where the values begin, where they end, and in between where they begin to lie closer or farther apart.
    spill
        Where to put what does not fit.
    memory_bytes
        How much to hold.
    threads
        Who works.

    Notes
    -----
    What does not fit is written once if it is spread evenly, and a range that gets too many rows once more: no run has
    to be merged with others, so that all threads work all the time (Vitter, Algorithms and Data Structures for External
    Memory, 2008, 5.1). What fits is never written.
    """

    def __init__(
        self,
        schema: pa.Schema,
        column: str,
        limits: Sequence[int],
        spill: SpillFolder,
        memory_bytes: int,
        threads: Threads,
    ) -> None:
        self._schema = schema
        self._position = schema.get_field_index(column)
        self._limits = limits
        self._spill = spill
        # A group of rows on its way to the disk is there three times: as it came, in order, and encoded.
        self._group_bytes = max(1, min(memory_bytes // (3 * threads.count), _BYTES_MOST))
        # A range on its way back is there twice, and one more is being handed out.
        self._range_bytes = max(1, min(memory_bytes // (2 * threads.count + 1), _BYTES_MOST))
        self._threads = threads
        self._alone = Threads(1)

    def sort(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of batches in order, once all have been taken.

        Raises
        ------
        StateError
            If there is no room to spill.
        """
        batches = iter(batches)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > self._range_bytes:
                break
        else:
            yield from self._sorted(held)
            return
        yield from self._through_disk(_one_after_the_other(held, batches), _edges(self._limits, self._count()))

    def _count(self, size_bytes: int | None = None) -> int:
        """Return into how many ranges to cut rows: as few as fit each, or as are worth a piece of every group."""
        most = max(2, min(_RANGES_MOST, self._group_bytes // _PIECE_BYTES))
        return most if size_bytes is None else max(2, min(most, int(_MORE * size_bytes / self._range_bytes) + 1))

    def _through_disk(self, batches: Iterator[pa.RecordBatch], edges: Ints) -> Iterator[pa.RecordBatch]:
        """Cut rows by ranges, and yield those of each range in order."""
        file, ranges = self._cut(batches, edges)
        for is_small, several in groupby(ranges, lambda each: each.size_bytes <= self._range_bytes):
            if is_small:
                for rows in self._threads.map(partial(self._read, file), several):
                    yield from rows
                continue
            for each in several:
                pieces = file.read_some(each.pieces)
                finer = _edges((each.first, each.end), self._count(each.size_bytes))
                # Rows of one number have kept the order in which they came.
                yield from pieces if each.end - each.first == 1 else self._through_disk(pieces, finer)
        file.remove()

    def _cut(self, batches: Iterator[pa.RecordBatch], edges: Ints) -> tuple[SpillFile, list[_Range]]:
        """Write rows to a file, those of each range in pieces of their own."""
        file = self._spill.file(self._schema)
        ranges = [_Range(first, end) for first, end in pairwise(edges.tolist())]

        def encode(group: list[pa.RecordBatch]) -> list[tuple[_Range, int, pa.Buffer]]:
            whole = joined_batches(group)
            group.clear()
            which = (np.searchsorted(edges, self._numbers(whole), "right") - 1).astype(np.uint16)
            ends = np.cumsum(np.bincount(which, minlength=len(ranges))).tolist()
            ordered = rows_of(whole, array_of(np.argsort(which, kind="stable"), pa.int64()))
            pieces = ((each, ordered.slice(*span)) for each, span in zip(ranges, _spans(ends), strict=True))
            return [(each, piece.nbytes, file.encoded(piece)) for each, piece in pieces if piece.num_rows]

        for pieces in self._threads.map(encode, self._groups(batches)):
            for each, size, piece in pieces:
                each.pieces.append(file.append(piece))
                each.size_bytes += size
        file.finish()
        return file, ranges

    def _groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """Bring batches together that are worth being cut together."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            rows = max(1, self._group_bytes * batch.num_rows // max(batch.nbytes, 1))
            for piece in (batch.slice(start, rows) for start in range(0, batch.num_rows, rows)):
                if held and size + piece.nbytes > self._group_bytes:
                    yield held
                    held, size = [], 0
                held.append(piece)
                size += piece.nbytes
        if held:
            yield held

    def _read(self, file: SpillFile, one: _Range) -> list[pa.RecordBatch]:
        """Return the rows of a range in order."""
        return self._sorted(list(file.read_some(one.pieces)))

    def _sorted(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the rows of some batches in order."""
        if not batches:
            return []
        whole = joined_batches(batches)
        numbers = self._numbers(whole)
        if (numbers[1:] < numbers[:-1]).any():
            whole = rows_of(whole, array_of(order_of([numbers], self._alone), pa.int32()))
        return [whole.slice(start, _BATCH_ROWS) for start in range(0, whole.num_rows, _BATCH_ROWS)]

    def _numbers(self, batch: pa.RecordBatch) -> Ints:
        numbers: Ints = raw_values(batch.column(self._position), np.int64)
        return numbers


@dataclass
class _Range:
    """Rows whose numbers are from one to less than another, in pieces on disk."""

    first: int
    end: int
    pieces: list[int] = field(default_factory=list)
    size_bytes: int = 0


def _edges(limits: Sequence[int], count: int) -> Ints:
    """Return the edges of about so many ranges, as many between each pair of limits."""
    each = max(1, count // max(1, len(limits) - 1))
    edges = [first + (end - first) * i // each for first, end in pairwise(limits) for i in range(each)]
    return np.unique(np.array([*edges, limits[-1]], np.int64))


def _spans(ends: list[int]) -> Iterator[tuple[int, int]]:
    """Return the start and the length of slices that end at some places."""
    return ((start, end - start) for start, end in pairwise([0, *ends]))


def _one_after_the_other(held: list[pa.RecordBatch], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches that are held, letting go of each, and then the others."""
    held.reverse()
    while held:
        yield held.pop()
    yield from batches
