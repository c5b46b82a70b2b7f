"""Rows of sources by their numbers: copied in any order, or as a source of selected rows or parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, concatenated, memory_pool, plain, raw_values, rows_of, validity
from juncture.columnar.conversion import converted
from juncture.columnar.tie_order import order_keys
from juncture.columnar.types import is_fixed, is_plain
from juncture.kernels import gather as kernels
from juncture.kernels.array_types import Ints, Mask
from juncture.kernels.hash import order_by_code
from juncture.runtime.context import JoinContext
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import Source, TableSource, numbers_in_parts
from juncture.runtime.threads import Threads, slices

Positions = npt.NDArray[np.int32]

_ITEMS = {size: np.dtype(f"u{size}") for size in (8, 4, 2, 1)}

_CELLS_PER_PART = 4  # lookup cells per part, at equal distances: enough that few parts start within one cell


def select(
    source: Source, columns: Sequence[str], rows: Ints | None, context: JoinContext, phase: str | None = None
) -> list[pa.ChunkedArray]:
    """Return columns of ascending row numbers, which may repeat; of all rows for None.

    Parts without selected rows are not read. Whole parts of tables are not copied.
    """
    if not columns:
        return []
    if rows is None and isinstance(source, TableSource):
        return [source.table.column(name) for name in columns]
    edges = source.bounds if rows is None else np.searchsorted(rows, source.bounds)
    parts = [part for part in range(len(source.part_rows)) if edges[part] < edges[part + 1]]
    types = [source.schema.field(name).type for name in columns]
    coded = worth_coding(source, columns)

    def read(part: int) -> list[list[pa.Array]]:
        wanted = None if rows is None else rows[edges[part] : edges[part + 1]] - source.bounds[part]
        taken, start = [], 0
        for batch in source.read(part, columns, coded):
            if wanted is None:
                some = batch.columns
            else:
                first, end = np.searchsorted(wanted, [start, start + batch.num_rows])
                some = _take_rows(batch, wanted[first:end] - start)
            # Twice as fast as reading strings without dictionaries.
            taken.append([converted(array, kind) for array, kind in zip(some, types, strict=True)])
            start += batch.num_rows
        return taken

    batches: list[list[pa.Array]] = []
    for done, taken in enumerate(context.threads.map(read, parts), 1):
        batches += taken
        if phase is not None:
            context.progress.of(phase)(done, len(parts))
    return [pa.chunked_array([batch[i] for batch in batches], kind) for i, kind in enumerate(types)]


def _take_rows(batch: pa.RecordBatch, rows: Ints) -> list[pa.Array]:
    if len(rows) == batch.num_rows and bool((np.diff(rows) == 1).all()):
        return list(batch.columns)
    index = array_of(rows, pa.int64())
    return [take(column, index) for column in batch.columns]


def take(array: pa.Array, index: pa.Array) -> pa.Array:
    """Select rows of an array of any type."""
    if is_awkward(array.type):
        return converted(rows_of(plain(array), index), array.type)
    return rows_of(array, index)


def is_awkward(data_type: pa.DataType) -> bool:
    """Return whether Arrow cannot select rows of a type."""
    return not is_plain(data_type) and not pat.is_dictionary(data_type)


def nulls(length: int, data_type: pa.DataType) -> pa.Array:
    """Return nulls of any type."""
    if pat.is_run_end_encoded(data_type):
        return converted(pa.nulls(length, data_type.value_type), data_type)
    return pa.nulls(length, data_type)


def gather(
    source: Source, columns: Sequence[str], pointers: Ints, context: JoinContext, phase: str | None = None
) -> list[pa.ChunkedArray]:
    """Return columns of row numbers in any order; null where negative.

    Each part with selected rows is read once. Fixed-width values are written to their positions directly, so memory is
    that of the result and 4 bytes per pointer. Other values are buffered part by part, strings as dictionaries if the
    file has them.
    """
    if not columns:
        return []
    arrays = [array for name in columns if (array := source.column(name)) is not None]
    if len(arrays) == len(columns):
        return [_taken(array, pointers, context) for array in arrays]
    positions, edges = _by_part(source, pointers, context)
    types = [source.schema.field(name).type for name in columns]
    targets: list[FixedColumn | _BufferedColumn] = [
        FixedColumn(kind, len(pointers), pointers >= 0)
        if is_fixed(kind)
        else _BufferedColumn(kind, len(pointers), len(source.part_rows))
        for kind in types
    ]
    coded = worth_coding(source, columns)
    parts = [part for part in range(len(source.part_rows)) if edges[part] < edges[part + 1]]

    def read(part: int) -> None:
        wanted, first = positions[edges[part] : edges[part + 1]], int(source.bounds[part])
        for batch in source.read(part, columns, coded):
            here = wanted
            if batch.num_rows < source.part_rows[part]:
                rows = pointers[wanted]
                here = wanted[(rows >= first) & (rows < first + batch.num_rows)]
            for target, array in zip(targets, batch.columns, strict=True):
                target.put_pointed(part, array, pointers, first, here)
            first += batch.num_rows

    for done, _ in enumerate(context.threads.map(read, parts), 1):
        if phase is not None:
            context.progress.of(phase)(done, len(parts))
    return [
        pa.chunked_array([target.finish()]) if isinstance(target, FixedColumn) else target.finish(context)
        for target in targets
    ]


def _taken(array: pa.Array, pointers: Ints, context: JoinContext) -> pa.ChunkedArray:
    """Return the rows of an array that pointers name; null where they are negative."""
    data_type = array.type
    if not is_fixed(data_type):
        values = array if pat.is_dictionary(data_type) else plain(array)
        cut = slices(len(pointers), -(-len(pointers) // (4 * context.threads.sizes.slice_rows)))
        taken = context.threads.map(partial(ordered, values, pointers, data_type), cut)
        return pa.chunked_array([chunk for chunks in taken for chunk in chunks], data_type)
    return pa.chunked_array([fixed_rows(array, pointers, context.threads)])


def fixed_rows(array: pa.Array, rows: Ints | Positions, threads: Threads | None = None) -> pa.Array:
    """Return rows of an array of fixed width, null where negative. Without threads, this one is one of many."""
    data_type = array.type
    item = _item_of(data_type)
    values = raw_values(array, item)
    # Arrow's own allocator reuses pages, which the system would have to clear, but keeps some for each thread.
    pool = memory_pool() if threads is None else pa.default_memory_pool()
    buffer = pa.allocate_buffer(len(rows) * data_type.bit_width // 8, memory_pool=pool)
    target = np.frombuffer(buffer, item)
    target = target if values.ndim == 1 else target.reshape(len(rows), values.shape[1])
    if threads is None or len(parts := threads.slices(len(rows))) == 1:
        missing = _copy_rows(values, rows, target)
    else:
        missing = sum(threads.map(lambda part: _copy_rows(values, rows[slice(*part)], target[slice(*part)]), parts))
    valid = rows >= 0 if missing else None
    present = validity(array)
    if present is not None:
        there = present[np.maximum(rows, 0)] if len(present) else np.zeros(len(rows), np.bool_)
        valid = there if valid is None else there & valid
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(data_type, len(rows), [bits, buffer])


def _copy_rows(values: npt.NDArray[Any], rows: Ints | Positions, target: npt.NDArray[Any]) -> int:
    """Copy rows, and return how many are negative."""
    if len(values) == 0:
        target[:] = 0
        return len(rows)
    if values.ndim == 1 and values.dtype.itemsize == 8:
        if rows.dtype == np.int32:
            return kernels.take_words_at(values, rows.view(np.int32), target)
        return kernels.take_words(values, rows.view(np.int64), target)
    np.take(values, rows, axis=0, out=target, mode="clip")
    return int(np.count_nonzero(rows < 0))


def _item_of(data_type: pa.DataType) -> np.dtype[Any]:
    """Return the widest unsigned integer whose width divides that of a type."""
    width = data_type.bit_width // 8
    return _ITEMS[min(width & -width, 8)]


def _by_part(source: Source, pointers: Ints, context: JoinContext) -> tuple[Positions, Ints]:
    """Return the positions of the pointers grouped by part, and the first index of each part."""
    count = len(source.part_rows)
    ranges = context.threads.slices(len(pointers))
    parts = np.empty(len(pointers), np.int32)
    counts = np.zeros((len(ranges), count), np.int64)
    shift = (source.num_rows // (_CELLS_PER_PART * max(count, 1))).bit_length()
    cells = np.arange((source.num_rows >> shift) + 2) << shift
    firsts = np.searchsorted(source.bounds[:-1], cells, "right").astype(np.int32) - 1
    if count:
        context.threads.run(
            lambda i: kernels.count_parts(
                pointers[slice(*ranges[i])], source.bounds, firsts, shift, parts[slice(*ranges[i])], counts[i]
            ),
            range(len(ranges)),
        )
    before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    offsets = np.ascontiguousarray(before.reshape(count, len(ranges)).T, np.int32)
    positions = np.empty(int(counts.sum()), np.int32)
    if count:
        context.threads.run(
            lambda i: order_by_code(parts[slice(*ranges[i])], ranges[i][0], offsets[i], positions),
            range(len(ranges)),
        )
    return positions, np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).astype(np.int64)


def worth_coding(source: Source, columns: Sequence[str]) -> list[str]:
    """Return the string columns that repeat so much that they are best read as dictionaries."""
    return [name for name in columns if isinstance(source, ParquetSource) and source.is_repetitive(name)]


class FixedColumn:
    """A column of fixed width, written in place by several threads at once. `valid` is None if all values are."""

    def __init__(self, data_type: pa.DataType, rows: int, valid: Mask | None = None) -> None:
        self._type, self._rows, self._valid = data_type, rows, valid
        self._item = _item_of(data_type)
        words = data_type.bit_width // 8 // self._item.itemsize
        self._values = np.empty(rows if words == 1 else (rows, words), self._item)
        self._lock = Lock()

    def put(self, start: int, array: pa.Array) -> None:
        """Copy an array, which begins at some row."""
        self._values[start : start + len(array)] = raw_values(array, self._item)
        valid = validity(array)
        if valid is not None:
            self._validity()[start : start + len(array)] = valid

    def scatter(self, array: pa.Array, rows: npt.NDArray[np.signedinteger], positions: Positions) -> None:
        """Copy some rows of an array to their positions."""
        values = raw_values(array, self._item)
        if self._item == np.uint64 and values.ndim == 1 and rows.dtype == np.int32:
            kernels.scatter_words(values, rows.view(np.int32), positions, self._values)
        else:
            self._values[positions] = values[rows]
        valid = validity(array)
        if valid is not None:
            self._validity()[positions] = valid[rows]

    def put_pointed(self, _part: int, array: pa.Array, pointers: Ints, first: int, positions: Positions) -> None:
        """Copy the rows that pointers at some positions name to these; `first` is the array's first row."""
        values, valid = raw_values(array, self._item), validity(array)
        if self._item == np.uint64 and values.ndim == 1:
            kernels.scatter_pointed(values, pointers, first, positions, self._values)
        else:
            self._values[positions] = values[pointers[positions] - first]
        if valid is not None:
            self._validity()[positions] = valid[pointers[positions] - first]

    def _validity(self) -> Mask:
        with self._lock:
            if self._valid is None:
                self._valid = np.ones(self._rows, np.bool_)
            return self._valid

    def finish(self) -> pa.Array:
        """Return the column."""
        return array_of(self._values, self._type, self._valid)


