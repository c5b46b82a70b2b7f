"""External sort-merge joins: both sides are sorted by the hash of the key on disk, and walked through side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, raw_values
from juncture.columnar.hashes import KeyHashes
from juncture.local.equi.in_memory import held_bytes, merged, stream_blockwise, stream_held
from juncture.local.keys import key_types
from juncture.local.output.numbered import NumberedJoin
from juncture.runtime.context import JoinContext
from juncture.runtime.external_sort import AscendingBatches, ExternalSorter, last_values
from juncture.runtime.scan import read_through
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpooledSource
from juncture.spec.equi import ResolvedEqui

_HASHES = np.linspace(-(2.0**63), 2.0**63, 1 << 10, endpoint=False).astype(np.int64)
"""How hashes of 64 bits are spread."""


_SHARE = 1 / 3
"""For either side on its way through the disk, and for the right rows of a window."""


class ExternalMergeJoin:
    """One external sort-merge join. All memory of the context is for buffered rows, beside those in flight.

    Keys of any type are sorted by 64 bits of hash: the order does not matter, only that equal keys meet. Keys that
    differ and have the same hash meet too, and are then compared.
    """

    def __init__(self, numbered: NumberedJoin[ResolvedEqui], context: JoinContext) -> None:
        self._numbered = numbered
        self._context = context
        self._window = context.memory.reserve("rows of one window", _SHARE)
        self._room = self._window.total_bytes
        self._hashes = KeyHashes(*key_types(numbered.join), nulls_equal=numbered.join.nulls_equal)
        self._code = numbered.number + "_code"

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the numbered rows of the join, window by window, those of a window in the order of their numbers."""
        join = self._numbered.join
        advance, done, quiet = self._context.progress.of("windows"), 0, self._context.quiet()
        for left, right in self._windows():
            if held_bytes(right) <= self._room:
                yield from stream_held(join, left, right, merged, quiet)
            else:
                yield from stream_blockwise(self._numbered, left, right, self._room, quiet)
            done += left.num_rows
            advance(done, self._numbered.left.num_rows)

    def _windows(self) -> Iterator[tuple[Source, Source]]:
        """Yield rows of both sides that no other rows have to meet."""
        join = self._numbered.join
        left = self._sorted(self._numbered.left, join.left_by, "sort left")
        right = self._sorted(self._numbered.right, join.right_by, "sort right")
        while held := right.fill(self._room // 2):
            end = int(last_values(held[-1])[-1])
            yield (
                SpooledSource(left.schema, left.through(end), self._context.spill, self._window),
                SpooledSource(right.schema, chain(held, right.through(end)), self._context.spill, self._window),
            )
        rest = SpooledSource(left.schema, left.rest(), self._context.spill, self._window)
        yield rest, SpooledSource(right.schema, [], self._context.spill)

    def _sorted(self, side: Source, names: Sequence[str], phase: str) -> AscendingBatches:
        """Sort a side by the hash of its keys."""
        schema = side.schema.append(pa.field(self._code, pa.int64()))
        sorter = ExternalSorter(
            schema, self._code, self._context.within(self._context.memory.reserve(phase, _SHARE)), _HASHES
        )

        def coded(_first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
            return self._coded(batch, names, schema)

        return AscendingBatches(schema, sorter.sort(read_through(side, coded, self._context, phase)))

    def _coded(self, batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        hashes, usable = self._hashes.of([batch.column(name) for name in names])
        if usable is not None:
            # Rows that match nothing may go anywhere, but should not all go to one place.
            numbers = raw_values(batch.column(self._numbered.number), np.int64)
            hashes[~usable] = numbers[~usable].view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return pa.RecordBatch.from_arrays([*batch.columns, array_of(hashes.view(np.int64), pa.int64())], schema=schema)
