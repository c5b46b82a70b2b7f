"""Built joins on Spark, and the number of their partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from juncture.planner.statistics import Resources, Stats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTITIONS_PER_CORE = 2

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of shuffle partitions."""


@dataclass(frozen=True)
class BuiltJoin:
    """A result, the jobs that ran while it was built, and what `explain` adds (pairs of heading and text)."""

    frame: DataFrame
    jobs: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()


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
