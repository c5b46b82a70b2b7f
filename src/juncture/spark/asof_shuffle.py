"""As-of joins with one shuffle: ``hash`` and ``range``.

Tasks read both sides once, and cut their rows into packets for the partitions that they go to: ranges of (key hash,
``on``). With ``hash`` all cuts fall between keys. With ``range`` they divide a sample evenly, so that a hot key spans
many partitions; then each task also sends the right rows that these have to know of one another, found in the same
pass (see `juncture.spark.worker.edges`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from juncture.spark.partition import Cuts
from juncture.spark.sides import Side
from juncture.spark.transport import finish, packets, shuffled
from juncture.spark.worker.edges import Edges, Seen
from juncture.spark.worker.gather import Gather, Task
from juncture.spark.worker.keys import Coding
from juncture.spark.worker.output import Output
from juncture.spark.worker.packets import Content
from juncture.spark.worker.scatter import Scatter, encoded
from juncture.spark.worker.settle import Resolve, Settle
from juncture.spec.asof import Asof, ResolvedAsof

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["join_shuffled"]

_SEEN: dict[str, tuple[Seen, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "nearest": ("backward", "forward"),
}


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
    how = join.spec.how
    kept = {"left": how in ("left", "full", "anti"), "right": how in ("right", "full")}
    task, columns = _task(join, memory_bytes)
    split = len(cuts.split_hashes) > 0
    edges = Edges(join.right_by, join.right_on, _ties(join, columns), _reach(join.spec), _SEEN[join.spec.direction])
    sent = None
    for side, by, on, names, content in (
        (left, join.left_by, join.left_on, left.schema.names, Content.LEFT),
        (right, join.right_by, join.right_on, columns, Content.RIGHT),
    ):
        keep = kept["left" if content is Content.LEFT else "right"]
        frame, feed = side.rows(names, present=() if keep else (*by, on), coded=by)
        carried = edges if split and content is Content.RIGHT else None
        part = packets(frame, Scatter(feed, content, by, on, coding, cuts, keep, carried))
        sent = part if sent is None else sent.union(part)
    assert sent is not None
    arrived = shuffled(sent, cuts.partitions)
    output = Output.of(schema)
    if not (split and kept["right"]):
        return finish(arrived, Gather(task, output), schema)
    settled = packets(arrived, Settle(task, coding, cuts, edges))
    return finish(shuffled(settled, cuts.partitions), Resolve(task, join.right_by, output), schema)


def _task(join: ResolvedAsof, memory_bytes: int) -> tuple[Task, list[str]]:
    """Return what tasks have to know, and the right columns that they need."""
    spec, columns = join.spec, list(join.right_schema.names)
    if spec.how in ("semi", "anti"):
        # Whether there is a match does not depend on which one is taken.
        columns = [name for name in columns if name == join.right_on or name in join.right_by]
        spec = replace(spec, order_by=())
    left = encoded(join.left_schema, join.left_by)
    right = encoded(pa.schema([join.right_schema.field(name) for name in columns]), join.right_by)
    return Task(spec, left, right, memory_bytes // 2), columns


def _ties(join: ResolvedAsof, columns: list[str]) -> tuple[str, ...]:
    return tuple(name for name in join.tie_columns if name in columns)


def _reach(spec: Asof) -> int:
    """Return how many right rows beyond its partition a left row may need; one more to see that there is a tie."""
    return spec.matches + (spec.ties == "error")