class _BufferedColumn:
    """A column of any other type: rows are buffered as read, and ordered at the end."""

    def __init__(self, data_type: pa.DataType, length: int, parts: int) -> None:
        self._type = data_type
        self._length = length
        self._arrays: list[list[pa.Array]] = [[] for _ in range(parts)]
        self._positions: list[list[Positions]] = [[] for _ in range(parts)]

    def put_pointed(self, part: int, array: pa.Array, pointers: Ints, first: int, positions: Positions) -> None:
        """Buffer the rows that the pointers at some positions name; `first` is the array's first row."""
        if not pat.is_dictionary(array.type):
            array = plain(array)
        self._arrays[part].append(rows_of(array, array_of(pointers[positions] - first, pa.int64())))
        self._positions[part].append(positions)

    def finish(self, context: JoinContext) -> pa.ChunkedArray:
        """Return the column, in slices."""
        arrays = [array for part in self._arrays for array in part]
        if not arrays:
            return pa.chunked_array([nulls(self._length, self._type)])
        order = np.full(self._length, -1, np.int64)
        positions = [part_positions for part in self._positions for part_positions in part]
        order[np.concatenate(positions)] = np.arange(sum(map(len, positions)))
        self._arrays, self._positions = [], []
        values = joined(arrays)
        cut = slices(self._length, -(-self._length // (4 * context.threads.sizes.slice_rows)))
        taken = context.threads.map(partial(ordered, values, order, self._type), cut)
        return pa.chunked_array([chunk for chunks in taken for chunk in chunks], self._type)


def joined(arrays: list[pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Return arrays as one with wide offsets, or as a chunked array if they cannot be combined."""
    if pat.is_dictionary(arrays[0].type):
        try:
            return pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
        except pa.ArrowException:
            arrays = [plain(array) for array in arrays]
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(arrays[0].type, arrays[0].type)
    try:
        return concatenated(array.cast(wide) for array in arrays)
    except pa.ArrowException:
        return pa.chunked_array(arrays)


def ordered(
    values: pa.Array | pa.ChunkedArray,
    order: Ints | Positions,
    data_type: pa.DataType,
    cut: tuple[int, int],
    threads: Threads | None = None,
) -> list[pa.Array]:
    """Return a slice of rows in this order, null where negative; split further if the type cannot represent it."""
    first, end = cut
    rows = order[first:end]
    if is_fixed(data_type) and isinstance(values, pa.Array) and values.type == data_type:
        return [fixed_rows(values, rows, threads)]
    index = array_of(rows, pa.int32() if rows.dtype == np.int32 else pa.int64(), rows >= 0)
    taken = rows_of(values, index)
    try:
        if isinstance(taken, pa.ChunkedArray):
            taken = concatenated(taken.chunks)
        return [converted(taken, data_type)]
    except pa.ArrowException:
        if end - first < 2:
            raise
        middle = (first + end) // 2
        halves = (first, middle), (middle, end)
        return [chunk for half in halves for chunk in ordered(values, order, data_type, half)]


def tie_keys(source: Source, columns: tuple[str, ...], pointers: Ints, context: JoinContext) -> list[Ints]:
    """Return sort keys of the rows at pointers, the most significant first. Greater keys win ties, then later rows."""
    return [*order_keys(gather(source, columns, pointers, context)), pointers]


Rows = npt.NDArray[np.integer]


class SelectedSource(Source):
    """Rows of a source, by ascending row number. Parts without selected rows are not read."""

    def __init__(self, source: Source, rows: Rows) -> None:
        self.schema = source.schema
        self._source = source
        self._rows = rows
        edges = _row_cuts(rows, source.bounds)
        self._parts = np.flatnonzero(np.diff(edges)).tolist()
        self._edges = [(int(edges[part]), int(edges[part + 1])) for part in self._parts]
        self.part_rows = [end - first for first, end in self._edges]

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of a part."""
        first, end = self._edges[part]
        part_start = int(self._source.bounds[self._parts[part]])
        for batch in self._source.read(self._parts[part], columns, coded):
            stop = first + int(_row_cuts(self._rows[first:end], np.array(part_start + batch.num_rows)))
            wanted = self._rows[first:stop].astype(np.int64) - part_start
            if len(wanted) == batch.num_rows:
                yield batch
            elif len(wanted):
                index = array_of(wanted, pa.int64())
                yield pa.RecordBatch.from_arrays([take(column, index) for column in batch.columns], schema=batch.schema)
            first, part_start = stop, part_start + batch.num_rows

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of selected rows."""
        if len(self._rows) == 0:
            return rows
        return self._source.row_numbers(np.where(rows >= 0, self._rows[rows], rows).astype(np.int64))

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of the columns, in proportion."""
        return self._source.bytes_of(columns) * len(self._rows) // max(self._source.num_rows, 1)


def _row_cuts(rows: Rows, bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
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
