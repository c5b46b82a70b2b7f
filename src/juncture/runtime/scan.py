"""Sides that are read from end to end within what may be held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source

Result = TypeVar("Result")


def read_through(
    source: Source,
    make: Callable[[int, pa.RecordBatch], Result],
    context: JoinContext,
    phase: str,
    *,
    columns: Sequence[str] | None = None,
    coded: Collection[str] = (),
    made_bytes: int = 0,
    in_order: bool = True,
) -> Iterator[Result]:
    """Yield what is made of each batch of a source.

    Parameters
    ----------
    source
        Whose rows.
    make
        Given the number of the first row of a batch, and the batch.
    context
        Whose threads work: each reads a part, as far as these fit into the room that they have. Otherwise they make one
        batch each at a time: if these need not come in order, each reads a part, batch by batch; if they do, one thread
        reads ahead.
    phase
        What progress calls this.
    columns
        Which to read; by default all.
    coded
        Those to be read as dictionaries where they are.
    made_bytes
        What is made of a row, where that is more than the row.
    in_order
        Whether the batches have to come in order.
    """
    names = source.schema.names if columns is None else columns

    def batches(part: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = int(source.bounds[part])
        for batch in source.read(part, names, coded):
            yield first, batch
            first += batch.num_rows

    def read(part: int) -> tuple[int, list[Result]]:
        return source.part_rows[part], [make(*each) for each in batches(part)]

    def made_of(each: tuple[int, pa.RecordBatch]) -> tuple[int, list[Result]]:
        return each[1].num_rows, [make(*each)]

    parts, threads = range(len(source.part_rows)), context.threads
    if _fit_at_once(source, names, made_bytes, context):
        made = threads.map(read, parts)
    elif in_order:
        made = chain.from_iterable(threads.map(made_of, threads.ahead(batches(part))) for part in parts)
    else:
        made = threads.mix(made_of, map(batches, parts))
    advance, done, told = context.progress.of(phase), 0, 1
    for rows, results in made:
        yield from results
        done += rows
        if (finished := int(np.searchsorted(source.bounds, done, "right"))) > told:
            advance(done, source.num_rows)
            told = finished


def _fit_at_once(source: Source, names: Sequence[str], made_bytes: int, context: JoinContext) -> bool:
    """Return whether as many parts as there are tasks at once fit: each as it was read, and what is made of it."""
    if context.threads.room_bytes is None:
        return True
    rows = max(source.part_rows, default=0)
    row_bytes = source.plain_bytes_of(names) // max(source.num_rows, 1)
    return context.threads.at_once * rows * (row_bytes + max(row_bytes, made_bytes)) <= context.threads.room_bytes
