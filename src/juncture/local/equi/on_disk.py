"""Equality joins whose sides go through the disk, cut or sorted by the hash of the key.

A Grace hash join cuts both sides into pieces, and joins each pair of pieces. A piece that is too large still is cut
again, by another hash. Rows of one key no hash can part: they are joined block by block (Kitsuregawa, Tanaka and
Moto-oka, "Application of hash to data base machine and its architecture", 1983). An external sort-merge join sorts both
sides by the hash, and walks through them side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.columnar.key_encoding import KeyHashes
from juncture.kernels.array_types import Words
from juncture.kernels.hash import hash_integers
from juncture.local.equi.in_memory import (
    can_swap,
    hashed,
    held_bytes,
    looks_for_keys_only,
    merged,
    stream_blockwise,
    stream_held,
    stream_swapped,
)
from juncture.local.keys import partition_rows
from juncture.local.output.numbered import NumberedJoin, with_integers
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.scan import read_through
from juncture.runtime.sort import AscendingBatches, ExternalSorter, last_values
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpilledSource, spooled
from juncture.spec.equi import ResolvedEqui

_log = logging.getLogger(__name__)

_PIECES_MOST = 64
_BATCH_BYTES_MOST = 1 << 20
_BATCH_BYTES_LEAST = 1 << 12
_HASHES = np.linspace(-(2.0**63), 2.0**63, 1 << 10, endpoint=False).astype(np.int64)
"""How hashes of 64 bits are spread."""

_SHARE = 1 / 3  # for either side on its way through the disk, and for the right rows of a window
_MORE = 1.3  # pieces are not all of one size


def grace_rows(numbered: NumberedJoin[ResolvedEqui], context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a Grace hash join, piece by piece; rows of one number come in their order.

    All memory of the context is for buffered rows, beside those in flight.
    """
    return GraceJoin(numbered, max(1, context.memory.total_bytes), _Hashes(numbered)).rows(
        numbered.left, numbered.right, 0, context
    )


