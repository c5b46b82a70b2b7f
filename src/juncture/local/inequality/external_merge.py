"""Joins by inequalities on disk: both sides are brought into the order of a line, and walked through side by side.

The right side is held block by block, and each block meets the left rows that reach it alone: a band join by sorting
(DeWitt, Naughton and Schneider, "An evaluation of non-equijoin algorithms", 1991), in which rows that reach far are
read again rather than kept. Aggregates are made the other way round: stretches of left rows meet all that they reach,
so that no aggregate has to be put together from parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Generic

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, memory_pool, raw_values, sliced
from juncture.errors import PlanError
from juncture.kernels.array_types import Ints
from juncture.local.inequality.index import BuildKeys, ProbeKeys
from juncture.local.output.numbered import Join, NumberedJoin, Run, join_blockwise, unused_name, with_integers
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.planner.memory import HELD_SHARE, held_row_bytes
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sort import ExternalSorter, last_values
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.spill import SpilledSource
from juncture.runtime.take import SelectedSource, SomeParts
from juncture.runtime.threads import grouped
from juncture.spec.size import format_size

_SHARE = 1 / 7
"""For right rows that are held, for either side and the output on their way through the disk, for rows under way."""

_MOST_SHARE = 1 / 4  # for right rows that have to be held together, however many they are
_PARTS_OF_ROOM = 8  # right rows are kept in parts of such a share of what may be held at once


@dataclass(frozen=True)
class KeyRangeRules:
    """How the key ranges of rows are computed. The number of a batch is that of its first row."""

    # Returns what the join compares of a right batch with a number; the rows are sorted by these codes.
    code: Callable[[pa.RecordBatch, int], BuildKeys]
    seek: Callable[[pa.RecordBatch], ProbeKeys]  # returns the limits of the rows of a left batch
    # Returns ordered codes of right rows beyond 64 bits, which values may share; None if their order suffices.
    rough: Callable[[pa.RecordBatch], Ints] | None = None
    check: Callable[[pa.RecordBatch, int], object] | None = None  # refuses wrong left rows of a batch with a number
    by_row: bool = False  # whether matches of a left row come in the order of the right rows, not of their codes


_LEFT_FIELDS = ("low", "high", "threshold", "place")
"""What is added to left rows: limits of the right codes that may match, the least second code that may, and which of
these brings rows of like reach together."""

_RIGHT_FIELDS = ("leaf", "code")  # what is added to right rows: their second code, and their code


@dataclass(frozen=True)
class _Range:
    """Where some rows lie: between two codes, and up to a depth.

    Of right rows, these are their codes and their greatest second code. Of left rows, these are the right codes that
    they may match, and the complement of the least second code that they may.
    """

    low: int
    high: int
    depth: int

    @classmethod
    def of_left(cls, batch: pa.RecordBatch) -> _Range:
        """Return the range of left rows with the `_LEFT_FIELDS`."""
        _, (low, high, threshold, _) = _last_fields(batch, _LEFT_FIELDS)
        return cls.of(low, high, threshold)

    @classmethod
    def of(cls, low: Ints, high: Ints, threshold: Ints) -> _Range:
        """Return the range of left rows by their fields."""
        return cls(int(low.min()), int(high.max()), ~int(threshold.min()))

    def joined(self, other: _Range) -> _Range:
        """Return the range of the rows of both."""
        return _Range(min(self.low, other.low), max(self.high, other.high), max(self.depth, other.depth))

    def meets(self, other: _Range) -> bool:
        """Return whether rows of this range may match rows of a range of the other side."""
        return self.low <= other.high and self.high >= other.low and ~self.depth <= other.depth


class _Parts:
    """Rows of a side in order on disk, part by part, with the range of each part, and the bytes that a join holds."""

    def __init__(self, schema: pa.Schema, context: JoinContext) -> None:
        self.source = SpilledSource(schema, context.spill, 0)
        self.ranges: list[_Range] = []
        self._held_bytes: list[int] = []

    def put(self, rows: pa.RecordBatch, part_range: _Range, held_bytes: int = 0) -> None:
        """Append a part."""
        self.source.write(rows)
        self.ranges.append(part_range)
        self._held_bytes.append(held_bytes)

    def bytes_within(self, other: _Range) -> int:
        """Return what the rows within a range of the other side take, and others of their parts."""
        return sum(self._held_bytes[part] for part in self._numbers(other))

    def within(self, other: _Range) -> SomeParts:
        """Return the parts that may have matches in a range of the other side."""
        return SomeParts(self.source, self._numbers(other))

    def _numbers(self, other: _Range) -> list[int]:
        return [part for part, part_range in enumerate(self.ranges) if part_range.meets(other)]


def stream_merged(
    join: Join,
    left: Source,
    right: Source,
    key_ranges: Callable[[Join], KeyRangeRules],
    in_memory: Callable[[Join, Source, Source, JoinContext], Iterator[pa.RecordBatch]],
    context: JoinContext,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join in the order of the left rows; `in_memory` joins pieces, whose right rows it buffers."""
    context = context.streaming(_SHARE)
    row_bytes = right.plain_bytes_of(join.needed("right")) // max(right.num_rows, 1)
    if right.num_rows * held_row_bytes(join, "right", row_bytes) <= context.memory.total_bytes * HELD_SHARE:
        yield from in_memory(join, left, right, context)
        return
    numbered, quiet = NumberedJoin.of(join, left, right), context.quiet()

    def run(join: Join, left: Source, right: Source) -> Iterator[pa.RecordBatch]:
        return in_memory(join, left, right, quiet)

    yield from _Merge(numbered, key_ranges(numbered.join), run, context).rows()


