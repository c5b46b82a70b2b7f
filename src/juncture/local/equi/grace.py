"""Grace hash joins: both sides are cut by the hash of the key into pieces on disk, and each pair of pieces is joined.

A piece that is too large still is cut again, by another hash. Rows of one key no hash can part: they are joined block
by block (Kitsuregawa, Tanaka and Moto-oka, "Application of hash to data base machine and its architecture", 1983).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, raw_values, rows_of
from juncture.columnar.hashes import KeyHashes
from juncture.kernels.hash import hash_integers
from juncture.local.equi.in_memory import (
    hashed,
    held_bytes,
    looks_for_keys_only,
    stream_blockwise,
    stream_held,
)
from juncture.local.equi.partitioned import partition_rows
from juncture.local.equi.swapped import can_swap, stream_swapped
from juncture.local.keys import key_types
from juncture.local.output.numbered import NumberedJoin
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpilledSource
from juncture.spec.equi import ResolvedEqui

_log = logging.getLogger(__name__)

_PIECES_MOST = 64
_BATCH_BYTES_MOST = 1 << 20
_BATCH_BYTES_LEAST = 1 << 12
_MORE = 1.3
"""Pieces are not all of one size."""


class GraceJoin:
    """One Grace hash join. All memory of the context is for buffered rows, beside those in flight."""

    def __init__(self, numbered: NumberedJoin[ResolvedEqui], context: JoinContext) -> None:
        self._numbered = numbered
        # For the rows of a piece that are held; while none are, for what is on its way to the disk.
        self._room = max(1, context.memory.total_bytes)
        self._context = context
        self._hashes = KeyHashes(*key_types(numbered.join), nulls_equal=numbered.join.nulls_equal)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the numbered rows of the join, piece by piece; rows of one number come in their order."""
        left, right = self._numbered.left, self._numbered.right
        yield from self._joined(left, right, 0, self._context)

    def _joined(self, left: Source, right: Source, level: int, context: JoinContext) -> Iterator[pa.RecordBatch]:
        join = self._numbered.join
        if (rows := self._in_memory(left, right, context)) is not None:
            yield from rows
            return
        least = min(held_bytes(left), held_bytes(right)) if can_swap(self._numbered.join) else held_bytes(right)
        count = min(_PIECES_MOST, int(_MORE * least / self._room) + 2)
        _log.debug("Neither side fits: rows are cut into %d pieces by a hash of their keys, level %d", count, level)
        pieces = [
            self._cut(side, names, count, level, context, f"cut {name}")
            for name, side, names in (("left", left, join.left_by), ("right", right, join.right_by))
        ]
        advance, done, quiet = context.progress.of("pieces"), 0, context.quiet()
        for ours, theirs in zip(*pieces, strict=True):
            # All right rows in one piece have one key, by their hashes.
            if theirs.num_rows == right.num_rows and self._in_memory(ours, theirs, quiet) is None:
                yield from stream_blockwise(self._numbered, ours, theirs, self._room, quiet)
            else:
                yield from self._joined(ours, theirs, level + 1, quiet)
            done += ours.num_rows
            for piece in (ours, theirs):
                piece.remove()
            advance(done, left.num_rows)

    def _in_memory(self, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a join if a side fits in memory; None if neither does."""
        if held_bytes(right) <= self._room:
            return stream_held(self._numbered.join, left, right, hashed, context)
        if held_bytes(left) > self._room:
            return None
        if can_swap(self._numbered.join):
            return stream_swapped(self._numbered.join, left, right, context)
        if looks_for_keys_only(self._numbered.join) and left.num_rows < right.num_rows:
            return stream_held(self._numbered.join, left, right, hashed, context)
        return None

    def _cut(
        self, side: Source, names: Sequence[str], count: int, level: int, context: JoinContext, phase: str
    ) -> list[SpilledSource]:
        """Write the rows of a side to a number of pieces, by the hash of their keys."""
        batch_bytes = min(_BATCH_BYTES_MOST, max(_BATCH_BYTES_LEAST, self._room // (4 * count)))
        pieces = [SpilledSource(side.schema, context.spill, batch_bytes) for _ in range(count)]

        def cut(_first: int, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
            order, edges = partition_rows(self._hash(batch, names, level), count)
            ordered = rows_of(batch, array_of(order, pa.int64()))
            return [
                (piece, ordered.slice(edges[piece], edges[piece + 1] - edges[piece]))
                for piece in range(count)
                if edges[piece] < edges[piece + 1]
            ]

        for found in read_through(side, cut, context, phase):
            for piece, batch in found:
                pieces[piece].write(batch)
        for each in pieces:
            each.finish()
        return pieces

    def _hash(
        self, batch: pa.RecordBatch, names: Sequence[str], level: int
    ) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return a hash of each row's key, another on each level."""
        hashes, usable = self._hashes.of([batch.column(name) for name in names])
        if usable is not None:
            # Rows that match nothing may go anywhere, but should not all go to one place.
            numbers = raw_values(batch.column(self._numbered.number), np.int64)
            hashes[~usable] = numbers[~usable].view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for _ in range(level):
            hash_integers(hashes.view(np.int64), hashes)
        return hashes