@dataclass(frozen=True)
class GraceJoin:
    """What all levels of one Grace hash join share."""

    numbered: NumberedJoin[ResolvedEqui]
    room: int  # bytes for the rows of a piece that are held; while none are, for what is on its way to the disk
    hashes: _Hashes

    def rows(self, left: Source, right: Source, level: int, context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a join of pieces that have been cut a number of times."""
        join = self.numbered.join
        if (rows := self._in_memory(left, right, context)) is not None:
            yield from rows
            return
        least = min(held_bytes(left), held_bytes(right)) if can_swap(self.numbered.join) else held_bytes(right)
        most = min(_PIECES_MOST, max(2, self.room // (4 * _BATCH_BYTES_LEAST)))
        count = min(most, int(_MORE * least / self.room) + 2)
        _log.debug("Neither side fits: rows are cut into %d pieces by a hash of their keys, level %d", count, level)
        pieces = [
            self._cut(side, names, count, level, context, f"cut {name}")
            for name, side, names in (("left", left, join.left_by), ("right", right, join.right_by))
        ]
        advance, done, quiet = context.progress.of("pieces"), 0, context.quiet()
        for left_piece, right_piece in zip(*pieces, strict=True):
            # All right rows in one piece have one key, by their hashes.
            if right_piece.num_rows == right.num_rows and self._in_memory(left_piece, right_piece, quiet) is None:
                yield from stream_blockwise(self.numbered, left_piece, right_piece, self.room, quiet)
            else:
                yield from self.rows(left_piece, right_piece, level + 1, quiet)
            done += left_piece.num_rows
            for piece in (left_piece, right_piece):
                piece.remove()
            advance(done, left.num_rows)

    def _in_memory(self, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a join if a side fits in memory; None if neither does."""
        if held_bytes(right) <= self.room:
            return stream_held(self.numbered.join, left, right, hashed, context)
        if held_bytes(left) > self.room:
            return None
        if can_swap(self.numbered.join):
            return stream_swapped(self.numbered.join, left, right, context)
        if looks_for_keys_only(self.numbered.join) and left.num_rows < right.num_rows:
            return stream_held(self.numbered.join, left, right, hashed, context)
        return None

    def _cut(
        self, side: Source, names: Sequence[str], count: int, level: int, context: JoinContext, phase: str
    ) -> list[SpilledSource]:
        """Write the rows of a side to a number of pieces, by the hash of their keys."""
        batch_bytes = min(_BATCH_BYTES_MOST, max(_BATCH_BYTES_LEAST, self.room // (4 * count)))
        pieces = [SpilledSource(side.schema, context.spill, batch_bytes) for _ in range(count)]

        def cut(_first: int, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
            hashes = self.hashes.of(batch, names)
            for _ in range(level):
                hash_integers(hashes.view(np.int64), hashes)
            order, edges = partition_rows(hashes, count)
            ordered = rows_of(batch, array_of(order, pa.int64()))
            return [
                (piece, ordered.slice(edges[piece], edges[piece + 1] - edges[piece]))
                for piece in range(count)
                if edges[piece] < edges[piece + 1]
            ]

        for batches_of_pieces in read_through(side, cut, context, phase):
            for piece, batch in batches_of_pieces:
                pieces[piece].write(batch)
        for each in pieces:
            each.finish()
        return pieces


def external_merge_rows(numbered: NumberedJoin[ResolvedEqui], context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of an external sort-merge join, window by window.

    Those of a window come in the order of their numbers. All memory of the context is for buffered rows, beside those
    in flight.

    Keys of any type are sorted by 64 bits of hash: the order does not matter, only that equal keys meet. Keys that
    differ and have the same hash meet too, and are then compared.
    """
    join, room = numbered.join, context.memory.reserve("rows of one window", _SHARE)
    advance, done, quiet = context.progress.of("windows"), 0, context.quiet()
    for left, right in _windows(numbered, room, context):
        if held_bytes(right) <= room.total_bytes:
            yield from stream_held(join, left, right, merged, quiet)
        else:
            yield from stream_blockwise(numbered, left, right, room.total_bytes, quiet)
        done += left.num_rows
        advance(done, numbered.left.num_rows)


def _windows(
    numbered: NumberedJoin[ResolvedEqui], room: MemoryBudget, context: JoinContext
) -> Iterator[tuple[Source, Source]]:
    """Yield rows of both sides that no other rows have to meet."""
    spill = context.spill
    left = _sorted_by_hash(numbered, numbered.left, numbered.join.left_by, "sort left", context)
    right = _sorted_by_hash(numbered, numbered.right, numbered.join.right_by, "sort right", context)
    while batches := right.fill(room.total_bytes // 2):
        end = int(last_values(batches[-1])[-1])
        yield (
            spooled(left.schema, left.through(end), spill, room),
            spooled(right.schema, chain(batches, right.through(end)), spill, room),
        )
    yield spooled(left.schema, left.rest(), spill, room), spooled(right.schema, [], spill)


def _sorted_by_hash(
    numbered: NumberedJoin[ResolvedEqui], side: Source, names: Sequence[str], phase: str, context: JoinContext
) -> AscendingBatches:
    code, hashes = numbered.number + "_code", _Hashes(numbered)
    schema = side.schema.append(pa.field(code, pa.int64()))
    sorter = ExternalSorter(schema, code, context.within(context.memory.reserve(phase, _SHARE)), _HASHES)

    def coded(_first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        return with_integers(batch, [hashes.of(batch, names).view(np.int64)], schema)

    return AscendingBatches(schema, sorter.sort(read_through(side, coded, context, phase)))


class _Hashes:
    def __init__(self, numbered: NumberedJoin[ResolvedEqui]) -> None:
        self._numbered = numbered
        self._hashes = KeyHashes(*numbered.join.key_types, nulls_equal=numbered.join.nulls_equal)

    def of(self, batch: pa.RecordBatch, names: Sequence[str]) -> Words:
        """Return a hash of each row's key."""
        hashes, usable = self._hashes.of([batch.column(name) for name in names])
        if usable is not None:
            # Rows that match nothing may go anywhere, but should not all go to one place.
            numbers = self._numbered.numbers_of(batch)
            hashes[~usable] = numbers[~usable].view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return hashes
