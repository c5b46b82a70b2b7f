"""Inequality joins in SQL: equal keys, spans of rows, and the match condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.ordered.arithmetic import LimitEnd
from juncture.ordered.kinds import domain_of
from juncture.ordered.sql import SqlDomain, sql_domain
from juncture.spark.input.sides import FrameSide
from juncture.spark.sql import Pairs, RangeColumns, SqlSides, expression
from juncture.spec.condition import JoinCondition, Limit, MatchInterval, OwnInterval, ResolvedInequality
from juncture.spec.predicate_condition import type_of_value
from juncture.spec.schema import Side

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_ROUNDING = 2.0**-50  # relative error of a float after a few operations


def inequality_pairs(join: ResolvedInequality, left: FrameSide, right: FrameSide) -> Pairs:
    """Return a join in SQL, whose query fails if an interval starts after its end.

    Raises `PlanError` for columns without a common type in SQL, and for decimals that it cannot add to.
    """
    condition, sides = join.condition, SqlSides(join, left, right)
    for each in condition.equalities:
        if not each.null_safe and each.left.type == each.right.type:
            sides.add_key(expression(each.left, sides.names), expression(each.right, sides.names))
    interval, ranges = condition.interval, None
    if interval is not None:
        types = [type_of_value(join, side, limit.value) for side, limit in interval.limits]
        order = sql_domain(interval.domain, types)
        order.check_ends()
        _add_ends(sides, "left", interval, order, condition.left_interval)
        _add_ends(sides, "right", interval, order, condition.right_interval)
        if not interval.is_open:
            ranges = RangeColumns(not order.is_whole, interval.is_point("right"), interval.width, order.step_ns)
    if condition.predicate is not None:
        decisive = {side: [names[name] for name in join.compared(side)] for side, names in sides.names.items()}
        return Pairs.of(sides, expression(condition.predicate, sides.names), decisive, ranges)
    assert interval is not None
    ends: dict[Side, list[str]] = {
        "left": ["lfirst", "llast"],
        "right": ["rfirst"] if interval.is_point("right") else ["rfirst", "rlast"],
    }
    return Pairs.of(sides, _overlap(sides, condition, interval), ends, ranges)


def _overlap(sides: SqlSides, condition: JoinCondition, interval: MatchInterval) -> Column:
    """Return the condition that two rows share a value; strict ends of floats cannot be moved inward."""
    left_interval = condition.left_interval
    touching = left_interval is None or left_interval.may_be_empty
    first, last = (
        touching and not (limit is not None and limit.strict and interval.domain.floating) for limit in interval.left
    )
    begins = sides.value("rfirst"), sides.value("llast")
    ends = sides.value("lfirst"), sides.value("rfirst" if interval.is_point("right") else "rlast")
    is_before_end = begins[0] <= begins[1] if last else begins[0] < begins[1]
    return is_before_end & (ends[0] <= ends[1] if first else ends[0] < ends[1])


def _add_ends(
    sides: SqlSides, side: Side, interval: MatchInterval, order: SqlDomain, row_interval: OwnInterval | None
) -> None:
    """Add the ends of a side's spans, null for rows that match nothing."""
    first, last = (
        order.limit(upper=upper) if limit is None else _end(sides, side, interval, order, limit)
        for limit, upper in zip(interval.ends(side), (False, True), strict=True)
    )
    if row_interval is not None:
        if len(row_interval.names) == 2:
            sides.rows[side] = sides.rows[side].where(_checked(sides, side, row_interval, first > last))
        first = first if row_interval.may_be_empty else F.when(first < last, first)
    if interval.may_swap:
        first, last = F.when(first <= last, first).otherwise(last), F.when(first <= last, last).otherwise(first)
    if (
        interval.domain.floating
        and interval.exact
        and any(limit is not None and limit.is_moved for limit in interval.ends(side))
    ):
        # Ends far from zero may be rounded to the same value.
        lower, upper = (_distance(sides, side, limit) for limit in interval.ends(side))
        first = first if lower is None or upper is None else F.when(lower <= upper, first)
    ends = f"{side[0]}first", f"{side[0]}last"
    sides.derive(side, dict(zip(ends, (first, last), strict=True)))
    proper = sides.value(ends[0]) <= sides.value(ends[1])
    sides.derive(side, {name: F.when(proper, sides.value(name)) for name in ends})


def _end(sides: SqlSides, side: Side, interval: MatchInterval, order: SqlDomain, limit: Limit) -> Column:
    data_type = type_of_value(sides.join, side, limit.value)
    value = sides.column(side, limit.value) if isinstance(limit.value, str) else expression(limit.value, sides.names)
    if not interval.exact:
        return _rounded(value, data_type, limit)
    word, end = order.word(value, data_type), LimitEnd(limit.upper, limit.strict)
    if limit.column is None:
        return order.end(word, limit.offset, end)
    return order.row_end(word, sides.column(side, limit.column), type_of_value(sides.join, side, limit.column), end)


def _distance(sides: SqlSides, side: Side, limit: Limit | None) -> Column | None:
    """Return the distance to add to floats."""
    if limit is None:
        return None
    return F.lit(float(limit.offset)) if limit.column is None else sides.column(side, limit.column).cast("double")


def _rounded(value: Column, data_type: pa.DataType, limit: Limit) -> Column:
    """Return an end as a float (seconds for times), rounded outward."""
    domain = domain_of(data_type)
    assert domain is not None
    number = sql_domain(domain, [data_type]).number(value, data_type)
    offset = float(limit.offset)
    moved = number + F.lit(offset)
    slack = F.abs(number) * F.lit(_ROUNDING) + F.lit(abs(offset) * _ROUNDING)
    moved = moved if not offset else (moved + slack if limit.upper else moved - slack)
    # Spark sorts NaN above all other numbers.
    return F.when(F.isnan(moved) & value.isNotNull(), F.lit(float("inf"))).otherwise(moved)


def _checked(sides: SqlSides, side: Side, row_interval: OwnInterval, is_backward: Column) -> Column:
    """Return a condition that is true for all rows, and fails the query if an interval starts after its end."""
    values = [F.coalesce(sides.column(side, name).cast("string"), F.lit("null")) for name in row_interval.names]
    message = F.concat(
        F.lit("juncture.errors.DataError: [JN-INTERVAL-REVERSED] "),
        F.lit(f"A {side} interval starts after its end: {row_interval.start!r} is "),
        values[0],
        F.lit(f" and {row_interval.end!r} is "),
        values[1],
        F.lit(". Swap the two columns, or drop such rows."),
    )
    return F.when(is_backward, F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
