"""Sort rows: by key and ``on`` in memory, in parallel and independent of the distribution of keys, or in batches.

Batches are sorted by an integer column, in memory if they fit, otherwise partitioned by value ranges on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, raw_values, rows_of, sliced
from juncture.kernels import sort as kernels
from juncture.kernels.array_types import Ints, Rows, Words
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.intrinsics import WINDOW
from juncture.runtime.context import JoinContext
from juncture.runtime.spill import SpillFile
from juncture.runtime.threads import grouped, slices

ROWS_MOST = 1 << 29
"""The maximum number of rows of a sort, because positions are 32-bit integers."""

_FEW_ROWS = 1 << 12
"""Rows that NumPy sorts sooner than passes by digit would start."""

_DIGIT_BITS = 8
_WORD_BITS = 64


@dataclass(frozen=True)
class Slots:
    """Rows in the order of (key, on)."""

    on: Ints  # the ``on`` code of each slot, and `WINDOW` spare items
    rows: Rows  # the row of each slot
    starts: Ints  # the first slot of each key, and the number of slots at the end

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def key_count(self) -> int:
        """The number of groups, including empty ones."""
        return len(self.starts) - 1

    def ranges(self, context: JoinContext) -> list[tuple[int, int, int]]:
        """Split the slots into ranges for threads: first slot, end, and group of the first slot."""
        ranges = context.threads.slices(len(self), 4)
        groups = np.searchsorted(self.starts, [first for first, _ in ranges], "right") - 1
        return [(first, end, int(group)) for (first, end), group in zip(ranges, groups, strict=True) if end > first]

    def group_ranges(self, context: JoinContext) -> list[tuple[int, int]]:
        """Split the groups into ranges with about equally many slots."""
        edges = {0, self.key_count, *(group for _, _, group in self.ranges(context))}
        ordered = sorted(edges)
        return list(pairwise(ordered))


def rows_with_key(keys: Rows) -> Rows:
    """Return the rows whose key code is not `EMPTY`."""
    has_key = keys != EMPTY
    # Mostly all rows have a key, and then none has to be looked for.
    return np.arange(len(keys), dtype=np.int32) if has_key.all() else np.flatnonzero(has_key).astype(np.int32)


def sort_slots(keys: Rows, on: Ints, rows: Rows, key_count: int, context: JoinContext) -> Slots:
    """Sort `rows` (at most `ROWS_MOST`) by key and ``on``, stably. `keys` and `on` are codes of all rows.

    Takes 20 ns per row, or nothing if rows are sorted. Uses 36 bytes per row while it runs, and 12 for the result.
    """
    extent = _extent(on, rows, context)
    if extent.bits + (key_count - 1).bit_length() <= _WORD_BITS:
        return _sort_packed(keys, on, rows, key_count, extent, context)
    _, rows = _sorted(_offsets(_gather(on, rows, context)), rows, context)
    counts = np.bincount(keys[rows], minlength=key_count)
    _, rows = _sorted(_gather(keys, rows, context).astype(np.uint64), rows, context)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Slots(_gather(on, rows, context, spare=WINDOW), rows, starts)


@dataclass(frozen=True)
class _Extent:
    """The minimum of some values, the bits of the differences from it, and whether the values ascend."""

    least: int
    bits: int
    ascends: bool


def _extent(values: Ints, rows: Rows, context: JoinContext) -> _Extent:
    def ends(part: tuple[int, int]) -> tuple[int, int, bool]:
        some = values[rows[slice(*part)]]
        return int(some.min()), int(some.max()), bool((some[1:] >= some[:-1]).all())

    if len(rows) == 0:
        return _Extent(0, 0, True)
    parts = list(context.threads.map(ends, slices(len(rows), len(rows), least=context.threads.sizes.task_rows)))
    least, greatest = min(least for least, _, _ in parts), max(greatest for _, greatest, _ in parts)
    in_order = all(before[1] <= after[0] for before, after in pairwise(parts))
    return _Extent(least, (greatest - least).bit_length(), in_order and all(ascends for _, _, ascends in parts))


def _sort_packed(keys: Rows, on: Ints, rows: Rows, key_count: int, extent: _Extent, context: JoinContext) -> Slots:
    """Sort rows, read once in order, by one code that ends in the difference of ``on`` from the minimum."""
    least, bits = extent.least, extent.bits
    codes = np.empty(len(rows), np.uint64)
    parts = context.threads.slices(len(rows), 4)

    def pack(part: tuple[int, int]) -> None:
        kernels.pack(keys, on, rows[slice(*part)], least, bits, codes[slice(*part)])

    context.threads.run(pack, parts)
    codes, rows = _sorted(codes, rows, context, first_bit=bits if extent.ascends else 0)
    starts = np.searchsorted(codes, np.arange(1, key_count, dtype=np.uint64) << np.uint64(min(bits, _WORD_BITS - 1)))
    sorted_on = np.empty(len(rows) + WINDOW, np.int64)
    sorted_on[len(rows) :] = 0

    def unpack(part: tuple[int, int]) -> None:
        kernels.unpack(codes[slice(*part)], least, bits, sorted_on[slice(*part)])

    context.threads.run(unpack, parts)
    edges = np.zeros(key_count + 1, np.int64)
    edges[1:-1], edges[-1] = starts, len(rows)
    return Slots(sorted_on, rows, edges)


def order_of(keys: Sequence[Ints], context: JoinContext) -> Rows:
    """Return the stable order of rows by several integer keys, the most significant first.

    Keys of 64 bits together are sorted as one code, which takes 20 ns per row.
    """
    rows = np.arange(len(keys[0]), dtype=np.int32)
    codes, held_bits = np.zeros(0, np.uint64), 0
    for number, key in enumerate(reversed(keys)):
        offsets = _offsets(key)
        bits = int(offsets.max(initial=0)).bit_length()
        if bits == 0 or (number == 0 and kernels.is_ascending(offsets)):
            # The rows are in this order already, and stable sorts by other keys preserve it.
            continue
        if held_bits + bits > _WORD_BITS:
            _, rows = _sorted(_gather(codes, rows, context).view(np.uint64), rows, context)
            held_bits = 0
        codes = codes | offsets << np.uint64(held_bits) if held_bits else offsets
        held_bits += bits
    if held_bits:
        _, rows = _sorted(_gather(codes, rows, context).view(np.uint64), rows, context)
    return rows


def sorted_values(values: Ints, context: JoinContext) -> tuple[Ints, Rows]:
    """Return values in ascending order, and their rows, stably. Costs as `order_of`."""
    if (few := _sorted_few(values)) is not None:
        return few
    offsets, rows = _sorted(_offsets(values), np.arange(len(values), dtype=np.int32), context)
    return (offsets + _least_of(values)).view(np.int64), rows


def _offsets(codes: Ints) -> Words:
    """Return the differences of codes from their minimum, which differ in few bytes."""
    # Unsigned differences are exact for any two codes.
    return codes.view(np.uint64) - _least_of(codes)


def _least_of(codes: Ints) -> np.uint64:
    return np.uint64(int(codes.min(initial=_GREATEST)) & (2**64 - 1))


def _gather(values: npt.NDArray[np.generic], rows: Rows, context: JoinContext, spare: int = 0) -> npt.NDArray[np.int64]:
    """Return the values of rows, followed by `spare` zeros."""
    gathered = np.empty(len(rows) + spare, values.dtype)
    gathered[len(rows) :] = 0

    def fill(part: tuple[int, int]) -> None:
        np.take(values, rows[slice(*part)], out=gathered[slice(*part)], mode="clip")

    context.threads.run(fill, context.threads.slices(len(rows), 4))
    return gathered


def _sorted(codes: Words, rows: Rows, context: JoinContext, *, first_bit: int = 0) -> tuple[Words, Rows]:
    """Return the codes in order, and their rows. Bits below `first_bit` are in order already. The input is changed."""
    if kernels.is_ascending(codes):
        return codes, rows
    end_bit = int(codes.max()).bit_length()
    if end_bit < _WORD_BITS and (few := _sorted_few(codes.view(np.int64))) is not None:
        return few[0].view(np.uint64), rows[few[1]]
    return _sorted_bits((codes, rows), (np.empty_like(codes), np.empty_like(rows)), first_bit, end_bit, context)


def _sorted_few(values: Ints) -> tuple[Ints, Rows] | None:
    """Return values in ascending order, and their places, stably; None if they are too many, or too far apart."""
    position_bits = len(values).bit_length()
    if not 0 < len(values) <= _FEW_ROWS:
        return None
    offsets = _offsets(values)
    if int(np.maximum.reduce(offsets)) >> (_WORD_BITS - position_bits):
        return None
    # Words that end with their places are all different, so that any sort keeps the order of equal values.
    packed = offsets << np.uint64(position_bits) | np.arange(len(values), dtype=np.uint64)
    packed.sort()
    positions = (packed & np.uint64((1 << position_bits) - 1)).astype(np.int32)
    return values[positions], positions


_Items = tuple[Words, Rows]
"""Codes and their rows."""


def _sorted_bits(items: _Items, other: _Items, first_bit: int, end_bit: int, context: JoinContext) -> _Items:
    """Return items in the order of the bits ``[first_bit, end_bit)``, in either of two pairs of arrays.

    Items are moved to partitions by their first digit. Threads sort large partitions together, and others apart.
    """
    total = len(items[0])
    if end_bit <= first_bit:
        return items
    if total <= context.threads.sizes.task_rows:
        kernels.sort_partitions(*items, np.array([0, total]), 0, 1, first_bit, end_bit, *other)
        return other
    shift = max(first_bit, end_bit - _DIGIT_BITS)
    sizes = _move_by_digit(items, other, shift, context)
    if sizes.max() == total:
        return _sorted_bits(items, other, first_bit, shift, context)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    most = max(context.threads.sizes.task_rows, total // (4 * context.threads.count))
    groups = list(grouped(range(kernels.RADIX), most, sizes.__getitem__))

    def sort(group: list[int]) -> None:
        kernels.sort_partitions(*other, starts, group[0], group[-1] + 1, first_bit, shift, *items)

    context.threads.run(sort, [group for group in groups if sizes[group[0]] <= most])
    for digit in np.flatnonzero(sizes > most).tolist():
        here = slice(starts[digit], starts[digit + 1])
        source, target = (other[0][here], other[1][here]), (items[0][here], items[1][here])
        if _sorted_bits(source, target, first_bit, shift, context) is source:
            target[0][:], target[1][:] = source
    return items


def _move_by_digit(items: _Items, target: _Items, shift: int, context: JoinContext) -> Ints:
    """Move items together whose digit at bit `shift` is the same, unless it is that of all; return how many have it."""
    codes, rows = items
    parts = context.threads.slices(len(codes))
    counts = np.empty((len(parts), kernels.RADIX), np.int64)

    def count(number: int) -> None:
        kernels.count_digits(codes[slice(*parts[number])], shift, counts[number])

    context.threads.run(count, range(len(parts)))
    sizes: Ints = counts.sum(axis=0)
    if sizes.max() == len(codes):
        return sizes
    # An item follows all items with smaller digits, and items with its digit in earlier slices.
    before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    offsets = np.ascontiguousarray(before.reshape(kernels.RADIX, len(parts)).T)

    def move(number: int) -> None:
        part = slice(*parts[number])
        kernels.move_by_digit(codes[part], rows[part], shift, offsets[number], *target)

    context.threads.run(move, range(len(parts)))
    return sizes


_log = logging.getLogger(__name__)


_BYTES_MOST = 1 << 30  # Arrow's string arrays are limited to less than twice this size
_MORE = 2.0  # factor for more ranges than the average size requires, because sizes vary
_SAMPLED = 16  # sampled values per piece, to estimate the distribution within a range

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class RangeSizes:
    """How finely rows are cut on disk. Small sizes let few rows take the paths of many."""

    ranges_least: int = 16  # among how many ranges a group of rows is divided
    ranges_most: int = 256
    piece_bytes: int = 1 << 15  # at least in a separate piece of a file
    batch_rows: int = 1 << 16  # at most in a batch of the result


_SIZES = RangeSizes()


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
        *,
        sizes: RangeSizes = _SIZES,
    ) -> None:
        self._schema = schema
        self._sizes = sizes
        self._position = schema.get_field_index(column)
        memory_bytes = context.memory.total_bytes
        # A group of rows that is written exists three times: as read, in order, and encoded.
        self._group_bytes = max(sizes.piece_bytes, min(memory_bytes // (3 * context.threads.at_once), _BYTES_MOST))
        # A range that is read exists twice, and the consumer has another one.
        self._range_bytes = max(1, min(memory_bytes // (2 * context.threads.at_once + 1), _BYTES_MOST))
        self._context = context
        self._alone = context.alone()
        self._sample = sample

    def sort(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume all batches, and return an iterator over their rows in order."""
        batches = iter(batches)
        buffer: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            buffer.append(batch)
            size += batch.nbytes
            if size > self._range_bytes:
                break
        else:
            return iter(self._sorted(buffer, self._context))
        sample = np.concatenate([self._values(batch) for batch in buffer]) if self._sample is None else self._sample
        everything = _Range(_LEAST, _GREATEST, sample=[sample])
        return self._read(*self._cut(_one_after_the_other(buffer, batches), everything, self._most_ranges))

    @property
    def _most_ranges(self) -> int:
        """The maximum number of pieces of a group of rows that are worth writing."""
        sizes = self._sizes
        return max(sizes.ranges_least, min(sizes.ranges_most, self._group_bytes // sizes.piece_bytes))

    def _cut(self, batches: Iterable[pa.RecordBatch], key_range: _Range, count: int) -> tuple[SpillFile, list[_Range]]:
        """Write rows to a file, with separate pieces for each of about `count` ranges."""
        file = self._context.spill.file(self._schema)
        _log.debug("Sorting by way of the disk: rows are cut into about %d ranges", count)
        edges = key_range.edges(count)
        ranges = [
            _Range(first, end - 1) for first, end in pairwise([key_range.first, *edges.tolist(), key_range.last + 1])
        ]

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
        most = self._group_bytes
        pieces = (
            piece for batch in batches for piece in sliced(batch, max(1, most * batch.num_rows // max(batch.nbytes, 1)))
        )
        return grouped(pieces, most, lambda piece: int(piece.nbytes))

    def _read(self, file: SpillFile, ranges: Iterable[_Range]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ranges in order, and remove their file."""
        groups = map(_Range.of, grouped(ranges, self._range_bytes, lambda each: each.size_bytes))
        for are_small, group in groupby(groups, lambda each: each.size_bytes <= self._range_bytes):
            if are_small:
                for batches in self._context.threads.map(partial(self._read_small, file), group):
                    yield from batches
            else:
                for each in group:
                    yield from self._read_large(file, each)
        file.remove()

    def _read_small(self, file: SpillFile, one: _Range) -> list[pa.RecordBatch]:
        return self._sorted(list(file.read(one.pieces)), self._alone)

    def _read_large(self, file: SpillFile, one: _Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in order that does not fit beside other ranges."""
        pieces = file.read(one.pieces)
        if one.first == one.last:
            # Rows with one value are still in input order.
            for group in self._groups(pieces):
                yield from sliced(joined_batches(group), self._sizes.batch_rows)
        elif one.size_bytes <= self._context.threads.count * self._range_bytes:
            yield from self._sorted(list(pieces), self._context)
        else:
            count = min(self._most_ranges, int(_MORE * one.size_bytes / self._range_bytes) + 1)
            yield from self._read(*self._cut(pieces, one, count))

    def _sorted(self, batches: list[pa.RecordBatch], context: JoinContext) -> list[pa.RecordBatch]:
        if not batches:
            return []
        rows = joined_batches(batches)
        values = self._values(rows)
        if (values[1:] < values[:-1]).any():
            rows = rows_of(rows, array_of(order_of([values], context), pa.int32()))
        return list(sliced(rows, self._sizes.batch_rows))

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

    @classmethod
    def of(cls, ranges: list[_Range]) -> _Range:
        """Return neighbouring ranges as one."""
        if len(ranges) == 1:
            return ranges[0]
        pieces = [piece for each in ranges for piece in each.pieces]
        return cls(ranges[0].first, ranges[-1].last, pieces, sum(each.size_bytes for each in ranges))

    def edges(self, count: int) -> Ints:
        """Return the values that split this range into about equal parts; a value with more rows gets its own."""
        ordered = np.sort(np.concatenate(self.sample))
        # With at least three ranges, two edges differ or a value repeats, so every recursion narrows the range.
        count = max(count, 3)
        quantiles = ordered[len(ordered) * np.arange(1, count) // count]
        values, times = np.unique(quantiles, return_counts=True)
        often = values[(times > 1) & (values < self.last)]
        edges: Ints = np.unique(np.concatenate([values, often + 1]))
        return edges[(edges > self.first) & (edges <= self.last)]


def _one_after_the_other(buffer: list[pa.RecordBatch], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield buffered batches, releasing each, then the others."""
    buffer.reverse()
    while buffer:
        yield buffer.pop()
    yield from batches


class AscendingBatches:
    """Batches in ascending order of their last column, handed out piece by piece."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches
        self._waiting: pa.RecordBatch | None = None

    def fill(self, size_bytes: int) -> list[pa.RecordBatch]:
        """Return about a number of bytes of rows; at least one row, unless none is left."""
        batches: list[pa.RecordBatch] = []
        size = 0
        while (not batches or size < size_bytes) and (batch := self._next()) is not None:
            batches.append(batch)
            size += batch.nbytes
        return batches

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
