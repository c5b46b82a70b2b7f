"""Stages of a join: what a Spark task runs to turn the batches of a partition into others.

Common to all stages: a context with one thread and the memory of a task, and expected errors as data. An exception
would make Spark retry the task and then print a traceback.
"""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import JunctureError
from juncture.runtime.context import JoinContext, join_context
from juncture.spark.tasks.packets import Packet, error_packet, write_packets

_frozen_modules = 0


def freeze_imports() -> None:
    """Exclude imported objects from garbage collection, which Spark's workers run after each task.

    Our imports create more than 100,000 permanent objects, whose traversal took as long as a small task.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.collect()
        gc.freeze()


_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """A function of a partition, for ``mapInArrow``, within `memory_bytes`."""

    memory_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output of a partition."""
        freeze_imports()
        try:
            with join_context(threads=1, memory_bytes=self.memory_bytes) as context:
                yield from self.written(batches, context)
        except JunctureError as error:
            yield from self.failed(error)

    @abstractmethod
    def written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the output as batches."""

    @abstractmethod
    def failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as a batch."""


class PacketStage(Stage):
    """A stage whose rows go to partitions of the next one."""

    @abstractmethod
    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield packets from Spark's batches."""

    def written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield packets as batches."""
        return write_packets(self.packets(batches, context))

    def failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as a packet."""
        return write_packets([error_packet(error)])


@dataclass(frozen=True, kw_only=True)
class OutputStage(Stage):
    """A stage that returns rows of the result, of the types in `output`, with an additional last column for an error.

    An exception in a task would reach the user as a traceback of Spark's worker. Expected errors are therefore rows,
    which the query turns into an error of one sentence.
    """

    output: pa.Schema

    @abstractmethod
    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield rows of the result from Spark's batches."""

    def written(self, batches: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Spark expects them."""
        for table in self.tables(batches, context):
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(table.columns, self.output, strict=True)
            ]
            result = pa.table([*columns, pa.nulls(table.num_rows, pa.string())], schema=self._wire)
            yield from result.to_batches(max_chunksize=_BATCH_ROWS)

    def failed(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as one row, with its class and message on one line."""
        text = f"{type(error).__module__}.{type(error).__name__}: {' '.join(str(error).split())}"
        nothing = (pa.nulls(1, field.type) for field in self.output)
        yield pa.record_batch([*nothing, pa.array([text])], schema=self._wire)

    @property
    def _wire(self) -> pa.Schema:
        return self.output.append(pa.field("error", pa.string()))
