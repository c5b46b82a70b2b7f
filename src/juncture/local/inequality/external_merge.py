"""Joins by inequalities on disk: both sides are brought into the order of a line, and walked through side by side.

The right side is held block by block, and each block meets the left rows that reach it alone: a band join by sorting
(DeWitt, Naughton and Schneider, "An evaluation of non-equijoin algorithms", 1991), in which rows that reach far are
read again rather than kept. Aggregates are made the other way round: stretches of left rows meet all that they reach,
so that no aggregate has to be put together from parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, memory_pool, raw_values
from juncture.errors import PlanError
from juncture.kernels.array_types import Ints
from juncture.local.inequality.index import BuildKeys, ProbeKeys
from juncture.local.output.numbered import Join, NumberedJoin, Run, join_blockwise
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.planner.memory import HELD_SHARE, held_row_bytes
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sort import ExternalSorter
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.spill import SpilledSource
from juncture.runtime.take import SelectedSource, SomeParts
from juncture.spec.size import format_size

_SHARE = 1 / 7
"""For right rows that are held, for either side and the output on their way through the disk, for rows under way."""

_MOST_SHARE = 1 / 4
"""For right rows that have to be held together, however many they are."""

_PARTS_OF_ROOM = 8
"""Right rows are kept in parts of such a share of what may be held at once."""


@dataclass(frozen=True)
class KeyRangeRules:
    """How the key ranges of rows are computed.

    `code` returns what the join compares of a batch of right rows, given the number of its first row; the rows are
    sorted by these codes. `rough` returns codes of right rows that do not fit 64 bits, in their order, though different
    values may have equal codes; None if the order of the right rows suffices. `check` refuses wrong left rows of a
    batch, given the number of its first row.
    """

    code: Callable[[pa.RecordBatch, int], BuildKeys]
    seek: Callable[[pa.RecordBatch], ProbeKeys]  # returns the limits of the rows of a left batch
    rough: Callable[[pa.RecordBatch], Ints] | None = None
    check: Callable[[pa.RecordBatch, int], object] | None = None
    by_row: bool = False  # whether matches of a left row come in the order of the right rows, not of their codes


_LEFT_FIELDS = ("low", "high", "threshold", "place")
"""What is added to left rows: limits of the right codes that may match, the least second code that may, and which of
these brings rows of like reach together."""

_RIGHT_FIELDS = ("code", "leaf")
"""What is added to right rows: their code, and their second one."""


@dataclass(frozen=True)
class _BuildRange:
    """The least and the greatest code of some right rows, and their greatest second code."""

    first: int
    last: int
    leaf: int

    @classmethod
    def of(cls, codes: Ints, leaves: Ints) -> _BuildRange:
        """Return the extent of ascending codes."""
        return cls(int(codes[0]), int(codes[-1]), int(leaves.max()))

    def joined(self, other: _BuildRange) -> _BuildRange:
        """Return the extent of both."""
        return _BuildRange(min(self.first, other.first), max(self.last, other.last), max(self.leaf, other.leaf))


@dataclass(frozen=True)
class _ProbeRange:
    """The least and the greatest right code that some left rows may match, and the least second code that they ask."""

    low: int
    high: int
    threshold: int

    @classmethod
    def of(cls, low: Ints, high: Ints, threshold: Ints) -> _ProbeRange:
        """Return the reach of left rows."""
        return cls(int(low.min()), int(high.max()), int(threshold.min()))

    def joined(self, other: _ProbeRange) -> _ProbeRange:
        """Return the reach of both."""
        return _ProbeRange(min(self.low, other.low), max(self.high, other.high), min(self.threshold, other.threshold))

    def meets(self, extent: _BuildRange) -> bool:
        """Return whether right rows of an extent may match."""
        return self.low <= extent.last and self.high >= extent.first and self.threshold <= extent.leaf


def stream_merged(
    join: Join,
    left: Source,
    right: Source,
    key_ranges: Callable[[Join], KeyRangeRules],
    in_memory: Callable[[Join, Source, Source, JoinContext], Iterator[pa.RecordBatch]],
    context: JoinContext,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, batch by batch, in the order of the left rows.

    `key_ranges` returns the key ranges of the rows of a join, and `in_memory` joins pieces, whose right rows it
    buffers.
    """
    context = context.streaming(_SHARE)
    row_bytes = right.plain_bytes_of(join.needed("right")) // max(right.num_rows, 1)
    if right.num_rows * held_row_bytes(join, "right", row_bytes) <= context.memory.total_bytes * HELD_SHARE:
        yield from in_memory(join, left, right, context)
        return
    numbered, quiet = NumberedJoin.of(join, left, right), context.quiet()

    def run(join: Join, left: Source, right: Source) -> Iterator[pa.RecordBatch]:
        return in_memory(join, left, right, quiet)

    yield from _Merge(numbered, key_ranges(numbered.join), run, context).rows()


