"""Overlap joins on Spark: where rows lie, in SQL and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.join import Pairs, RangeColumns, SqlSides, together
from juncture.spark.sql.order_encoding import OrderEncoding
from juncture.spark.tasks.key_range import IntervalPlacement, Placement
from juncture.spark.tasks.placement import Coding, key_types
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["overlap_pairs", "overlap_placements"]


def overlap_pairs(join: ResolvedOverlap, left: FrameSide, right: FrameSide) -> Pairs:
    """Return an overlap join in terms of SQL. An interval that starts after its end fails the query.

    Raises
    ------
    PlanError
        If columns have no common type in SQL.
    """
    named = [(join.left_schema, name) for name in join.left_interval]
    named += [(join.right_schema, name) for name in join.right_interval]
    order = OrderEncoding.of(join.domain, [schema.field(name).type for schema, name in named if name is not None])
    sides = SqlSides(join, left, right)
    sides.left = _with_interval(join, order, sides, "left")
    sides.right = _with_interval(join, order, sides, "right")
    if join.closed == "both":
        match = (F.col("lfirst") <= F.col("rlast")) & (F.col("rfirst") <= F.col("llast"))
    else:
        match = (F.col("lfirst") < F.col("rlast")) & (F.col("rfirst") < F.col("llast"))
    is_bounded = all(name is not None for _, name in named)
    spans = RangeColumns(is_real=not order.is_whole, step_ns=order.step_ns) if is_bounded else None
    return Pairs.of(sides, match, (["lfirst", "llast"], ["rfirst", "rlast"]), spans)


def _with_interval(join: ResolvedOverlap, order: OrderEncoding, sides: SqlSides, side: Side) -> DataFrame:
    """Add the ends of the intervals of a side, null where they hold no point."""
    rows = sides.left if side == "left" else sides.right
    names = join.left_interval if side == "left" else join.right_interval
    ends = [_end(order, sides, side, name, upper=upper) for name, upper in zip(names, (False, True), strict=True)]
    if None not in names:
        rows = rows.where(_checked(sides, side, names, ends))
    holds = ends[0] <= ends[1] if join.closed == "both" else ends[0] < ends[1]
    return together(rows, side[0], F.when(holds, ends[0]), ends[1])


def _end(order: OrderEncoding, sides: SqlSides, side: Side, name: str | None, *, upper: bool) -> Column:
    if name is None:
        return order.limit(upper=upper)
    value = sides.column(side, name)
    return F.when(order.usable(value), order.word(value))


def _checked(sides: SqlSides, side: Side, names: tuple[str | None, str | None], ends: list[Column]) -> Column:
    """Return a condition that all rows satisfy, and that fails the query where an interval starts after its end."""
    values = [F.coalesce(sides.column(side, name).cast("string"), F.lit("null")) for name in names if name is not None]
    message = F.concat(
        F.lit(f"juncture.errors.DataError: A {side} interval starts after its end: {names[0]!r} is "),
        values[0],
        F.lit(f" and {names[1]!r} is "),
        values[1],
        F.lit(". Swap the two, or leave such rows out first."),
    )
    return F.when(ends[0] > ends[1], F.raise_error(message).cast("boolean")).otherwise(F.lit(True))


def overlap_placements(join: ResolvedOverlap) -> tuple[Placement, Placement]:
    """Return what tells tasks where the rows of both sides lie."""
    ends = [join.left_schema.field(name).type for name in join.left_interval if name is not None]
    ends += [join.right_schema.field(name).type for name in join.right_interval if name is not None]
    coding = Coding(key_types(join), tuple(ends))
    left = IntervalPlacement("left", join.left_by, *join.left_interval, coding)
    return left, IntervalPlacement("right", join.right_by, *join.right_interval, coding)
