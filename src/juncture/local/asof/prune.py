"""Which parts of the right side of an as-of join can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from juncture.kernels.array_types import Ints, Words
from juncture.ordered.domain import Domain
from juncture.ordered.ends import TooWideError
from juncture.runtime.sources import Source
from juncture.runtime.zone_maps import meets
from juncture.spec.asof import ResolvedAsof


def useful_parts(join: ResolvedAsof, codes: Callable[[], Ints], limits: Words, source: Source) -> list[int]:
    """Return the parts that may hold a match for any of the left rows, given their ``on`` codes and limits.

    Without a tolerance, all that is earlier than the last left row may match backward, and all that is later than the
    first forward. Parts without statistics are kept.
    """
    extents = [_extent(source, part, join.right_on, join.domain) for part in range(len(source.part_rows))]
    if all(extent is None for extent in extents):
        return list(range(len(extents)))
    on = codes()
    if len(on) == 0:
        return []
    first, last = int(on.min()), int(on.max())
    low, high = join.reach(first, last, None if join.tolerance is None else int(np.max(limits)))
    return [part for part, extent in enumerate(extents) if meets(extent, low, high)]


def _extent(source: Source, part: int, column: str, domain: Domain) -> tuple[int, int] | None:
    """Return the least and the greatest code of a part."""
    extent = source.extent(part, column)
    if extent is None:
        return None
    try:
        codes, valid = domain.encode(extent)
    except TooWideError:
        return None
    if valid is not None and not valid.all():
        return None
    return int(codes[0]), int(codes[1])