class _Merge(Generic[Join]):
    def __init__(
        self, numbered: NumberedJoin[Join], key_ranges: KeyRangeRules, run: Run[Join], context: JoinContext
    ) -> None:
        by_row = key_ranges.by_row and numbered.join.how not in ("semi", "anti")
        self._numbered = numbered.sorted_by_both() if by_row else numbered
        self._key_ranges = key_ranges
        self._run = run
        self._context = context
        self._room = max(1, int(context.memory.total_bytes * _SHARE))
        # What cannot be cut may take more.
        self._most_room = max(1, context.memory.reserve("right rows held", _MOST_SHARE).total_bytes)
        self._part_bytes = self._room // _PARTS_OF_ROOM
        self._row_bytes = held_row_bytes(numbered.join, "right", 0)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join, in their order if the context requires it."""
        rows = self._pieces()
        if self._context.in_order:
            rows = self._numbered.in_order(rows, self._reserved("output in order"))
        for batch in rows:
            yield from self._numbered.finished(batch)

    def _reserved(self, what: str) -> JoinContext:
        return self._context.within(self._context.memory.reserve(what, _SHARE))

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join in any order of the left rows, those of one left row in their own."""
        join, key_ranges = self._numbered.join, self._key_ranges
        try:
            right, seek = self._sorted_right(key_ranges.code), key_ranges.seek
        except TooWideError:
            # Different values may then have one code, so that it does not determine the range of a left row.
            right, seek = self._sorted_right(_roughly(key_ranges)), _everywhere
            if key_ranges.rough is not None:
                right = self._at_changes(right)
        left = self._sorted_left(seek)
        if join.aggregates:
            yield from self._aggregated(left, right)
        else:
            yield from join_blockwise(self._numbered, left.source, self._blocks(left, right), self._run)

    def _sorted_right(self, code: Callable[[pa.RecordBatch, int], BuildKeys]) -> Iterator[pa.RecordBatch]:
        """Bring the right side into the order of its codes, with the `_RIGHT_FIELDS`, in small parts."""
        schema = _extended(self._numbered.right.schema, _RIGHT_FIELDS)

        def fields(first: int, batch: pa.RecordBatch) -> list[Ints]:
            return _right_fields(code(batch, first), batch.num_rows)

        return _cut(self._sorted(self._numbered.right, schema, fields, "right"), self._part_bytes, self._held_bytes)

    def _sorted_left(self, seek: Callable[[pa.RecordBatch], ProbeKeys]) -> _Parts:
        """Bring the left side into the order of what it reaches, and keep it on disk."""
        schema = _extended(self._numbered.left.schema, _LEFT_FIELDS)

        def fields(first: int, batch: pa.RecordBatch) -> list[Ints]:
            if self._key_ranges.check is not None:
                self._key_ranges.check(batch, first)
            return _left_fields(seek(batch), batch.num_rows)

        parts = _Parts(schema, self._context)
        rows = self._sorted(self._numbered.left, schema, fields, "left")
        for batch in _cut(rows, self._part_bytes, lambda batch: int(batch.nbytes)):
            parts.put(batch, _Range.of_left(batch))
        parts.source.finish()
        return parts

    def _sorted(
        self, side: Source, schema: pa.Schema, fields: Callable[[int, pa.RecordBatch], list[Ints]], phase: str
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a side with further fields, in the order of the last one."""
        sorter = ExternalSorter(schema, schema.names[-1], self._reserved(f"{phase} rows in order"))

        def extended(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            return with_integers(batch, fields(first, batch), schema)

        return sorter.sort(read_through(side, extended, self._context, phase))

    def _right_parts(self, right: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, _Range, int]]:
        """Yield right rows without their fields, their range, and what they take where a join holds them."""
        for batch in right:
            rows, (leaves, codes) = _last_fields(batch, _RIGHT_FIELDS)
            yield rows, _Range(int(codes[0]), int(codes[-1]), int(leaves.max())), self._held_bytes(rows)

    def _blocks(self, left: _Parts, right: Iterable[pa.RecordBatch]) -> Iterator[tuple[Source, Source]]:
        """Yield blocks of as many right rows as may be held, each with the left rows that reach it."""
        keeps_right = self._numbered.join.how in ("right", "full")
        advance, done, total = self._context.progress.of("blocks"), 0, self._numbered.right.num_rows
        for parts in grouped(self._right_parts(right), self._room, itemgetter(2)):
            near = left.within(reduce(_Range.joined, (part_range for _, part_range, _ in parts)))
            block = pa.Table.from_batches([rows for rows, _, _ in parts])
            done += block.num_rows
            if near.num_rows or keeps_right:
                yield near, TableSource(block.combine_chunks(memory_pool()))
            advance(done, total)

    def _at_changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Split sorted right rows only where their codes change."""
        run: list[pa.RecordBatch] = []
        for batch in batches:
            codes = last_values(batch)
            before = last_values(run[-1])[-1:] if run else codes[:1]
            changes = np.flatnonzero(np.diff(codes, prepend=before))
            if len(changes):
                yield joined_batches([*run, batch.slice(0, int(changes[-1]))])
                run, batch = [], batch.slice(int(changes[-1]))
            run.append(batch)
            if (size := sum(map(self._held_bytes, run))) > self._most_room:
                raise self._too_small(2 * size, "Right rows whose values are nearly equal")
        if run:
            yield joined_batches(run)

    def _held_bytes(self, rows: pa.RecordBatch) -> int:
        """Return what right rows take where a join holds them."""
        # Their columns are there twice while they are put together.
        size: int = 2 * rows.nbytes + self._row_bytes * rows.num_rows
        return size

    def _aggregated(self, left: _Parts, right: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the left rows with their aggregates, each stretch of them beside all that it reaches."""
        shelf = _Parts(self._numbered.right.schema, self._context)
        for part in self._right_parts(right):
            shelf.put(*part)
        shelf.source.finish()
        join, parts, start = self._numbered.join, len(left.ranges), 0
        advance = self._context.progress.of("blocks")
        while start < parts:
            key_range, end = left.ranges[start], start + 1
            if shelf.bytes_within(key_range) > self._room:
                yield from self._halved(left.source, start, shelf)
            else:
                while end < parts and shelf.bytes_within(wider := key_range.joined(left.ranges[end])) <= self._room:
                    key_range, end = wider, end + 1
                yield from self._run(join, SomeParts(left.source, range(start, end)), shelf.within(key_range))
            start = end
            advance(int(left.source.bounds[start]), left.source.num_rows)

    def _halved(self, left: Source, part: int, shelf: _Parts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part whose key range exceeds the memory, piece by piece."""
        batches = (_last_fields(batch, _LEFT_FIELDS)[1][:3] for batch in left.read(part, left.schema.names))
        fields = [np.concatenate(columns) for columns in zip(*batches, strict=True)]
        waiting = [(0, len(fields[0]))]
        while waiting:
            first, end = waiting.pop()
            key_range = _Range.of(*(values[first:end] for values in fields))
            size = shelf.bytes_within(key_range)
            if size <= (self._room if end - first > 1 else self._most_room):
                rows = np.arange(first, end) + left.bounds[part]
                yield from self._run(self._numbered.join, SelectedSource(left, rows), shelf.within(key_range))
            elif end - first > 1:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
            else:
                raise self._too_small(size, "A single left row aggregates right rows that")

    def _too_small(self, size_bytes: int, what: str) -> PlanError:
        """Return the error to raise where so much would have to fit at once."""
        total_bytes = self._context.memory.total_bytes
        needed = int(total_bytes * size_bytes / self._most_room * 1.1) // 10**6 + 1
        return PlanError(
            f"{what} do not fit in memory={format_size(total_bytes)!r} together. Pass memory='{needed}MB' or more, or "
            "make the condition more selective.",
            name="JN-MEMORY-TOO-SMALL",
        )


def _roughly(key_ranges: KeyRangeRules) -> Callable[[pa.RecordBatch, int], BuildKeys]:
    """Return what codes right rows in their order only."""
    return lambda batch, _first: BuildKeys([], None if key_ranges.rough is None else key_ranges.rough(batch))


def _everywhere(_batch: pa.RecordBatch) -> ProbeKeys:
    """Say that left rows reach all right rows."""
    return ProbeKeys([])


def _cut(
    batches: Iterable[pa.RecordBatch], size_bytes: int, bytes_of: Callable[[pa.RecordBatch], int]
) -> Iterator[pa.RecordBatch]:
    """Cut batches into pieces of about such a size."""
    for batch in batches:
        yield from sliced(batch, max(1, int(size_bytes * batch.num_rows / max(bytes_of(batch), 1))))


def _extended(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    for name in names:
        schema = schema.append(pa.field(unused_name(name, schema), pa.int64()))
    return schema


def _left_fields(probe_keys: ProbeKeys, rows: int) -> list[Ints]:
    """Return the `_LEFT_FIELDS` of left rows. Those that can match nothing reach nothing."""
    limits = [
        np.full(rows, default) if limit is None else limit
        for limit, default in (
            (probe_keys.low, MIN_CODE),
            (probe_keys.high, MAX_CODE),
            (probe_keys.thresholds, MIN_CODE),
        )
    ]
    if probe_keys.possible is not None:
        limits = [
            np.where(probe_keys.possible, limit, nowhere)
            for limit, nowhere in zip(limits, (MAX_CODE, MIN_CODE, MAX_CODE), strict=True)
        ]
    # Of two limits, the lower one is the start of an interval.
    if probe_keys.low is not None:
        return [*limits, limits[0]]
    return [*limits, limits[2 if probe_keys.thresholds is not None else 1]]


def _right_fields(coded: BuildKeys, rows: int) -> list[Ints]:
    """Return the `_RIGHT_FIELDS` of right rows. Those that can match nothing come last."""
    codes = np.zeros(rows, np.int64) if coded.on is None else coded.on
    leaves = np.full(rows, MAX_CODE) if coded.leaves is None else coded.leaves
    if coded.valid is not None:
        codes, leaves = np.where(coded.valid, codes, MAX_CODE), np.where(coded.valid, leaves, MIN_CODE)
    return [leaves, codes]


def _last_fields(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[pa.RecordBatch, list[Ints]]:
    """Return a batch without its last columns, which are added fields, and these."""
    count = batch.num_columns - len(names)
    values = [raw_values(batch.column(number), np.int64) for number in range(count, batch.num_columns)]
    return batch.select(range(count)), values
