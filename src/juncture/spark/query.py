"""Queries that joins of all kinds become: what Spark runs, in how many partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from juncture.planner.statistics import Resources, Stats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTITIONS_PER_CORE = 2

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting of how many partitions a shuffle makes."""


@dataclass(frozen=True)
class BuiltJoin:
    """A join that Spark can run.

    Attributes
    ----------
    frame
        Its result, computed when an action asks for it.
    jobs
        The jobs that ran while it was built, in words.
    details
        What `explain` says of it, as pairs of a heading and a text.
    """

    frame: DataFrame
    jobs: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()


def partition_count(stats: Stats, resources: Resources, shuffle_partitions: int) -> int:
    """Return into how many partitions the rows of a join are shuffled.

    Parameters
    ----------
    stats, resources
        A partition is to take at most a quarter of what a task may hold.
    shuffle_partitions
        What the session makes of any other shuffle: it decides where nobody has counted the rows.

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