@dataclass(frozen=True)
class _Stretches:
    """Left rows in order, part by part, with the `_LEFT_FIELDS`."""

    source: Source
    reaches: list[_ProbeRange]  # the key ranges of each part

    def within(self, extent: _BuildRange) -> SomeParts:
        """Return the parts that reach right rows."""
        return SomeParts(self.source, [part for part, reach in enumerate(self.reaches) if reach.meets(extent)])


class _Merge(Generic[Join]):
    """One join on disk."""

    def __init__(
        self,
        numbered: NumberedJoin[Join],
        key_ranges: KeyRangeRules,
        run: Run[Join],
        context: JoinContext,
    ) -> None:
        self._shows_right_numbers = key_ranges.by_row and numbered.join.how not in ("semi", "anti")
        self._numbered = numbered.with_right_number() if self._shows_right_numbers else numbered
        self._step = np.int64(numbered.left.num_rows + numbered.right.num_rows + 1 if self._shows_right_numbers else 1)
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
        numbered = self._numbered
        if not self._context.in_order:
            for batch in self._pieces():
                yield from numbered.finished(batch)
            return
        schema = numbered.join.output_schema
        order = _unused("order", schema)
        schema = schema.append(pa.field(order, pa.int64()))
        sample = numbered.sample * self._step
        sorter = self._sorter("output in order", schema, order, sample)
        pieces = (_with_fields(batch, [self._order_of(batch)], schema) for batch in self._pieces())
        for batch in sorter.sort(pieces):
            yield from numbered.finished(batch)

    def _order_of(self, batch: pa.RecordBatch) -> Ints:
        """Return what brings rows of the output into their order, stably."""
        order: Ints = self._numbered.numbers_of(batch) * self._step
        if self._shows_right_numbers:
            rights = batch.column(self._numbered.right_number).fill_null(0)
            order += raw_values(rights, np.int64)
        return order

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join in any order of the left rows, those of one left row in their own."""
        join, key_ranges = self._numbered.join, self._key_ranges
        try:
            right, seek = _cut(self._sorted_right(key_ranges.code), self._part_bytes, self._held_bytes), key_ranges.seek
        except TooWideError:
            # Different values may then have one code, so that it does not determine the range of a left row.
            right, seek = (
                _cut(self._sorted_right(_roughly(key_ranges)), self._part_bytes, self._held_bytes),
                _everywhere,
            )
            if key_ranges.rough is not None:
                right = self._at_changes(right)
        stretches = self._sorted_left(seek)
        if join.aggregates:
            yield from self._aggregated(stretches, right)
        else:
            blocks = self._blocks(stretches, right)
            yield from join_blockwise(self._numbered, stretches.source, blocks, self._run)

    def _sorted_right(self, code: Callable[[pa.RecordBatch, int], BuildKeys]) -> Iterator[pa.RecordBatch]:
        """Bring the right side into the order of its codes, with the `_RIGHT_FIELDS`."""
        side = self._numbered.right
        schema = _extended(side.schema, _RIGHT_FIELDS)
        sorter = self._sorter("right rows in order", schema, schema.names[-2])

        def placed(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            return _with_fields(batch, _right_fields(code(batch, first), batch.num_rows), schema)

        return sorter.sort(read_through(side, placed, self._context, "right"))

    def _sorted_left(self, seek: Callable[[pa.RecordBatch], ProbeKeys]) -> _Stretches:
        """Bring the left side into the order of what it reaches, and keep it on disk."""
        side = self._numbered.left
        schema = _extended(side.schema, _LEFT_FIELDS)
        sorter = self._sorter("left rows in order", schema, schema.names[-1])

        def placed(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            if self._key_ranges.check is not None:
                self._key_ranges.check(batch, first)
            return _with_fields(batch, _left_fields(seek(batch), batch.num_rows), schema)

        rows = sorter.sort(read_through(side, placed, self._context, "left"))
        kept, reaches = SpilledSource(schema, self._context.spill, 0), []
        for batch in _cut(rows, self._part_bytes, _columns_bytes):
            kept.write(batch)
            reaches.append(_ProbeRange.of(*_last_fields(batch, 4)[1][:3]))
        kept.finish()
        return _Stretches(kept, reaches)

    def _sorter(self, what: str, schema: pa.Schema, column: str, sample: Ints | None = None) -> ExternalSorter:
        memory = self._context.memory.reserve(what, _SHARE)
        return ExternalSorter(schema, column, self._context.within(memory), sample)

    def _blocks(self, stretches: _Stretches, right: Iterable[pa.RecordBatch]) -> Iterator[tuple[Source, Source]]:
        """Yield blocks of right rows, each with the left rows that reach it."""
        keeps_right = self._numbered.join.how in ("right", "full")
        advance, done, total = self._context.progress.of("blocks"), 0, self._numbered.right.num_rows
        for block, extent in self._held(right):
            near = stretches.within(extent)
            if near.num_rows or keeps_right:
                yield near, block
            done += block.num_rows
            advance(done, total)

    def _held(self, right: Iterable[pa.RecordBatch]) -> Iterator[tuple[Source, _BuildRange]]:
        """Yield as many rows at once as may be held."""
        held: list[pa.RecordBatch] = []
        extent: _BuildRange | None = None
        size = 0
        for batch in right:
            rows, fields = _last_fields(batch, 2)
            if extent is not None and size + self._held_bytes(rows) > self._room:
                yield _whole(held), extent
                held, extent, size = [], None, 0
            held.append(rows)
            size += self._held_bytes(rows)
            here = _BuildRange.of(*fields)
            extent = here if extent is None else extent.joined(here)
        if extent is not None:
            yield _whole(held), extent

    def _at_changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Split sorted right rows only where their codes change."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            _, (codes, _) = _last_fields(batch, 2)
            before = _last_fields(held[-1], 2)[1][0][-1:] if held else codes[:1]
            changes = np.flatnonzero(np.diff(codes, prepend=before))
            if len(changes):
                yield joined_batches([*held, batch.slice(0, int(changes[-1]))])
                held, batch = [], batch.slice(int(changes[-1]))
            held.append(batch)
            if (size := sum(map(self._held_bytes, held))) > self._most_room:
                raise self._too_small(2 * size, "Right rows whose values are nearly equal")
        if held:
            yield joined_batches(held)

    def _held_bytes(self, rows: pa.RecordBatch) -> int:
        """Return what right rows take where a join holds them."""
        # Their columns are there twice while they are put together.
        size: int = 2 * rows.nbytes + self._row_bytes * rows.num_rows
        return size

    def _aggregated(self, stretches: _Stretches, right: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the left rows with their aggregates, each stretch of them beside all that it reaches."""
        shelf = _Shelf(self._numbered.right.schema, self._context)
        for batch in right:
            rows, fields = _last_fields(batch, 2)
            shelf.put(rows, _BuildRange.of(*fields), self._held_bytes(rows))
        shelf.source.finish()
        join, parts, start = self._numbered.join, len(stretches.reaches), 0
        advance = self._context.progress.of("blocks")
        while start < parts:
            reach, end = stretches.reaches[start], start + 1
            if shelf.bytes_within(reach) > self._room:
                yield from self._halved(stretches.source, start, shelf)
            else:
                while end < parts and shelf.bytes_within(wider := reach.joined(stretches.reaches[end])) <= self._room:
                    reach, end = wider, end + 1
                yield from self._run(join, SomeParts(stretches.source, range(start, end)), shelf.within(reach))
            start = end
            advance(int(stretches.source.bounds[start]), stretches.source.num_rows)

    def _halved(self, left: Source, part: int, shelf: _Shelf) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part whose key range exceeds the memory, piece by piece."""
        fields = [
            np.concatenate(columns)
            for columns in zip(
                *(_last_fields(batch, 4)[1][:3] for batch in left.read(part, left.schema.names)), strict=True
            )
        ]
        waiting = [(0, len(fields[0]))]
        while waiting:
            first, end = waiting.pop()
            reach = _ProbeRange.of(*(values[first:end] for values in fields))
            size = shelf.bytes_within(reach)
            if size <= (self._room if end - first > 1 else self._most_room):
                rows = np.arange(first, end) + left.bounds[part]
                yield from self._run(self._numbered.join, SelectedSource(left, rows), shelf.within(reach))
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


class _Shelf:
    """Right rows in order, part by part, with the extent of each part and what it takes where a join holds it."""

    def __init__(self, schema: pa.Schema, context: JoinContext) -> None:
        self.source = SpilledSource(schema, context.spill, 0)
        self._extents: list[_BuildRange] = []
        self._held_bytes: list[int] = []

    def put(self, rows: pa.RecordBatch, extent: _BuildRange, held_bytes: int) -> None:
        """Append a part."""
        self.source.write(rows)
        self._extents.append(extent)
        self._held_bytes.append(held_bytes)

    def bytes_within(self, reach: _ProbeRange) -> int:
        """Return what the rows within reach take, and others of their parts."""
        return sum(self._held_bytes[part] for part in self._parts(reach))

    def within(self, reach: _ProbeRange) -> Source:
        """Return the parts with rows within reach."""
        return SomeParts(self.source, self._parts(reach))

    def _parts(self, reach: _ProbeRange) -> list[int]:
        return [part for part, extent in enumerate(self._extents) if reach.meets(extent)]


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
        rows = max(1, int(size_bytes * batch.num_rows / max(bytes_of(batch), 1)))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _columns_bytes(batch: pa.RecordBatch) -> int:
    size: int = batch.nbytes
    return size


def _whole(batches: list[pa.RecordBatch]) -> Source:
    return TableSource(pa.Table.from_batches(batches).combine_chunks(memory_pool()))


def _extended(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return a schema with more columns of integers."""
    for name in names:
        schema = schema.append(pa.field(_unused(name, schema), pa.int64()))
    return schema


