"""Which parts of the right side of an as-of join can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from juncture.kernels.array_types import Ints, Words
from juncture.runtime.sources import Source
from juncture.runtime.zone_maps import parts_within
from juncture.spec.asof import ResolvedAsof


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
    low, high = join.reach(first, last, None if join.tolerance is None else int(np.max(limits)))
    return parts_within(source, join.right_on, join.domain, low, high)
