"""Which row groups of a side can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.key_encoding import Form, form_of
from juncture.columnar.types import plain_type
from juncture.kernels.array_types import Ints, Words
from juncture.runtime.context import JoinContext
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.scan import Extent, all_ends, extent_of, meets, parts_within
from juncture.runtime.sources import Source
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import ResolvedInequality
from juncture.spec.equi import ResolvedEqui
from juncture.spec.range import ResolvedRange


def useful_parts(join: ResolvedAsof, codes: Callable[[], Ints], limits: Words, source: Source) -> list[int]:
    """Return the parts that may hold a match for any of the left rows, given their ``on`` codes and limits.

    Without a tolerance, all that is earlier than the last left row may match backward, and all that is later than the
    first forward. Parts without statistics are kept.
    """
    if all(source.extent(part, join.right_on) is None for part in range(len(source.part_rows))):
        return list(range(len(source.part_rows)))
    on = codes()
    if len(on) == 0:
        return []
    first, last = (join.domain.step_of(int(end)) for end in (on.min(), on.max()))
    low, high = join.right_range(first, last, None if join.tolerance is None else int(np.max(limits)))
    return parts_within(source, join.right_on, join.domain, low, high)


def within_right_range(join: ResolvedInequality, left: Source, right: Source, context: JoinContext) -> Source:
    """Return the right side of a join without the row groups that the window of no left row reaches.

    Only constant ends of a range join prune, and only right rows that are not needed without a match.
    """
    if not isinstance(join, ResolvedRange):
        return right
    ends = [bound for bound in (join.lower, join.upper) if bound is not None and bound.constant is not None]
    if not ends or join.how in ("right", "full") or not isinstance(right, ParquetSource):
        return right
    ranges = [extent_of(ends, join.domain) for ends in all_ends(left, join.left_on, context)]
    extents = [each for each in ranges if each is not None]
    if not extents:
        return right.only([])
    low, high = join.right_range(min(first for first, _ in extents), max(last for _, last in extents))
    return right.only(parts_within(right, join.right_on, join.domain, low, high))


def within_keys(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> tuple[Source, Source]:
    """Return both sides of an equality join, the larger one without the row groups where no key of the smaller can be.

    Only rows that are not needed without a match are skipped.
    """
    swapped = right.num_rows < left.num_rows
    small, large = (right, left) if swapped else (left, right)
    keeps = ("left", "full", "anti") if swapped else ("right", "full")
    if join.how in keeps or join.nulls_equal or not isinstance(large, ParquetSource):
        return left, right
    small_by, large_by = (join.right_by, join.left_by) if swapped else (join.left_by, join.right_by)
    parts = list(range(len(large.part_rows)))
    for small_key, large_key in zip(small_by, large_by, strict=True):
        form = form_of(small.schema.field(small_key).type, large.schema.field(large_key).type)
        extents = {part: _form_extent(large.extent(part, large_key), form) for part in parts}
        # Where NaN is, which a footer does not count, it equals NaN.
        is_float = pat.is_floating(plain_type(large.schema.field(large_key).type))
        if is_float or all(extent is None for extent in extents.values()):
            continue
        small_ends = [ends for ends in all_ends(small, small_key, context) if ends.null_count == 0]
        extents_of_keys = [extent for ends in small_ends if (extent := _form_extent(ends, form)) is not None]
        if not small_ends:
            parts = []
        elif len(extents_of_keys) == len(small_ends):
            low, high = min(first for first, _ in extents_of_keys), max(last for _, last in extents_of_keys)
            parts = [part for part in parts if meets(extents[part], low, high)]
    pruned = large if len(parts) == len(large.part_rows) else large.only(parts)
    return (pruned, small) if swapped else (small, pruned)


def _form_extent(ends: pa.Array | None, form: Form) -> Extent | None:
    """Return the least and the greatest value in the form that both sides share; None if one has none."""
    if ends is None:
        return None
    least, greatest = form.of(ends).to_python()
    return None if least is None or greatest is None else (least, greatest)
