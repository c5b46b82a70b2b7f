"""Joins of two sides that do not fit in memory: the right one is buffered block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.local.output.numbered import Join, NumberedJoin
from juncture.runtime.selection import SelectedSource
from juncture.runtime.sources import Source, TableSource
from juncture.spec.schema import How

Run = Callable[[Join, Source, Source], Iterator[pa.RecordBatch]]
"""Yields the rows of a join whose right side is held in memory, in the order of the left rows."""

_ONE_BLOCK: dict[How, How] = {"left": "inner", "full": "right", "anti": "semi"}
"""The result of one block, if only all blocks together determine which left rows have a match."""


def join_blockwise(
    numbered: NumberedJoin[Join], left: Source, blocks: Iterable[tuple[Source, Source]], run: Run[Join]
) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join, those of each block in the order of their numbers.

    A block has numbered right rows, which are buffered, and the left rows that may match them; each right row is in one
    block. `run` joins one block. Takes a byte for each left row if it matters which of them have a match.
    """
    join = numbered.join
    how = join.how
    one = replace(join, how=_ONE_BLOCK.get(how, how))
    matched = np.zeros(numbered.left.num_rows if how in ("left", "full", "semi", "anti") else 0, np.bool_)
    for near, block in blocks:
        for batch in run(one, near, block):
            if len(matched):
                numbers = numbered.numbers_of(batch)
                matched[numbers[numbers < len(matched)]] = True
            if how not in ("semi", "anti"):
                yield batch
    if len(matched):
        rows = _rows(numbered, left, matched if how == "semi" else ~matched)
        alone = replace(join, how="anti" if how in ("semi", "anti") else "left")
        nothing = TableSource(pa.Table.from_batches([], join.right_schema))
        yield from run(alone, SelectedSource(left, rows), nothing)


def _rows(numbered: NumberedJoin[Join], source: Source, wanted: Mask) -> npt.NDArray[np.int64]:
    """Return the places in a source of the rows whose numbers are wanted."""
    found = [np.zeros(0, np.int64)]
    for part in range(len(source.part_rows)):
        place = int(source.bounds[part])
        for batch in source.read(part, [numbered.number]):
            found.append(np.flatnonzero(wanted[numbered.numbers_of(batch)]) + place)
            place += batch.num_rows
    return np.concatenate(found)


def blocks_of(source: Source, rows_most: int) -> Iterator[Source]:
    """Read a source block by block; at least one, even if it is empty."""
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
