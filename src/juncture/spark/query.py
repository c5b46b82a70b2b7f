"""Built joins on Spark, and the number of their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.planner.statistics import Resources, Stats
from juncture.spark.exchange.exchange import LastTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PARTITIONS_PER_CORE = 2

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of shuffle partitions."""


@dataclass(frozen=True)
class BuiltJoin:
    """A result, the jobs that ran while it was built, and what `explain` adds (pairs of heading and text).

    `tasks` return its rows, in the order of its partitions; empty if Spark's SQL does.
    """

    frame: DataFrame
    jobs: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    tasks: tuple[LastTasks, ...] = ()

    @classmethod
    def of(
        cls,
        tasks: Sequence[LastTasks],
        schema: StructType,
        *,
        jobs: Sequence[str] = (),
        details: tuple[tuple[str, str], ...] = (),
    ) -> BuiltJoin:
        """Return the result of tasks."""
        frame = reduce(lambda one, other: one.union(other), (each.rows(schema) for each in tasks))
        return cls(frame, tuple(jobs), details, tuple(tasks))

    def replayed(self, partition: int) -> Iterator[pa.Table]:
        """Run the task of one partition of the result in this process, and yield its rows."""
        for each in self.tasks:
            if each.partitions is None or partition < each.partitions:
                yield from each.replayed(partition)
                return
            partition -= each.partitions


def partition_count(stats: Stats, resources: Resources, shuffle_partitions: int) -> int:
    """Return the number of shuffle partitions: each takes at most a quarter of a task's memory.

    Without row counts it is `shuffle_partitions`, the session's setting.

    Examples
    --------
    >>> from juncture.planner.statistics import SideStats
    >>> side = SideStats(rows=10_000_000, row_bytes=100)
    >>> partition_count(Stats(left=side, right=side), Resources(cores=2, memory_bytes=512 << 20), 200)
    15
    """
    least = _PARTITIONS_PER_CORE * resources.cores
    sizes = [side.bytes for side in (stats.left, stats.right)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return max(least, shuffle_partitions)
    return max(least, -(-sum(known) // (resources.memory_bytes // 4)))
