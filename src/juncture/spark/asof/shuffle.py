"""As-of joins with one shuffle: ``hash`` and ``range``.

Tasks read both sides once, and cut their rows into packets for the partitions that they go to: ranges of (key hash,
``on``). With ``hash`` all cuts fall between keys. With ``range`` they divide a sample evenly, so that a hot key spans
many partitions; then each task also sends the right rows that these have to know of one another, found in the same
pass (see `juncture.spark.tasks.asof.boundary`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.spark.exchange.exchange import finish, packets, shuffled
from juncture.spark.exchange.partition import Cuts
from juncture.spark.input.frame import Side
from juncture.spark.result import task_output
from juncture.spark.tasks.asof.boundary import Edges, Seen
from juncture.spark.tasks.asof.mark import Resolve, Settle
from juncture.spark.tasks.asof.scatter import Scatter
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.join import Gather, Task
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content
from juncture.spark.tasks.placement import Coding
from juncture.spark.tasks.scatter import encoded
from juncture.spec.asof import ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["Stages", "join_shuffled", "needed_right", "stages_of"]

_SEEN: dict[str, tuple[Seen, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "nearest": ("backward", "forward"),
}


@dataclass(frozen=True)
class Stages:
    """What tasks do, stage by stage.

    Attributes
    ----------
    left, right
        What becomes of a side's rows, given where they come from.
    joined
        What becomes of a partition.
    resolved
        What becomes of it after a second shuffle, if there is one.
    """

    left: Callable[[Feed], Scatter]
    right: Callable[[Feed], Scatter]
    joined: Gather | Settle
    resolved: Resolve | None


def stages_of(join: ResolvedAsof, coding: Coding, cuts: Cuts, output: Output, memory_bytes: int) -> Stages:
    """Return what the tasks of a join do.

    Parameters
    ----------
    join
        The join.
    coding, cuts
        How rows are placed.
    output
        What Spark expects of the last stage.
    memory_bytes
        What a task may hold.
    """
    spec, columns = join.spec, needed_right(join)
    left = encoded(join.left_schema, join.left_by)
    right = encoded(pa.schema([join.right_schema.field(name) for name in columns]), join.right_by)
    if spec.how in ("semi", "anti"):
        spec = replace(spec, order_by=())
    task = Task(spec, left, right, memory_bytes)
    ties = tuple(name for name in join.tie_columns if name in columns)
    # One row more than are taken shows whether a tie had to be decided.
    reach = spec.matches + (spec.ties == "error")
    edges = Edges(join.right_by, join.right_on, ties, reach, _SEEN[spec.direction])
    split = len(cuts.split_hashes) > 0

    def scatter_left(feed: Feed) -> Scatter:
        return Scatter(feed, Content.LEFT, join.left_by, join.left_on, coding, cuts, keeps_left(join))

    def scatter_right(feed: Feed) -> Scatter:
        carried = edges if split else None
        return Scatter(feed, Content.RIGHT, join.right_by, join.right_on, coding, cuts, keeps_right(join), carried)

    if split and keeps_right(join):
        settle = Settle(task, coding, cuts, edges)
        return Stages(scatter_left, scatter_right, settle, Resolve(task, join.right_by, output))
    return Stages(scatter_left, scatter_right, Gather(task, output), None)


def join_shuffled(
    join: ResolvedAsof, left: Side, right: Side, *, coding: Coding, cuts: Cuts, memory_bytes: int, schema: StructType
) -> DataFrame:
    """Return the result of a join whose partitions are given.

    Parameters
    ----------
    join, left, right
        The join and its inputs.
    coding, cuts
        How rows are placed.
    memory_bytes
        What a task may hold.
    schema
        Of the result.
    """
    stages = stages_of(join, coding, cuts, task_output(schema), memory_bytes)
    left_frame, left_feed = left.rows(left.schema.names, join.left_by)
    right_frame, right_feed = right.rows(needed_right(join), join.right_by)
    sent = packets(left_frame, stages.left(left_feed)).union(packets(right_frame, stages.right(right_feed)))
    arrived = shuffled(sent, cuts.partitions)
    if stages.resolved is None:
        assert isinstance(stages.joined, Gather)
        return finish(arrived, stages.joined, schema)
    return finish(shuffled(packets(arrived, stages.joined), cuts.partitions), stages.resolved, schema)


def needed_right(join: ResolvedAsof) -> list[str]:
    """Return the right columns that a join has to see."""
    names: list[str] = join.right_schema.names
    if join.spec.how in ("semi", "anti"):
        # Whether there is a match does not depend on which one is taken.
        return [name for name in names if name == join.right_on or name in join.right_by]
    return names


def keeps_left(join: ResolvedAsof) -> bool:
    """Tell whether left rows without a match are needed."""
    return join.spec.how in ("left", "full", "anti")


def keeps_right(join: ResolvedAsof) -> bool:
    """Tell whether right rows without a match are needed."""
    return join.spec.how in ("right", "full")
