"""Plans of joins of streaming DataFrames: which sides are streams says how they are joined."""

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
    """Plan a join of which at least one side is a streaming DataFrame.

    Parameters
    ----------
    spec, left, right, algorithm, session, lazy, stats
        As for `juncture.spark.plan.plan`.
    left_order, right_order
        The orders of two streams.

    Raises
    ------
    SchemaError, DataError
        As `juncture.plan` does.
    PlanError
        If Spark cannot run it on these sides: with what can be done instead.
    """
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
    """Refuse streams of two sessions, except of classic Spark: its sessions are in one process, and the left one runs.

    Raises
    ------
    PlanError
        With what can be done instead.
    """
    if type(left) is not type(right):
        raise PlanError(
            "One stream is from Spark Connect and the other one from classic Spark. Read both with the same session.",
            name="JN-SPARK-SESSIONS",
        )
    ours, theirs = (getattr(session, "session_id", None) for session in (left, right))
    if ours != theirs:
        raise PlanError(
            f"The left stream belongs to the Spark Connect session {ours}, and the right one to {theirs}. Read both "
            "with the same session.",
            name="JN-SPARK-SESSIONS",
        )
