"""Parts of a side that can contain a match, by file statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import plain
from juncture.columnar.types import plain_type
from juncture.ordered.domain import Domain
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource

Extent = tuple[Any, Any]
"""The minimum and maximum of a column, in steps of a join's domain or as keys."""


def extent_of(values: pa.Array, domain: Domain) -> Extent | None:
    """Return the extent of a minimum and maximum; None if they are null or NaN."""
    least, *_, greatest = domain.steps(plain(values))
    return None if least is None or greatest is None else (least, greatest)


def parts_within(source: Source, column: str, domain: Domain, low: Any, high: Any) -> list[int]:
    """Return the parts that may contain a value between two bounds (None: no bound), or have no statistics."""
    kept = []
    for part in range(len(source.part_rows)):
        values = source.extent(part, column)
        extent = None if values is None else extent_of(values, domain)
        if meets(extent, low, high):
            kept.append(part)
    return kept


def ends_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the minimum and maximum of values; nulls if there are none."""
    ends = pc.min_max(values)
    return pa.concat_arrays([pa.repeat(ends[name], 1) for name in ("min", "max")])


def ends_of_column(source: Source, column: str) -> pa.Array | None:
    """Return the minimum and maximum of a column in memory, or from file statistics; None if reading is necessary."""
    if not isinstance(source, TableSource):
        return source.ends(column)
    values = source.table.column(column)
    if plain_type(values.type) != values.type:
        # Arrow compares no dictionaries and no runs.
        values = pa.chunked_array([plain(chunk) for chunk in values.chunks], plain_type(values.type))
    return ends_of(values)


def all_ends(source: Source, column: str, context: JoinContext) -> Iterator[pa.Array]:
    """Yield the minimum and maximum of each piece of a column, by statistics or by reading it."""

    def ends_in(part: int) -> list[pa.Array]:
        known = source.extent(part, column)
        # Some writers use NaN as the minimum or maximum of other values.
        if known is not None and not (pat.is_floating(known.type) and known.is_nan().true_count):
            return [known]
        return [ends_of(plain(batch.column(0))) for batch in source.read(part, [column])]

    for ends in context.threads.map(ends_in, range(len(source.part_rows))):
        yield from ends


def meets(extent: Extent | None, low: Any, high: Any) -> bool:
    """Return whether an extent, if known, intersects the range between two bounds; None is no bound."""
    return extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low))
