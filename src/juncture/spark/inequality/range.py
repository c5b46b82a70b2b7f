"""Range joins on Spark: where rows lie, in SQL and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.input.frame import FrameSide
from juncture.spark.sql.join import Pairs, RangeColumns, SqlSides, together
from juncture.spark.sql.order_encoding import OrderEncoding
from juncture.spark.tasks.inequality.placement import WindowPlacement
from juncture.spark.tasks.key_range import IntervalPlacement, Placement
from juncture.spark.tasks.placement import Coding, key_types
from juncture.spec.range import Bound, ResolvedRange

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["range_pairs", "range_placements"]


def range_pairs(join: ResolvedRange, left: FrameSide, right: FrameSide) -> Pairs:
    """Return a range join in terms of SQL.

    Raises
    ------
    PlanError
        If columns have no common type in SQL.
    """
    types = [join.left_schema.field(join.left_on).type, join.right_schema.field(join.right_on).type]
    order, sides = OrderEncoding.of(join.domain, types), SqlSides(join, left, right)
    ours, theirs = sides.column("left", join.left_on), sides.column("right", join.right_on)
    word = F.when(order.usable(ours), order.word(ours))

    def end(bound: Bound | None, *, upper: bool) -> Column:
        if bound is None or bound.column is None:
            return order.end(word, bound, None, None, upper=upper)
        data_type = join.left_schema.field(bound.column).type
        return order.end(word, bound, sides.column("left", bound.column), data_type, upper=upper)

    def distance(bound: Bound | None) -> Column | None:
        if bound is None:
            return None
        if bound.column is not None:
            return sides.column("left", bound.column).cast("double")
        return F.lit(float(bound.constant or 0))

    first, last = end(join.lower, upper=False), end(join.upper, upper=True)
    lower, upper = distance(join.lower), distance(join.upper)
    if order.is_real and lower is not None and upper is not None:
        # Ends that are far from zero may be rounded to one value.
        first = F.when(lower <= upper, first)
    sides.left = together(sides.left, "l", first, last)
    place = F.when(order.usable(theirs), order.word(theirs))
    sides.right = together(sides.right, "r", place, place)
    match = order.between(
        F.col("rfirst"),
        F.col("lfirst"),
        F.col("llast"),
        open_first=join.lower is not None and not join.lower.closed,
        open_last=join.upper is not None and not join.upper.closed,
    )
    return Pairs.of(sides, match, (["lfirst", "llast"], ["rfirst"]), _spans(join, order))


def _spans(join: ResolvedRange, order: OrderEncoding) -> RangeColumns | None:
    """Return where rows lie; None where windows are open, so that nearly all rows lie on each other."""
    if join.lower is None or join.upper is None:
        return None
    width = None
    if join.lower.constant is not None and join.upper.constant is not None:
        width = float(join.upper.constant - join.lower.constant)
        width = width * 10.0**-join.domain.scale if join.domain.kind == "decimal" else width
    return RangeColumns(is_real=not order.is_whole, are_points=True, width=width, step_ns=order.step_ns)


def range_placements(join: ResolvedRange) -> tuple[Placement, Placement]:
    """Return what tells tasks where the rows of both sides lie."""
    left, right = join.left_schema, join.right_schema
    coding = Coding(key_types(join), (left.field(join.left_on).type, right.field(join.right_on).type))
    windows = WindowPlacement(join.left_by, join.left_on, coding, join.domain, join.lower, join.upper)
    return windows, IntervalPlacement("right", join.right_by, join.right_on, join.right_on, coding)
