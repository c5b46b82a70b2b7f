"""Stages of a join: what a Spark task runs to turn the batches of a partition into others.

Common to all stages: a context with one thread and the memory of a task, and expected errors as data. An exception
would make Spark retry the task and then print a traceback.
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
    """A function of a partition, for ``mapInArrow``, within `memory_bytes`."""

    memory_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output of a partition."""
        settle()
        try:
            with join_context(threads=1, memory_bytes=self.memory_bytes) as context:
                yield from self._written(batches, context)
        except JunctureError as error:
            yield from self._failed(error)

    @abstractmethod
    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the output as batches."""

    @abstractmethod
    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as a batch."""


class PacketStage(Stage):
    """A stage whose rows go to partitions of the next one."""

    @abstractmethod
    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield packets from Spark's batches."""

    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        return write_packets(self.packets(batches, context))

    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        return write_packets([error_packet(error)])


@dataclass(frozen=True, kw_only=True)
class OutputStage(Stage):
    """A stage that returns rows of the result."""

    output: TaskOutput

    @abstractmethod
    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield rows of the result from Spark's batches."""

    def _written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        return self.output.batches(self.tables(batches, context))

    def _failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        return self.output.failure(error)
