"""Plans joins of streaming DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from juncture.errors import PlanError
from juncture.inputs import is_stream
from juncture.planner.plan import Plan
from juncture.planner.statistics import Stats
from juncture.spec.schema import Side
from juncture.streams.order import Order
from juncture.streams.spark.hosted import plan_hosted
from juncture.streams.spark.native import plan_of_streams
from juncture.streams.spark.refusals import NoEquivalentError
from juncture.streams.spark.table import plan_with_table
from juncture.streams.spark.watermarks import orders_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan(
    spec: Any,
    left: Any,
    right: Any,
    *,
    algorithm: str = "auto",
    session: SparkSession | None = None,
    lazy: bool = False,
    stats: Stats | None = None,
    left_order: Order | Sequence[Order] | None = None,
    right_order: Order | Sequence[Order] | None = None,
) -> Plan:
    """Plan a join with at least one streaming DataFrame."""
    if is_stream(left) and is_stream(right):
        check_sessions(left.sparkSession, right.sparkSession)
        orders: dict[Side, Sequence[Order]] = {
            "left": orders_given(left_order, "left", left.schema),
            "right": orders_given(right_order, "right", right.schema),
        }
        try:
            return plan_of_streams(spec, left, right, orders=orders, algorithm=algorithm)
        except NoEquivalentError as error:
            return plan_hosted(spec, left, right, orders=orders, reason=str(error))
    if is_stream(right):
        raise PlanError(
            "The right table is a streaming DataFrame, but the left one is not, so each new right row would change "
            "earlier results. Pass the stream as the left table, or join inside foreachBatch, where each micro-batch "
            "is a table.",
            name="JN-STREAM-RIGHT",
        )
    return plan_with_table(spec, left, right, algorithm=algorithm, session=session, lazy=lazy, stats=stats)


def check_sessions(left: SparkSession, right: SparkSession) -> None:
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
