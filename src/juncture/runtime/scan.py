"""Sources processed from start to end within a memory limit, and parts that file statistics exclude from a match."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import WHOLE_ITEMS, array_of, plain, raw_values
from juncture.columnar.types import plain_type
from juncture.ordered.domain import Domain
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource

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
        return source.numbered(part, names, coded)

    def read(part: int) -> tuple[int, list[Result]]:
        return source.part_rows[part], [make(*each) for each in batches(part)]

    def made_of(each: tuple[int, pa.RecordBatch]) -> tuple[int, list[Result]]:
        return each[1].num_rows, [make(*each)]

    parts, threads = range(len(source.part_rows)), context.threads
    if _fit_at_once(source, names, made_bytes, context):
        results_by_part = threads.map(read, parts)
    elif in_order:
        results_by_part = chain.from_iterable(threads.map(made_of, threads.ahead(batches(part))) for part in parts)
    else:
        results_by_part = threads.mix(made_of, map(batches, parts))
    advance, done, reported = context.progress.of(phase), 0, 1
    for rows, results in results_by_part:
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


Extent = tuple[Any, Any]
"""The minimum and maximum of a column, in steps of a join's domain or as keys."""


def extent_of(values: pa.Array, domain: Domain) -> Extent | None:
    """Return the extent of a minimum and maximum; None if they are null or NaN."""
    least, *_, greatest = domain.steps(plain(values))
    return None if least is None or greatest is None else (least, greatest)


def parts_within(source: Source, column: str, domain: Domain, low: Any, high: Any) -> list[int]:
    """Return the parts that may contain a value between two bounds (None: no bound), or have no statistics."""
    useful = []
    for part in range(len(source.part_rows)):
        values = source.extent(part, column)
        extent = None if values is None else extent_of(values, domain)
        if meets(extent, low, high):
            useful.append(part)
    return useful


def ends_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the minimum and maximum of values; nulls if there are none."""
    item = WHOLE_ITEMS.get(values.type.id)
    if item is not None and isinstance(values, pa.Array) and len(values) and values.null_count == 0:
        numbers = raw_values(values, item)
        return array_of(np.array([np.minimum.reduce(numbers), np.maximum.reduce(numbers)]), values.type)
    ends = pc.min_max(values)
    return pa.concat_arrays([pa.repeat(ends[name], 1) for name in ("min", "max")])


def ends_of_column(source: Source, column: str) -> pa.Array | None:
    """Return the minimum and maximum of a column in memory, or from file statistics; None if reading is necessary."""
    if not isinstance(source, TableSource):
        return source.ends(column)
    if (ends := source.column_ends.get(column)) is None:
        values = source.table.column(column)
        if plain_type(values.type) != values.type:
            # Arrow compares no dictionaries and no runs.
            values = pa.chunked_array([plain(chunk) for chunk in values.chunks], plain_type(values.type))
        ends = source.column_ends[column] = ends_of(values.chunk(0) if values.num_chunks == 1 else values)
    return ends


def all_ends(source: Source, column: str, context: JoinContext) -> Iterator[pa.Array]:
    """Yield the minimum and maximum of each piece of a column, by statistics or by reading it."""

    def ends_in(part: int) -> list[pa.Array]:
        extent = source.extent(part, column)
        # Some writers use NaN as the minimum or maximum of other values.
        if extent is not None and not (pat.is_floating(extent.type) and extent.is_nan().true_count):
            return [extent]
        return [ends_of(plain(batch.column(0))) for batch in source.read(part, [column])]

    for ends in context.threads.map(ends_in, range(len(source.part_rows))):
        yield from ends


def meets(extent: Extent | None, low: Any, high: Any) -> bool:
    """Return whether an extent, if known, intersects the range between two bounds; None is no bound."""
    return extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low))
