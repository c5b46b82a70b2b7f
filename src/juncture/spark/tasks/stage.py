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

_settled = 0


def settle() -> None:
    """Exclude imported objects from garbage collection.

    Spark's workers collect garbage after each task. The imports of this library create more than a hundred thousand
    permanent objects, whose traversal took as long as a small task.
    """
    global _settled
    if len(sys.modules) != _settled:
        _settled = len(sys.modules)
        gc.collect()
        gc.freeze()


_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TaskOutput:
    """Converts tables to the batches that Spark expects, with an additional last column for an error.

    An exception in a task would reach the user as a traceback of Spark's worker. Expected errors are therefore rows,
    which the query turns into an error of one sentence. `schema` excludes the error column.
    """

    schema: pa.Schema

    def batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield rows."""
        for table in tables:
            yield from self._wired(table).to_batches(max_chunksize=_BATCH_ROWS)

    def failure(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as one row, with its class and message on one line."""
        text = f"{type(error).__module__}.{type(error).__name__}: {' '.join(str(error).split())}"
        yield pa.record_batch(
            [*(pa.nulls(1, field.type) for field in self.schema), pa.array([text])], schema=self._wire
        )

    @property
    def _wire(self) -> pa.Schema:
        return self.schema.append(pa.field("error", pa.string()))

    def _wired(self, table: pa.Table) -> pa.Table:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(table.columns, self.schema, strict=True)
        ]
        return pa.table([*columns, pa.nulls(table.num_rows, pa.string())], schema=self._wire)


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
