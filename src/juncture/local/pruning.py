"""Which parts of the right side can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.local.arrays import plain
from juncture.local.codes import StepCoder, TooWideError, steps_of
from juncture.local.left import Left
from juncture.local.scan import ParquetSource, Source
from juncture.local.threads import Threads
from juncture.spec.asof import ResolvedAsof
from juncture.spec.range import ResolvedRange
from juncture.spec.schema import Domain

__all__ = ["Extent", "ends_of", "extent_of", "parts_within", "useful_parts", "within_reach"]

Extent = tuple[Any, Any]
"""The least and the greatest value of a column, in steps of a join's domain."""


def useful_parts(join: ResolvedAsof, left: Left, source: Source, coder: StepCoder) -> list[int]:
    """Return the parts that may hold a match for any of the left rows.

    Without a tolerance, all that is earlier than the last left row may match backward, and all that is later than the
    first forward. Parts without statistics are kept.
    """
    every = range(len(source.part_rows))
    if len(left.slots) == 0:
        return []
    on = left.slots.on[: len(left.slots)]
    first, last = int(on.min()), int(on.max())
    reach = None
    if join.tolerance is not None and coder.domain.kind != "float":
        reach = int(np.max(left.limits))
    low, high = join.reach(first, last, reach)
    kept = []
    for part in every:
        extent = _extent(source, part, join.right_on, coder)
        if extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low)):
            kept.append(part)
    return kept


def _extent(source: Source, part: int, column: str, coder: StepCoder) -> tuple[int, int] | None:
    """Return the least and the greatest code of a part."""
    extent = source.extent(part, column)
    if extent is None:
        return None
    try:
        codes, valid = coder.encode(extent)
    except TooWideError:
        return None
    if valid is not None and not valid.all():
        return None
    return int(codes[0]), int(codes[1])


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
        if extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low)):
            kept.append(part)
    return kept


def within_reach(join: ResolvedRange, left: Source, right: Source, threads: int | None) -> Source:
    """Return the right side of a range join without the row groups that the window of no left row reaches.

    Only constant ends tell, and only of right rows that nobody wants without a match.
    """
    ends = [bound for bound in (join.lower, join.upper) if bound is not None and bound.constant is not None]
    if not ends or join.how in ("right", "full") or not isinstance(right, ParquetSource):
        return right

    def extent(part: int) -> list[Extent | None]:
        known = left.extent(part, join.left_on)
        found = None if known is None else extent_of(known, join.domain)
        if found is not None:
            return [found]
        batches = left.read(part, [join.left_on])
        return [extent_of(ends_of(plain(batch.column(0))), join.domain) for batch in batches]

    with Threads(threads) as pool:
        found = [each for extents in pool.map(extent, range(len(left.part_rows))) for each in extents]
    extents = [each for each in found if each is not None]
    if not extents:
        return right.only([])
    low, high = join.reach(min(first for first, _ in extents), max(last for _, last in extents))
    return right.only(parts_within(right, join.right_on, join.domain, low, high))


def ends_of(array: pa.Array) -> pa.Array:
    """Return the least and the greatest value of an array."""
    ends = pc.min_max(array)
    return pa.array([ends["min"], ends["max"]], array.type)
