"""Joins in tasks that send one side to every task, and shuffle nothing: ``broadcast`` and ``broadcast_left``.

A small DataFrame is collected when the join is built, and goes along with the tasks' code; a small table in files is
read by each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from juncture.spark.exchange.exchange import finish
from juncture.spark.exchange.shuffled_join import needed_right
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import SparkSide
from juncture.spark.result import task_output
from juncture.spark.tasks.broadcast import JoinBroadcastLeft, JoinBroadcastRight
from juncture.spec.resolved import Resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["join_broadcast_left", "join_broadcast_right"]


def join_broadcast_right(
    join: Resolved, left: SparkSide, right: SparkSide, schema: StructType, *, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose right side goes to every task, and the jobs that this took.

    Parameters
    ----------
    join
        The join. Of the right side, its schema has what tasks have to see.
    left, right
        The inputs.
    schema
        Of the result.
    memory_bytes
        What a task may hold.

    Raises
    ------
    PlanError
        If the right side is too large to be sent.
    """
    table, jobs = broadcast_side(right, join.right_schema.names, "right")
    frame, feed = left.rows(left.schema.names, join.left_by)
    stage = JoinBroadcastRight(feed, join, table, memory_bytes=memory_bytes, output=task_output(schema))
    return finish(frame, stage, schema), jobs


def join_broadcast_left(
    join: Resolved, left: SparkSide, right: SparkSide, schema: StructType, *, memory_bytes: int
) -> tuple[DataFrame, list[str]]:
    """Return the result of a join whose left side goes to every task, and the jobs that this took.

    Parameters
    ----------
    join, left, right, schema, memory_bytes
        As for `join_broadcast_right`.

    Raises
    ------
    PlanError
        If the left side is too large to be sent.
    """
    table, jobs = broadcast_side(left, left.schema.names, "left")
    frame, feed = right.rows(needed_right(join).names, join.right_by)
    stage = JoinBroadcastLeft(feed, join, table, memory_bytes=memory_bytes, output=task_output(schema))
    return finish(frame, stage, schema), jobs
