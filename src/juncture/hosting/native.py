"""Joins of two streams by Spark's own operator. Virtual times bound its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.hosting.endless_plan import NoEquivalentError, endless_plan, resolved_streams
from juncture.hosting.progress import observed
from juncture.hosting.virtual_time import NAMES, VirtualTime, window_of
from juncture.hosting.watermarks import watermarks
from juncture.matching.condition import Condition, condition_of
from juncture.matching.order import Order
from juncture.matching.output import stored_join
from juncture.planner.plan import Plan
from juncture.spark.exchange import restore_types
from juncture.spark.inequality.condition import inequality_pairs
from juncture.spark.input.sides import FrameSide, as_frames
from juncture.spark.plan import typed_sides
from juncture.spark.session.session import setting
from juncture.spark.sql import SPARK_HOW, Names, Pairs, expression
from juncture.spec.range import Range, ResolvedRange
from juncture.spec.schema import SIDES, Side
from juncture.spec.where import ResolvedWhere, Where
from juncture.streams.bounds import Bounds
from juncture.streams.explain import EMISSIONS, kept_while, order_text
from juncture.streams.order import SideOrder, ordered_columns, side_orders

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def plan_of_streams(spec: Any, left: DataFrame, right: DataFrame, *, orders: Mapping[Side, Sequence[Order]]) -> Plan:
    """Plan a join of two streams; raises `NoEquivalentError` if Spark's own operator has no equivalent."""
    sides = FrameSide.of(left, "left"), FrameSide.of(right, "right")
    _check(spec, sides)
    join: Any = resolved_streams(spec, sides, "a stream")
    join, left_rows, right_rows = as_frames(*typed_sides(join, *sides))
    bounded = _Bounded(join, orders)
    return endless_plan(
        join,
        restore_types(_joined(join, left_rows, right_rows, bounded), join, *sides),
        sides[0].session,
        algorithm="native",
        summary="Spark's own join of two streams, by virtual times of both",
        reason="the condition limits the distance between the orders of matching rows, so Spark can prune its state",
        details=bounded.words(),
    )


def _check(spec: Any, sides: Sequence[FrameSide]) -> None:
    if not isinstance(spec, Where | Range):
        raise NoEquivalentError(f"Spark has no operator for {spec.title} of two streams")
    if spec.agg is not None:
        raise NoEquivalentError("Spark's own join of two streams returns each match and has no agg=")
    if spec.how == "anti":
        raise NoEquivalentError("Spark's own join of two streams has no how='anti'")
    for side, name in zip(sides, SIDES, strict=True):
        for column in watermarks(side.spark_schema):
            raise NoEquivalentError(
                f"the {name} stream has a watermark on {column!r} already, but Spark's own join needs one that both "
                "sides share"
            )
    policy = setting(sides[0].session, _POLICY) or "min"
    if policy.lower() != "min":
        raise NoEquivalentError(f"{_POLICY} is {policy!r}, with which rows of the slower side would be late")


class _Bounded:
    """A join of two streams with bounded state; raises `NoEquivalentError` if the condition does not bound it."""

    def __init__(self, join: ResolvedWhere | ResolvedRange, orders: Mapping[Side, Sequence[Order]]) -> None:
        self.join = join
        self.is_keyed = bool(join.left_by or (join.shape and join.shape.keys))
        valid_orders = side_orders(join, orders)
        self.condition: Condition = condition_of(stored_join(join), ordered_columns(valid_orders))
        self.time = self._time(valid_orders)
        self.bounds: dict[Side, Bounds] = {
            "left": Bounds(self.condition, "left", [self.time.right]),
            "right": Bounds(self.condition, "right", [self.time.left]),
        }

    def _time(self, orders: Mapping[Side, Sequence[SideOrder]]) -> VirtualTime:
        relations = self.condition.relations[: self.condition.matching]
        missing = ""
        for left in orders["left"]:
            for right in orders["right"]:
                window = window_of(relations, left, right)
                if window is None:
                    missing = missing or f"{left.text!r} and {right.text!r} have no common order"
                elif window.lower is None or window.upper is None:
                    end = "how far" if window.lower is window.upper else "on both sides how far"
                    missing = f"the condition does not limit {end} {right.text!r} may be from {left.text!r}"
                else:
                    sides = self.join.left_schema, self.join.right_schema
                    schemas = [[(field.name, str(field.type)) for field in schema] for schema in sides]
                    return VirtualTime.of(left, right, window, [self.join.spec.to_dict(), schemas])
        raise NoEquivalentError(f"{missing}, which Spark's own join of two streams needs to prune its state")

    def words(self) -> list[tuple[str, str]]:
        """Return the lines of `explain()`."""
        found = [("streams", "native: Spark's own operator; pairs are checked by the exact condition")]
        found += [(f"{side} order", order_text(self.time.order(side))) for side in SIDES]
        found += [(f"{side} state", f"rows are kept {kept_while(self.bounds[side])}") for side in SIDES]
        units = f"a millisecond of virtual time for {float(self.time.unit):g}"
        units += " s" if self.time.left.domain.is_time else ""
        delays = ", ".join(f"{side} rows may be {self.time.delay(side)} behind" for side in SIDES)
        found.append(("watermarks", f"{units}; {delays}; the lesser one applies to both"))
        if not self.is_keyed:
            found.append(("partitions", "one task joins all rows, because the condition has no equality"))
        found.append(("emitted", EMISSIONS[self.join.how]))
        return found

    def virtual(self, side: Side, names: Names) -> Column:
        """Return the time of a side's rows. A row without an order that might match raises an error."""
        order, bounds = self.time.order(side), self.bounds[side]
        value = expression(order.node, names)
        time = self.time.time(side, value)
        wrong = bounds.unplaced(order)
        if wrong is None:
            return time
        message = (
            f"juncture.errors.DataError: [JN-ORDER-NULL] A {side} row is null or NaN in the order {order.text!r}, but "
            "it could match other rows. Drop such rows, or join them separately."
        )
        return F.when(expression(wrong, names), F.raise_error(F.lit(message)).cast("timestamp")).otherwise(time)


