"""Which parts of a side can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import plain
from juncture.columnar.order_encoding import steps_of
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spec.schema import Domain

Extent = tuple[Any, Any]
"""The least and the greatest value of a column, in steps of a join's domain or in the form of a key."""


def extent_of(values: pa.Array, domain: Domain) -> Extent | None:
    """Return the extent that two values, the least and the greatest, stand for; None if they are null or NaN."""
    least, *_, greatest = steps_of(plain(values), domain)
    missing = least is None or greatest is None or least != least or greatest != greatest
    return None if missing else (least, greatest)


def parts_within(source: Source, column: str, domain: Domain, low: Any, high: Any) -> list[int]:
    """Return the parts that may hold a value between two limits; None is none. Parts without statistics are kept."""
    kept = []
    for part in range(len(source.part_rows)):
        values = source.extent(part, column)
        extent = None if values is None else extent_of(values, domain)
        if meets(extent, low, high):
            kept.append(part)
    return kept


def ends_of(array: pa.Array) -> pa.Array:
    """Return the least and the greatest value of an array; nulls if it has none."""
    ends = pc.min_max(array)
    return pa.concat_arrays([pa.repeat(ends[name], 1) for name in ("min", "max")])


def all_ends(source: Source, column: str, context: JoinContext) -> Iterator[pa.Array]:
    """Yield the least and the greatest value of each piece of a column: by statistics, or else by reading it."""

    def found(part: int) -> list[pa.Array]:
        known = source.extent(part, column)
        # Some writers let NaN hide the other values.
        if known is not None and not (pat.is_floating(known.type) and known.is_nan().true_count):
            return [known]
        return [ends_of(plain(batch.column(0))) for batch in source.read(part, [column])]

    for ends in context.threads.map(found, range(len(source.part_rows))):
        yield from ends


def meets(extent: Extent | None, low: Any, high: Any) -> bool:
    """Return whether an extent, if known, meets the range between two limits; None means no limit."""
    return extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low))
