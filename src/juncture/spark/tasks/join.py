"""The reduce side of a shuffle: join the rows of one partition, with what others have carried to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.engine import JOIN_SHARE, RECEIVED_SHARE
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content, Packet, raise_error, read_packets
from juncture.spark.tasks.store import PacketStore
from juncture.spec.asof import Asof

__all__ = ["Gather", "Partition", "Task"]


@dataclass(frozen=True)
class Task:
    """What a partition's task has to know of a join.

    Attributes
    ----------
    spec
        What it means.
    left, right
        The schemas of the sides as they come in packets.
    memory_bytes
        How much a task may hold.
    """

    spec: Asof
    left: pa.Schema
    right: pa.Schema
    memory_bytes: int


class Partition:
    """The rows of one partition. Those that do not fit are in the spill folder.

    Parameters
    ----------
    batches
        What Spark hands over: packets.
    task, context
        The join, and what it may use.
    left_number, right_number
        The names of columns that number the rows of a side, the carried ones last; none if empty.

    Attributes
    ----------
    target
        Its number.
    left, right
        The rows of both sides.
    own_rows
        How many of the right ones are not carried.
    carried
        Those that are.
    joining
        What the join of both may use.

    Raises
    ------
    JunctureError
        If one of the tasks before failed with it, or there is no room to spill.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        task: Task,
        context: JoinContext,
        *,
        left_number: str = "",
        right_number: str = "",
    ) -> None:
        self.target = 0
        received = {
            side: context.within(context.memory.reserve(f"{side} rows received", RECEIVED_SHARE))
            for side in ("left", "right")
        }
        self.joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        self.left = PacketStore(task.left, received["left"], left_number)
        self.right = PacketStore(task.right, received["right"], right_number)
        carried = list[Packet]()
        for packet in read_packets(batches):
            self.target = packet.target
            if packet.content is Content.LEFT:
                self.left.add(packet)
            elif packet.content is Content.RIGHT:
                self.right.add(packet)
            elif packet.content is Content.CARRIED:
                carried.append(packet)
            else:
                raise_error(packet)
        self.left.finish()
        self.own_rows = sum(self.right.part_rows)
        self.carried = pa.concat_tables([task.right.empty_table(), *(packet.rows for packet in carried)])
        for packet in carried:
            self.right.add(packet)
        self.right.finish()


@dataclass(frozen=True)
class Gather:
    """Joins the rows of one partition.

    Attributes
    ----------
    task
        The join.
    output
        What Spark expects.
    """

    task: Task
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        with engine.task_context(self.task.memory_bytes) as context:
            partition = Partition(batches, self.task, context)
            yield from engine.join(self.task.spec, partition.left, partition.right, partition.joining)
