"""The part of a predicate that bounds where matching rows lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from juncture.ordered.domain import Domain
from juncture.ordered.floats import Floats
from juncture.ordered.kinds import domain_of
from juncture.predicate.decompose.shape import Band, End, Shape
from juncture.predicate.language.nodes import sides
from juncture.predicate.language.types import arrow_type
from juncture.spec.condition import Limit, MatchInterval, Value
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

Ends: TypeAlias = tuple[End | None, End | None]
"""The lower and the upper end of the rows of a side."""


@dataclass(frozen=True)
class IntervalPart:
    """The ends of rows on both sides; None if unlimited. With ``may_swap``, the ends of a row may be reversed."""

    left: Ends
    right: Ends
    may_swap: bool = False


def match_interval_of(shape: Shape) -> MatchInterval | None:
    """Return the part of a predicate's shape that limits pairs the most, or None."""
    return next((interval for part in parts_of(shape) if (interval := _interval(part)) is not None), None)


def type_of_value(join: Resolved, side: Side, value: Value) -> pa.DataType:
    """Return the type of a value of a side."""
    if not isinstance(value, str):
        return arrow_type(value.type)
    return join.schema(side).field(value).type


def parts_of(shape: Shape) -> Iterator[IntervalPart]:
    """Yield the parts of a predicate that bound where matching rows lie, the most selective first."""
    for band in shape.bands:
        yield _around(band)
    for part in shape.containments:
        point, ends = End(part.point), (part.lower, part.upper)
        if sides(part.point) == {"right"}:
            yield IntervalPart(ends, (point, point))
        else:
            yield IntervalPart((point, point), ends)
    for overlap in shape.overlaps:
        ends = (overlap.left_start, overlap.left_end)
        yield IntervalPart(ends, (End(overlap.right_start), End(overlap.right_end)), may_swap=True)
    for band in shape.inequalities:
        yield _around(band)


def _around(band: Band) -> IntervalPart:
    return IntervalPart((band.lower, band.upper), (End(band.right), End(band.right)))


def _interval(part: IntervalPart) -> MatchInterval | None:
    """Return a part in whole 64-bit steps if all values have one unit; else in floats."""
    types = [end.expression.type for end in (*part.left, *part.right) if end is not None]
    kinds = {each.kind for each in types}
    numbers, times = kinds <= {"integer", "decimal", "float"}, kinds <= {"date", "timestamp"}
    if not kinds or not (numbers or times or kinds == {"duration"}):
        return None
    # Decimals may not fit in 64 bits.
    is_whole = len({(each.kind, each.unit) for each in types}) == 1 and not kinds & {"decimal", "float"}
    whole = domain_of(arrow_type(types[0])) if is_whole else None
    left, right = _limits(part.left, whole), _limits(part.right, whole)
    return MatchInterval(left, right, whole or Floats(), exact=whole is not None, may_swap=part.may_swap)


def _limits(ends: Ends, domain: Domain | None) -> tuple[Limit | None, Limit | None]:
    """Return ends with offsets rounded outward; without a domain, as numbers or seconds."""
    first, last = (
        None if end is None else Limit(end.expression, upper, offset=end.amount)
        for end, upper in zip(ends, (False, True), strict=True)
    )
    if domain is None:
        return first, last
    return (
        None if first is None else replace(first, offset=math.floor(first.offset / domain.step)),
        None if last is None else replace(last, offset=math.ceil(last.offset / domain.step)),
    )
