"""Joins in tasks that broadcast one side and shuffle nothing: ``broadcast`` and ``broadcast_left``.

A small DataFrame is collected when the join is built and sent with the tasks' code. A small table in files is read by
each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from juncture.planner.statistics import Resources
from juncture.spark.exchange.exchange import LastTasks
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import SparkSide
from juncture.spark.result import task_output
from juncture.spark.tasks.broadcast import JoinBroadcastLeft, JoinBroadcastRight
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def join_broadcast(
    join: Resolved, sent: Side, left: SparkSide, right: SparkSide, schema: StructType, resources: Resources
) -> tuple[LastTasks, list[str]]:
    """Return the tasks of a join with one side broadcast, and the jobs that ran.

    The join's right schema has only the columns that tasks need. Raises `PlanError` if the side is too large.
    """
    names = join.right_schema.names
    if sent == "left":
        table, jobs = broadcast_side(left, left.schema.names, sent)
        frame, feed = right.rows(names, join.right_by)
        make: type[JoinBroadcastLeft | JoinBroadcastRight] = JoinBroadcastLeft
    else:
        table, jobs = broadcast_side(right, names, sent)
        frame, feed = left.rows(left.schema.names, join.left_by)
        make = JoinBroadcastRight
    stage = make(feed, join, table, memory_bytes=resources.memory_bytes, output=task_output(schema))
    return LastTasks(frame, stage), jobs
