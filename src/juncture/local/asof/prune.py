"""Which parts of the right side of an as-of join can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

import numpy as np

from juncture.columnar.order_encoding import StepCoder, TooWideError
from juncture.local.asof.left import Left
from juncture.runtime.sources import Source
from juncture.runtime.zone_maps import meets
from juncture.spec.asof import ResolvedAsof


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
        if meets(extent, low, high):
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
