"""The work of one Spark partition in this process, to debug a wrong row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from juncture.errors import PlanError


class Replayable(Protocol):
    """A plan, such as `juncture.plan` returns."""

    _replay: Callable[[int], pa.Table] | None


def replay(plan: Replayable, partition: int) -> pa.Table:
    """Run the task of one partition of a join on Spark in this process, where a debugger can stop in it.

    Spark computes the rows that the task receives. They are collected, and the task's code runs on them.

    Parameters
    ----------
    plan
        A plan on Spark whose algorithm runs in Python tasks, such as ``"broadcast"``, ``"hash"`` and ``"range"``.
    partition
        The partition of the result, as ``pyspark.sql.functions.spark_partition_id()`` numbers it.

    Returns
    -------
    pyarrow.Table
        The rows of the partition.

    Raises
    ------
    PlanError
        If the join runs in this process, or in Spark's SQL.
    """
    if plan._replay is None:
        raise PlanError(
            "replay() needs a join on Spark that runs in Python tasks, but this one runs in this process or in Spark's "
            "SQL. Pass algorithm='broadcast' or 'range' to juncture.plan.",
            name="JN-PLAN-ENGINE",
        )
    return plan._replay(partition)
