"""Sides that are read from end to end within what may be held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

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
) -> Iterator[Result]:
    """Yield what is made of each batch of a source, in order.

    Parameters
    ----------
    source
        Whose rows.
    make
        Given the number of the first row of a batch, and the batch.
    threads
        Who works: each reads a part, as far as these fit into the room of the threads; otherwise parts are read one
        after the other, and they work on their batches.
    phase
        What progress calls this.
    columns
        Which to read; by default all.
    coded
        Those to be read as dictionaries where they are.
    made_bytes
        What is made of a row, where that is more than the row.
    """
    names = source.schema.names if columns is None else columns

    def batches(part: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = int(source.bounds[part])
        for batch in source.read(part, names, coded):
            yield first, batch
            first += batch.num_rows

    def read(part: int) -> list[Result]:
        return [make(*each) for each in batches(part)]

    parts = range(len(source.part_rows))
    if _fit_at_once(source, names, made_bytes, context):
        made: Iterator[Iterable[Result]] = context.threads.map(read, parts)
    else:
        made = (context.threads.map(lambda each: make(*each), context.threads.ahead(batches(part))) for part in parts)
    advance = context.progress.of(phase)
    for part, results in enumerate(made):
        yield from results
        advance(int(source.bounds[part + 1]), source.num_rows)


def _fit_at_once(source: Source, names: Sequence[str], made_bytes: int, context: JoinContext) -> bool:
    """Tell whether as many parts as there are tasks at once fit: each as it was read, and what is made of it."""
    if context.threads.room_bytes is None:
        return True
    rows = max(source.part_rows, default=0)
    row_bytes = source.plain_bytes_of(names) // max(source.num_rows, 1)
    return context.threads.at_once * rows * (row_bytes + max(row_bytes, made_bytes)) <= context.threads.room_bytes
