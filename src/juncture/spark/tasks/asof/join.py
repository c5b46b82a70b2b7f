"""The reduce side of a shuffle: join the rows of one partition, with what others have carried to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.runtime.spill import SpillFolder
from juncture.spark.tasks import engine
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
        How many bytes of right rows are kept in memory.
    """

    spec: Asof
    left: pa.Schema
    right: pa.Schema
    memory_bytes: int


class Partition:
    """The rows of one partition. Right rows beyond a limit are in the spill folder.

    Parameters
    ----------
    batches
        What Spark hands over: packets.
    task, spill
        How and where to keep them.
    number
        The name of a column that numbers the right rows, the carried ones last.

    Raises
    ------
    JunctureError
        If one of the tasks before failed with it, or there is no room to spill.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], task: Task, spill: SpillFolder, number: str = "") -> None:
        self.target = 0
        self.right = PacketStore(task.right, spill, task.memory_bytes, number)
        left, carried = [task.left.empty_table()], list[Packet]()
        for packet in read_packets(batches):
            self.target = packet.target
            if packet.content is Content.LEFT:
                left.append(packet.rows)
            elif packet.content is Content.RIGHT:
                self.right.add(packet)
            elif packet.content is Content.CARRIED:
                carried.append(packet)
            else:
                raise_error(packet)
        self.left = pa.concat_tables(left)
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
        with SpillFolder() as spill:
            partition = Partition(batches, self.task, spill)
            yield engine.join(self.task.spec, partition.left, partition.right)
