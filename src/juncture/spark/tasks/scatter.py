"""The map side of a shuffle: split a task's rows into packets, one for each target partition, or sample them.

Each row goes to all partitions that it touches, and is owned by the one where it starts. Two matching rows meet in the
partition of the later start, which owns one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MEMORY_BYTES
from juncture.spark.tasks.cuts import Cuts, KeyRanges
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, narrowed
from juncture.spark.tasks.placement import Placement, one_chunk
from juncture.spark.tasks.stage import PacketStage
from juncture.spec.schema import Side

_SEED = 0


@dataclass(frozen=True)
class Pick(PacketStage):
    """Samples rows of a task with the probability `fraction`."""

    feed: Feed
    side: Side
    fraction: float
    # Buffers one chunk, independent of the memory limits of joins.
    memory_bytes: int = field(default=MEMORY_BYTES, kw_only=True)

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's sampled rows."""
        chance = np.random.default_rng(_SEED)
        for chunk in self.feed.chunks(batches):
            rows = chunk
            if self.fraction < 1:
                rows = chunk.take(np.flatnonzero(chance.random(chunk.num_rows) < self.fraction))
            yield Packet(0, Content.OWNED, rows, self.side)


_WORTH_NARROWING = 256  # least average rows of a packet for which narrowing outweighs its metadata


@dataclass(frozen=True)
class Scatter(PacketStage):
    """Sends the rows of one side to their partitions."""

    feed: Feed
    side: str
    by: tuple[str, ...]  # key columns, whose text is encoded
    placement: Placement
    cuts: Cuts
    keep_unmatchable: bool  # whether rows that cannot match are spread over all partitions

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        for table, ranges in self._placed(batches):
            yield from self._sent(table, ranges)

    def _placed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, KeyRanges]]:
        """Yield the rows in the form of packets, and their ranges."""
        for chunk in self.feed.chunks(batches):
            table = encode_keys(chunk.combine_chunks(), self.by)
            yield table, self.placement.ranges_of(table)

    def _sent(self, table: pa.Table, ranges: KeyRanges) -> Iterator[Packet]:
        """Yield rows to the partitions that own them, and to others that they touch."""
        first, last = ranges.partitions(self.cuts)
        unplaced = np.flatnonzero(~ranges.valid)
        first[unplaced] = last[unplaced] = np.arange(len(unplaced)) % self.cuts.partitions
        keep = np.ones(len(first), np.bool_) if self.keep_unmatchable else ranges.valid
        split = np.flatnonzero(keep & (first < last))
        for content, rows in ((Content.OWNED, np.flatnonzero(keep & (first == last))), (Content.SPLIT, split)):
            if len(rows):
                part = table if len(rows) == table.num_rows else table.take(rows)
                yield from split_by_partition(part, first[rows], self.cuts.partitions, content, self.side)
        yield from self._copies(table, split, first, last)

    def _copies(self, table: pa.Table, rows: Ints, first: Ints, last: Ints) -> Iterator[Packet]:
        """Yield copies of rows for all partitions after their first, at most about as many at a time as rows."""
        counts = (last - first)[rows]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + table.num_rows, "right")))
            part, times = rows[start:stop], counts[start:stop]
            copies = np.repeat(part, times)
            further = np.arange(len(copies)) - np.repeat(np.cumsum(times) - times, times) + 1
            targets = first[copies] + further
            yield from split_by_partition(table.take(copies), targets, self.cuts.partitions, Content.COPY, self.side)
            start = stop


def encoded(schema: pa.Schema, by: Iterable[str]) -> pa.Schema:
    """Return a schema after `encode_keys`."""
    for name in by:
        field = schema.field(name)
        if _is_text(field.type):
            number = schema.get_field_index(name)
            schema = schema.set(number, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return schema


def encode_keys(table: pa.Table, by: Iterable[str]) -> pa.Table:
    """Convert text and binary keys to dictionaries, so that later steps process each distinct key once."""
    for name in by:
        if _is_text(table.schema.field(name).type):
            number = table.schema.get_field_index(name)
            table = table.set_column(number, name, one_chunk(table[name]).dictionary_encode())
    return table


def _is_text(data_type: pa.DataType) -> bool:
    """Return whether values are better compared once than row by row."""
    narrow = pat.is_string(data_type) or pat.is_binary(data_type)
    return bool(narrow or pat.is_large_string(data_type) or pat.is_large_binary(data_type))


def split_by_partition(
    table: pa.Table, targets: Ints, partitions: int, content: Content, side: str
) -> Iterator[Packet]:
    """Yield the rows of each partition as a packet."""
    counts = np.bincount(targets, minlength=partitions)
    if len(targets) >= partitions * _WORTH_NARROWING:
        table = narrowed(table)
    if np.count_nonzero(counts) > 1:
        # NumPy sorts 16-bit integers by radix, ten times faster than wider ones.
        small = targets.astype(np.uint16) if partitions <= 1 << 16 else targets
        table = table.take(np.argsort(small, kind="stable"))
    ends = np.cumsum(counts)
    for target in np.flatnonzero(counts).tolist():
        rows = table.slice(ends[target] - counts[target], counts[target])
        yield Packet(target, content, compact(rows), side)


def compact(table: pa.Table) -> pa.Table:
    """Remove unused values from dictionaries, since a packet contains its dictionaries."""
    for number, name in enumerate(table.column_names):
        if pat.is_dictionary(table.schema.field(number).type):
            table = table.set_column(number, name, _compact(one_chunk(table.column(number))))
    return table


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = column.indices.fill_null(0).to_numpy() if column.null_count else column.indices.to_numpy()
    size = len(column.dictionary)
    if size == 0:
        return column
    if size <= len(indices):
        occurs = np.zeros(size, np.bool_)
        occurs[indices] = True
        used = np.flatnonzero(occurs)
        indices = (np.cumsum(occurs, dtype=np.int32) - 1)[indices].astype(np.int32)
    else:
        used, indices = np.unique(indices, return_inverse=True)
    mask = np.asarray(column.is_null()) if column.null_count else None
    indices = pa.array(indices.astype(np.int32), pa.int32(), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)))