def _joined(join: ResolvedWhere | ResolvedRange, left: FrameSide, right: FrameSide, bounded: _Bounded) -> DataFrame:
    pairs = inequality_pairs(join, left, right, inlined=True)
    names: dict[Side, dict[str, str]] = {
        "left": {name: f"l{i}" for i, name in enumerate(left.schema.names)},
        "right": {name: f"r{i}" for i, name in enumerate(right.schema.names)},
    }
    token = token_hex(4)
    left_rows, right_rows = (_watermarked(side, pairs, names, bounded, token) for side in SIDES)
    # Rows without a key or a time match nothing, but a full join of streams would match null keys with one another.
    guards = [value.isNotNull() for pair in pairs.key_values() for value in pair]
    guards += [F.col(name).isNotNull() for name in NAMES.values()]
    for key in () if join.shape is None else join.shape.keys:
        if not key.null_safe:
            guards += [expression(each, names).isNotNull() for each in (key.left, key.right)]
    if not pairs.is_keyed:
        # Spark needs an equality that is not of constants: all times have this value, which the optimizer does not see.
        same = [F.unix_millis(F.col(name)) % F.lit(1) for name in NAMES.values()]
        guards.append(same[0] == same[1])
    # Stored rows appear in pairs and, in joins that keep unmatched rows, alone.
    known = _known(bounded)
    joined = left_rows.join(right_rows, pairs.condition(*guards, bounded.time.condition(), known), SPARK_HOW[join.how])
    return pairs.result(joined.where(known) if join.how in ("left", "right", "full") else joined)


def _known(bounded: _Bounded) -> Column:
    """Return true for rows of this join, and an error for rows that a checkpoint has of another one."""
    orders = "; ".join(f"{side} order {order_text(bounded.time.order(side))}" for side in SIDES)
    message = (
        "juncture.errors.StateError: [JN-CHECKPOINT-MISMATCH] The checkpoint of this query belongs to another join: "
        "its condition, orders, delays or columns differ. Start the query with that join, or with a new checkpoint and "
        f"output. This join is {bounded.join.spec!r}; {orders}."
    )
    is_foreign = bounded.time.is_foreign()
    return F.when(is_foreign, F.raise_error(F.lit(message)).cast("boolean")).otherwise(F.lit(True))


def _watermarked(
    side: Side, pairs: Pairs, names: Mapping[Side, Mapping[str, str]], bounded: _Bounded, token: str
) -> DataFrame:
    held = [names[side][name] for name in bounded.join.needed(side)]
    rows = pairs.sides[side].rows.withColumn(NAMES[side], bounded.virtual(side, names))
    steps, scale = bounded.time.steps(side, expression(bounded.time.order(side).node, names))
    metrics = {"rows": F.count(F.lit(1)), "last": F.max(steps)}
    rows = observed(rows, token, side, metrics, scale).select(*held, NAMES[side])
    return rows.withWatermark(NAMES[side], f"{bounded.time.delay(side)} milliseconds")
