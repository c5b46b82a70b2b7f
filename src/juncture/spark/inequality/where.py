"""Predicate joins on Spark: what of a predicate brings rows together, in SQL and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.predicate.decompose.join_condition import equalities_of
from juncture.predicate.decompose.match_interval import Ends, MatchInterval, match_interval_of
from juncture.predicate.decompose.shape import End
from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.expressions import Names, expression
from juncture.spark.sql.join import Pairs, RangeColumns, SqlSides, together
from juncture.spark.sql.order_encoding import OrderEncoding
from juncture.spark.sql.times import DAY_MICROS, micros, ntz_micros
from juncture.spark.tasks.inequality.predicate_placement import PredicatePlacement
from juncture.spark.tasks.key_range import Placement
from juncture.spark.tasks.placement import key_types
from juncture.spec.range import Bound
from juncture.spec.schema import Domain
from juncture.spec.where import ResolvedWhere

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["where_pairs", "where_placements"]

_ROUNDING = 2.0**-50
"""How much of itself a float may be off after a few operations."""


def where_placements(join: ResolvedWhere) -> tuple[Placement, Placement] | None:
    """Return what tells tasks where the rows of both sides lie; None if the predicate brings none together."""
    interval = match_interval_of(join.shape)
    equalities, _ = equalities_of(join.shape)
    if interval is None and not equalities and not join.left_by:
        return None
    left, right = (
        PredicatePlacement(
            side=side,
            by=join.left_by if side == "left" else join.right_by,
            by_types=key_types(join),
            equalities=tuple(equalities),
            interval=interval,
            decisive=join.compared(side),
        )
        for side in ("left", "right")
    )
    return left, right


def where_pairs(join: ResolvedWhere, left: FrameSide, right: FrameSide) -> Pairs:
    """Return a predicate join in terms of SQL.

    Raises
    ------
    PlanError
        If columns have no common type in SQL.
    """
    sides = SqlSides(join, left, right)
    names = sides.names
    match = expression(join.predicate, names)
    for key in join.shape.keys:
        if not key.null_safe and key.left.type == key.right.type:
            sides.add_key(expression(key.left, names), expression(key.right, names))
    interval, spans = match_interval_of(join.shape), None
    if interval is not None:
        sides.left = together(sides.left, "l", *_ends(interval, interval.left, names))
        sides.right = together(sides.right, "r", *_ends(interval, interval.right, names))
        if not interval.is_open:
            spans = RangeColumns(not interval.is_whole, interval.are_points, interval.width, interval.step_ns)
    ours = [names["left"][name] for name in join.compared("left")]
    theirs = [names["right"][name] for name in join.compared("right")]
    return Pairs.of(sides, match, (ours, theirs), spans)


def _ends(interval: MatchInterval, ends: Ends, names: Names) -> tuple[Column, Column]:
    """Return between which places the rows of a side lie."""
    first, last = (_end(interval, end, names, upper=upper) for end, upper in zip(ends, (False, True), strict=True))
    if not interval.may_swap:
        return first, last
    return F.when(first <= last, first).otherwise(last), F.when(first <= last, last).otherwise(first)


def _end(interval: MatchInterval, end: End | None, names: Names, *, upper: bool) -> Column:
    order = OrderEncoding(Domain("integer" if interval.is_whole else "float"))
    if end is None:
        return order.limit(upper=upper)
    value = expression(end.expression, names)
    if interval.is_whole:
        return order.end(_whole(end, value), Bound(constant=interval.steps(end, upper=upper)), None, None, upper=upper)
    number = _number(end, value)
    offset = float(end.amount)
    moved = number + F.lit(offset)
    slack = F.abs(number) * F.lit(_ROUNDING) + F.lit(abs(offset) * _ROUNDING)
    moved = moved if not offset else (moved + slack if upper else moved - slack)
    # NaN is above all other numbers.
    return F.when(F.isnan(moved) & value.isNotNull(), F.lit(float("inf"))).otherwise(moved)


def _whole(end: End, value: Column) -> Column:
    """Return a value as a whole number: days or microseconds where it is a time."""
    kind = end.expression.type
    if kind.kind == "date":
        return F.unix_date(value).cast("long")
    if kind.kind == "timestamp":
        return F.unix_micros(value) if kind.zoned else ntz_micros(value)
    return micros(value).cast("long") if kind.kind == "duration" else value.cast("long")


def _number(end: End, value: Column) -> Column:
    """Return a value as a float: seconds where it is a time."""
    kind = end.expression.type.kind
    if kind in ("integer", "decimal", "float"):
        return value.cast("double")
    return _whole(end, value).cast("double") * F.lit((DAY_MICROS if kind == "date" else 1) / 1e6)
