"""Which parts of a side can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import plain
from juncture.columnar.key_encoding import Form, form_of
from juncture.columnar.order_encoding import StepCoder, TooWideError, steps_of
from juncture.local.asof.left import Left
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import ParquetSource, Source
from juncture.spec.asof import ResolvedAsof
from juncture.spec.equi import ResolvedEqui
from juncture.spec.range import ResolvedRange
from juncture.spec.schema import Domain, plain_type

__all__ = ["Extent", "ends_of", "extent_of", "parts_within", "useful_parts", "within_keys", "within_reach"]

Extent = tuple[Any, Any]
"""The least and the greatest value of a column, in steps of a join's domain or in the form of a key."""


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
        if _meet(extent, low, high):
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
        if _meet(extent, low, high):
            kept.append(part)
    return kept


def within_reach(join: ResolvedRange, left: Source, right: Source, context: JoinContext) -> Source:
    """Return the right side of a range join without the row groups that the window of no left row reaches.

    Only constant ends tell, and only of right rows that nobody wants without a match.
    """
    ends = [bound for bound in (join.lower, join.upper) if bound is not None and bound.constant is not None]
    if not ends or join.how in ("right", "full") or not isinstance(right, ParquetSource):
        return right

    found = [extent_of(ends, join.domain) for ends in _all_ends(left, join.left_on, context)]
    extents = [each for each in found if each is not None]
    if not extents:
        return right.only([])
    low, high = join.reach(min(first for first, _ in extents), max(last for _, last in extents))
    return right.only(parts_within(right, join.right_on, join.domain, low, high))


def within_keys(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> tuple[Source, Source]:
    """Return both sides of an equality join, the larger one without the row groups where no key of the smaller can be.

    Only rows that nobody wants without a match are left out.
    """
    turned = right.num_rows < left.num_rows
    small, large = (right, left) if turned else (left, right)
    keeps = ("left", "full", "anti") if turned else ("right", "full")
    if join.how in keeps or join.nulls_equal or not isinstance(large, ParquetSource):
        return left, right
    small_by, large_by = (join.right_by, join.left_by) if turned else (join.left_by, join.right_by)
    kept = list(range(len(large.part_rows)))
    for ours, theirs in zip(small_by, large_by, strict=True):
        form = form_of(small.schema.field(ours).type, large.schema.field(theirs).type)
        extents = {part: _form_extent(large.extent(part, theirs), form) for part in kept}
        # Where NaN is, which a footer does not count, it equals NaN.
        is_float = pat.is_floating(plain_type(large.schema.field(theirs).type))
        if is_float or all(extent is None for extent in extents.values()):
            continue
        found = [ends for ends in _all_ends(small, ours, context) if ends.null_count == 0]
        known = [extent for ends in found if (extent := _form_extent(ends, form)) is not None]
        if not found:
            kept = []
        elif len(known) == len(found):
            low, high = min(first for first, _ in known), max(last for _, last in known)
            kept = [part for part in kept if _meet(extents[part], low, high)]
    pruned = large if len(kept) == len(large.part_rows) else large.only(kept)
    return (pruned, small) if turned else (small, pruned)


def _form_extent(ends: pa.Array | None, form: Form) -> Extent | None:
    """Return the least and the greatest value in the form that both sides share; None if one has none."""
    if ends is None:
        return None
    least, greatest = form.of(ends).to_python()
    return None if least is None or greatest is None else (least, greatest)


def ends_of(array: pa.Array) -> pa.Array:
    """Return the least and the greatest value of an array; nulls if it has none."""
    ends = pc.min_max(array)
    return pa.concat_arrays([pa.repeat(ends[name], 1) for name in ("min", "max")])


def _all_ends(source: Source, column: str, context: JoinContext) -> Iterator[pa.Array]:
    """Yield the least and the greatest value of each piece of a column: by statistics, or else by reading it."""

    def found(part: int) -> list[pa.Array]:
        known = source.extent(part, column)
        # Some writers let NaN hide the other values.
        if known is not None and not (pat.is_floating(known.type) and known.is_nan().true_count):
            return [known]
        return [ends_of(plain(batch.column(0))) for batch in source.read(part, [column])]

    for ends in context.threads.map(found, range(len(source.part_rows))):
        yield from ends


def _meet(extent: Extent | None, low: Any, high: Any) -> bool:
    """Tell whether an extent, if it is known, reaches into the range between two limits, of which None is none."""
    return extent is None or ((high is None or extent[0] <= high) and (low is None or extent[1] >= low))
