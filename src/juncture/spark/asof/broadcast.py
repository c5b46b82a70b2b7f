"""As-of joins that broadcast the left side: ``broadcast_left``.

Each task probes its right rows with the whole left side and sends its best candidates. One shuffle brings the
candidates of a left row together, and the best one matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.planner.statistics import Resources
from juncture.spark.exchange.exchange import LastTasks, packets, placeholders, shuffled
from juncture.spark.exchange.shuffled_join import needed_right
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import SparkSide
from juncture.spark.result import task_output
from juncture.spark.tasks.asof.broadcast import ChooseCandidates, ProbeLeft, candidates
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.output import TaskOutput
from juncture.spec.asof import ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def join_candidates(
    join: ResolvedAsof, left: SparkSide, right: SparkSide, schema: StructType, resources: Resources
) -> tuple[LastTasks, list[str]]:
    """Return the tasks of a join with a broadcast left side, and the jobs that ran.

    Raises `PlanError` if the left side is too large.
    """
    table, jobs = broadcast_side(left, left.schema.names, "left")
    probe, choose = probe_stages(join, table, task_output(schema), resources)
    frame, feed = right.rows(needed_right(join).names, join.right_by)
    cores = resources.cores
    # A partition without candidates must still return its left rows.
    sent = placeholders(left.session, cores).union(packets(frame, probe(feed)))
    return LastTasks(shuffled(sent, cores), choose(feed.schema), cores), jobs


def probe_stages(
    join: ResolvedAsof, left: BroadcastTable, output: TaskOutput, resources: Resources
) -> tuple[Callable[[Feed], ProbeLeft], Callable[[pa.Schema], ChooseCandidates]]:
    """Return functions that make the two stages of ``broadcast_left``.

    The first makes the probe stage from the feed of right rows, the second the choosing stage from the right schema.
    """
    seen = join.for_tasks()
    matching, targets, memory_bytes = join.compared("left"), resources.cores, resources.memory_bytes
    names = tuple(column.name for column in join.output)

    def probe(feed: Feed) -> ProbeLeft:
        return ProbeLeft(feed, seen, left, matching, targets, memory_bytes=memory_bytes)

    def choose(right: pa.Schema) -> ChooseCandidates:
        found = candidates(right, seen)
        return ChooseCandidates(seen, left, found, targets, names, memory_bytes=memory_bytes, output=output)

    return probe, choose
