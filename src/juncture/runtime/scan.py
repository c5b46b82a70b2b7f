"""Sources processed from start to end within a memory limit."""

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
    """Yield the result of `make` for each batch of a source, called with its first row number and the batch.

    If as many parts as tasks fit in memory, each thread processes a part. Otherwise threads process single batches: in
    order, with one thread reading ahead, or with one part per thread if `in_order` is False. `coded` columns are read
    as dictionaries where possible. `made_bytes` is the size of a result per row, if greater than the row.
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
    advance, done, reported = context.progress.of(phase), 0, 1
    for rows, results in made:
        yield from results
        done += rows
        if (finished := int(np.searchsorted(source.bounds, done, "right"))) > reported:
            advance(done, source.num_rows)
            reported = finished


def _fit_at_once(source: Source, names: Sequence[str], made_bytes: int, context: JoinContext) -> bool:
    """Return whether as many parts as concurrent tasks fit, each as read and with its results."""
    if context.threads.room_bytes is None:
        return True
    rows = max(source.part_rows, default=0)
    row_bytes = source.plain_bytes_of(names) // max(source.num_rows, 1)
    return context.threads.at_once * rows * (row_bytes + max(row_bytes, made_bytes)) <= context.threads.room_bytes