def _unused(name: str, schema: pa.Schema) -> str:
    """Return a name that no column has."""
    while name in schema.names:
        name += "_"
    return name


def _left_fields(probe_keys: ProbeKeys, rows: int) -> list[Ints]:
    """Return the `_LEFT_FIELDS` of left rows. Those that can match nothing reach nothing."""
    limits = [
        np.full(rows, default) if found is None else found
        for found, default in (
            (probe_keys.low, MIN_CODE),
            (probe_keys.high, MAX_CODE),
            (probe_keys.thresholds, MIN_CODE),
        )
    ]
    if probe_keys.possible is not None:
        limits = [
            np.where(probe_keys.possible, found, nowhere)
            for found, nowhere in zip(limits, (MAX_CODE, MIN_CODE, MAX_CODE), strict=True)
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
    return [codes, leaves]


def _with_fields(batch: pa.RecordBatch, values: list[Ints], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with more columns of integers."""
    return pa.RecordBatch.from_arrays([*batch.columns, *(array_of(each, pa.int64()) for each in values)], schema=schema)


def _last_fields(batch: pa.RecordBatch, count: int) -> tuple[pa.RecordBatch, list[Ints]]:
    """Return a batch without its last columns, and these."""
    kept = batch.num_columns - count
    values = [raw_values(batch.column(number), np.int64) for number in range(kept, batch.num_columns)]
    return batch.select(range(kept)), values
