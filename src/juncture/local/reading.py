"""Sides that are read from end to end within what may be held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from juncture.local.scan import Source
from juncture.local.threads import Threads

__all__ = ["read_through"]

Result = TypeVar("Result")


def read_through(
    source: Source,
    make: Callable[[int, pa.RecordBatch], Result],
    threads: Threads,
    room_bytes: int,
    advance: Callable[[int, int], None] | None = None,
) -> Iterator[Result]:
    """Yield what is made of each batch of a source, in order.

    Parameters
    ----------
    source
        Whose rows, with all their columns.
    make
        Given the number of the first row of a batch, and the batch.
    threads
        Who works: on several parts at once, as far as they fit; otherwise on one batch after the other.
    room_bytes
        How much may be under way.
    advance
        Called with the number of rows that are done, and of all.
    """
    names = source.schema.names

    def read(part: int) -> Iterator[Result]:
        first = int(source.bounds[part])
        for batch in source.read(part, names):
            yield make(first, batch)
            first += batch.num_rows

    parts = range(len(source.part_rows))
    # A part under way is there as it was read, and as what is made of it.
    at_once = 4 * threads.count * source.bytes_of(names) // max(len(parts), 1) <= room_bytes
    made = threads.map(lambda part: list(read(part)), parts) if at_once else map(read, parts)
    for part, results in enumerate(made):
        yield from results
        if advance is not None:
            advance(int(source.bounds[part + 1]), source.num_rows)
