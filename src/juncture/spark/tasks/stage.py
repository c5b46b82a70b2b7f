"""What a Spark task runs: a stage of a join, which turns the batches of a partition into others.

What all stages have in common is here: a context with one thread and the memory of a task, and errors that the user can
mend, which leave a task as data. An exception would make Spark try the task again, and then show a traceback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import JunctureError
from juncture.runtime.context import JoinContext, join_context
from juncture.spark.tasks.output import TaskOutput
from juncture.spark.tasks.packets import Packet, error_packet, write_packets
from juncture.spark.tasks.worker import settle


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """What a task does with its partition, as ``mapInArrow`` takes it.

    Attributes
    ----------
    memory_bytes
        How much a task may hold.
    """

    memory_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what becomes of a partition."""
        settle()
        try:
            with join_context(threads=1, memory_bytes=self.memory_bytes) as context:
                yield from self._written(batches, context)
        except JunctureError as error:
            yield from self._failed(error)

    @abstractmethod
    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield what the stage makes, as batches."""

    @abstractmethod
    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as a batch."""


class PacketStage(Stage):
    """A stage whose rows go on to partitions of the next one."""

    @abstractmethod
    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield packets, given what Spark hands over and what the task may use."""

    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        return write_packets(self.packets(batches, context))

    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        return write_packets([error_packet(error)])


@dataclass(frozen=True, kw_only=True)
class OutputStage(Stage):
    """A stage whose rows are rows of the result.

    Attributes
    ----------
    output
        What Spark expects.
    """

    output: TaskOutput

    @abstractmethod
    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield rows of the result, given what Spark hands over and what the task may use."""

    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        return self.output.batches(self.tables(batches, context))

    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        return self.output.failure(error)
