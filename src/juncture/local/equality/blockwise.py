"""Joins of two pieces of which neither fits in memory, nor can be cut further: the right one is held block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.local.arrays import Mask, raw_values
from juncture.local.equality.held import stream_held
from juncture.local.equality.numbered import NumberedJoin
from juncture.local.scan import Source, TableSource
from juncture.local.selected import SelectedSource
from juncture.local.threads import Threads
from juncture.planner.equi import HELD_ROW_BYTES
from juncture.spec.schema import How

__all__ = ["held_bytes", "join_blockwise"]

_ONE_BLOCK: dict[How, How] = {"left": "inner", "full": "right", "anti": "semi"}
"""What a join of one block gives, where only all blocks together tell which left rows have a match."""


def held_bytes(source: Source) -> int:
    """Return about how much memory a join takes that holds the rows of a source."""
    return source.bytes_of(source.schema.names) + HELD_ROW_BYTES * source.num_rows


def join_blockwise(
    numbered: NumberedJoin, left: Source, right: Source, block_bytes: int, threads: Threads
) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join, those of each block of right rows in the order of their numbers.

    Parameters
    ----------
    numbered
        The join.
    left, right
        Numbered rows of both sides. Rows of equal key are all among them.
    block_bytes
        How much of the right rows to hold at once.
    threads
        Who works.

    Notes
    -----
    Reads the left rows once for each block, and holds a byte for each of all left rows where it matters which of them
    have a match.
    """
    join = numbered.join
    how = join.how
    one = replace(join, how=_ONE_BLOCK.get(how, how))
    matched = np.zeros(numbered.left.num_rows if how in ("left", "full", "semi", "anti") else 0, np.bool_)
    for block in _blocks(right, block_bytes):
        for batch in stream_held(one, left, block, "hash", threads):
            if len(matched):
                numbers = raw_values(batch.column(batch.num_columns - 1), np.int64)
                matched[numbers[numbers < len(matched)]] = True
            if how not in ("semi", "anti"):
                yield batch
    if len(matched):
        rows = _rows(left, matched if how == "semi" else ~matched, numbered.number)
        alone = replace(join, how="anti" if how in ("semi", "anti") else "left")
        nothing = TableSource(right.schema.empty_table())
        yield from stream_held(alone, SelectedSource(left, rows), nothing, "hash", threads)


def _rows(source: Source, wanted: Mask, number: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the places in a source of the rows whose numbers are wanted."""
    found = [np.zeros(0, np.int64)]
    for part in range(len(source.part_rows)):
        place = int(source.bounds[part])
        for batch in source.read(part, [number]):
            found.append(np.flatnonzero(wanted[raw_values(batch.column(0), np.int64)]) + place)
            place += batch.num_rows
    return np.concatenate(found)


def _blocks(source: Source, block_bytes: int) -> Iterator[Source]:
    """Read a source block by block; at least one, even if it is empty."""
    rows_most = max(1, int(block_bytes * source.num_rows / max(held_bytes(source), 1)))
    held: list[pa.RecordBatch] = []
    rows = 0
    for part in range(len(source.part_rows)):
        for batch in source.read(part, source.schema.names):
            for start in range(0, batch.num_rows, rows_most):
                piece = batch.slice(start, rows_most)
                if held and rows + piece.num_rows > rows_most:
                    yield TableSource(pa.Table.from_batches(held))
                    held, rows = [], 0
                held.append(piece)
                rows += piece.num_rows
    yield TableSource(pa.Table.from_batches(held, source.schema))
