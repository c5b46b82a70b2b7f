"""Which parts of the right side of a join can hold a match at all, by the statistics that its files keep."""

from __future__ import annotations

from juncture.runtime.context import JoinContext
from juncture.runtime.sources import ParquetSource, Source
from juncture.runtime.zone_maps import all_ends, extent_of, parts_within
from juncture.spec.condition import ResolvedInequality
from juncture.spec.range import ResolvedRange


def within_reach(join: ResolvedInequality, left: Source, right: Source, context: JoinContext) -> Source:
    """Return the right side of a join without the row groups that the window of no left row reaches.

    Only constant ends of a range join prune, and only right rows that are not needed without a match.
    """
    if not isinstance(join, ResolvedRange):
        return right
    ends = [bound for bound in (join.lower, join.upper) if bound is not None and bound.constant is not None]
    if not ends or join.how in ("right", "full") or not isinstance(right, ParquetSource):
        return right

    found = [extent_of(ends, join.domain) for ends in all_ends(left, join.left_on, context)]
    extents = [each for each in found if each is not None]
    if not extents:
        return right.only([])
    low, high = join.reach(min(first for first, _ in extents), max(last for _, last in extents))
    return right.only(parts_within(right, join.right_on, join.domain, low, high))
