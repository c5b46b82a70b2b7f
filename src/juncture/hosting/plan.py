"""Plans joins of streaming DataFrames, of rows or of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from juncture.errors import PlanError
from juncture.hosting.hosted import plan_changes, plan_streams
from juncture.hosting.table import plan_changes_with_table, plan_table_with_changes, plan_with_table
from juncture.hosting.watermarks import orders_or_watermarks
from juncture.incremental.changes.change_batch import ChangeFormat
from juncture.inputs.kinds import is_stream
from juncture.matching.order import Order
from juncture.planner.plan import Plan
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan_stream_join(
    spec: Any,
    left: Any,
    right: Any,
    *,
    left_order: Order | Sequence[Order] | None,
    right_order: Order | Sequence[Order] | None,
) -> Plan:
    """Plan a join with at least one streaming DataFrame."""
    if is_stream(left) and is_stream(right):
        _check_sessions(left.sparkSession, right.sparkSession)
        orders: dict[Side, Sequence[Order]] = {
            "left": orders_or_watermarks(left_order, "left", left.schema),
            "right": orders_or_watermarks(right_order, "right", right.schema),
        }
        return plan_streams(spec, left, right, orders=orders)
    for name, value in (("left_order", left_order), ("right_order", right_order)):
        if value is not None:
            raise PlanError(
                f"{name}={value!r} applies only if both sides are streaming DataFrames. Remove it.",
                name="JN-ARGUMENT-INAPPLICABLE",
            )
    return plan_with_table(spec, left, right)


def plan_change_join(
    spec: Any, left: Any, right: Any, *, output: ChangeFormat, unmatched_deletes: Literal["error", "count"]
) -> Plan:
    """Plan a join with at least one streaming DataFrame of changes."""
    if is_stream(left) and is_stream(right):
        _check_sessions(left.sparkSession, right.sparkSession)
        return plan_changes(spec, left, right, output=output, unmatched_deletes=unmatched_deletes)
    if is_stream(right):
        return plan_table_with_changes(spec, left, right, output=output)
    return plan_changes_with_table(spec, left, right, output=output)


def _check_sessions(left: SparkSession, right: SparkSession) -> None:
    """Raise an error for streams of two sessions. Sessions of classic Spark share a process, so they may differ."""
    if type(left) is not type(right):
        raise PlanError(
            "One stream is from Spark Connect and the other one from classic Spark. Read both with the same session.",
            name="JN-SPARK-SESSIONS",
        )
    left_id, right_id = (getattr(session, "session_id", None) for session in (left, right))
    if left_id != right_id:
        raise PlanError(
            f"The left stream belongs to the Spark Connect session {left_id}, and the right one to {right_id}. "
            "Read both with the same session.",
            name="JN-SPARK-SESSIONS",
        )
