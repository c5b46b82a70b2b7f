"""Joins in tasks with one shuffle of both sides, and a second one for rows that a partition cannot resolve alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from juncture.spark.exchange.exchange import LastTasks, packets, shuffled
from juncture.spark.input.frame import SparkSide
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.scatter import Scatter, encoded
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.resolved import Resolved


@dataclass(frozen=True, kw_only=True)
class ShuffledJoin:
    """The stages of the tasks.

    `joined` returns final rows after the first shuffle, None if all must wait. `marked` sends on the rows that wait,
    and `resolved` returns them after the second shuffle; both are None if no rows wait. `scatter_right` sends right
    rows.
    """

    join: Resolved
    placements: tuple[Placement, Placement]
    cuts: Cuts
    memory_bytes: int
    joined: OutputStage | None = None
    marked: PacketStage | None = None
    resolved: OutputStage | None = None
    scatter_right: Callable[..., Scatter] = Scatter

    def left(self, feed: Feed) -> Scatter:
        """Return the stage that sends left rows to their partitions."""
        keeps = self.join.how in ("left", "full", "anti")
        place, budget = self.placements[0], self.memory_bytes
        return Scatter(feed, "left", self.join.left_by, place, self.cuts, keeps, memory_bytes=budget)

    def right(self, feed: Feed) -> Scatter:
        """Return the stage that sends right rows to their partitions."""
        keeps = self.join.how in ("right", "full")
        place, budget = self.placements[1], self.memory_bytes
        return self.scatter_right(feed, "right", self.join.right_by, place, self.cuts, keeps, memory_bytes=budget)

    def tasks(self, left: SparkSide, right: SparkSide) -> list[LastTasks]:
        """Return the tasks of the result, given both inputs."""
        left_frame, left_feed = left.rows(left.schema.names, self.join.left_by)
        right_frame, right_feed = right.rows(needed_right(self.join).names, self.join.right_by)
        sent = packets(left_frame, self.left(left_feed)).union(packets(right_frame, self.right(right_feed)))
        count = self.cuts.partitions
        arrived = shuffled(sent, count)
        tasks = [] if self.joined is None else [LastTasks(arrived, self.joined, count)]
        if self.marked is not None and self.resolved is not None:
            tasks.append(LastTasks(shuffled(packets(arrived, self.marked), count), self.resolved, count))
        return tasks


def needed_right(join: Resolved) -> pa.Schema:
    """Return the right columns that tasks need."""
    needed = join.needed("right")
    return pa.schema([field for field in join.right_schema if field.name in needed])


def packet_schemas(join: Resolved) -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of both sides inside packets."""
    return encoded(join.left_schema, join.left_by), encoded(needed_right(join), join.right_by)
