"""Joins of a large side, task by task, with a small one that every task has whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError
from juncture.kernels.array_types import Ints
from juncture.spark.tasks import engine
from juncture.spark.tasks.broadcast_table import Small
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content, Packet, error_packet, raise_error, read_packets, write_packets
from juncture.spec.asof import Asof

__all__ = ["Choose", "JoinRight", "ProbeLeft", "candidates"]

_ROW = "juncture:left"


@dataclass(frozen=True)
class JoinRight:
    """Joins the left rows of a task with the whole right side.

    Attributes
    ----------
    spec
        What the join means.
    feed
        The left rows.
    right, right_columns
        The right side, and what is needed of it.
    memory_bytes
        How much a task may hold.
    output
        What Spark expects.
    """

    spec: Asof
    feed: Feed
    right: Small
    right_columns: tuple[str, ...]
    memory_bytes: int
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        with engine.task_context(self.memory_bytes) as context:
            for chunk in self.feed.chunks(batches):
                yield from engine.join(self.spec, chunk, self.right.table(self.right_columns), context)


@dataclass(frozen=True)
class ProbeLeft:
    """Finds the best right rows of a task for each row of the whole left side.

    Attributes
    ----------
    spec
        What the join means.
    feed, by
        The right rows, and their key columns.
    left, left_columns
        The left side, and what matching needs of it.
    targets
        How many partitions the left rows are cut into.
    memory_bytes
        How much a task may hold.
    """

    spec: Asof
    feed: Feed
    by: tuple[str, ...]
    left: Small
    left_columns: tuple[str, ...]
    targets: int
    memory_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packets of right rows with the left rows that want them."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        try:
            with engine.task_context(self.memory_bytes) as context:
                right = self.feed.source(batches, context)
                left = self.left.table(self.left_columns)
                joining = context.within(context.memory.reserve("join", JOIN_SHARE))
                found, rows = engine.match(self._probe_spec, left, right, joining)
                schema = candidates(self.feed.schema, self.by, self.spec.on_pair()[1])
                kept = engine.take(right, schema.names[:-1], rows, context)
                yield from self._cut(found, kept.append_column(_ROW, pa.array(found)).cast(schema))
        except JunctureError as error:
            yield error_packet(error)

    @property
    def _probe_spec(self) -> Asof:
        """What is asked of one task. Whether a tie has to be decided shows when all have had their say."""
        if self.spec.ties == "error":
            return replace(self.spec, how="inner", matches=self.spec.matches + 1, ties="greatest")
        return self.spec if self.spec.how in ("semi", "anti") else replace(self.spec, how="inner")

    def _cut(self, found: Ints, rows: pa.Table) -> Iterator[Packet]:
        for target in range(self.targets):
            first, end = _range(target, self.targets, self.left.num_rows)
            start, stop = np.searchsorted(found, [first, end])
            if start < stop:
                yield Packet(target, Content.RIGHT, rows.slice(start, stop - start))


def candidates(right: pa.Schema, by: tuple[str, ...], on: str) -> pa.Schema:
    """Return the schema of the right rows that are sent on, to left rows and no longer to keys."""
    kept = [field for field in right if field.name not in by or field.name == on]
    return pa.schema([*kept, pa.field(_ROW, pa.int64())])


def _range(target: int, targets: int, rows: int) -> tuple[int, int]:
    """Return the left rows of a partition."""
    return rows * target // targets, rows * (target + 1) // targets


@dataclass(frozen=True)
class Choose:
    """Chooses, for the left rows of a partition, the best of what the tasks have found.

    Attributes
    ----------
    spec
        What the join means.
    left
        The left side.
    right
        The schema of the candidates.
    targets
        How many partitions there are.
    names
        The columns of the result.
    memory_bytes
        How much a task may hold.
    output
        What Spark expects.
    """

    spec: Asof
    left: Small
    right: pa.Schema
    targets: int
    names: tuple[str, ...]
    memory_bytes: int
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        right, target = [self.right.empty_table()], None
        for packet in read_packets(batches):
            target = packet.target
            if packet.content is Content.RIGHT:
                right.append(packet.rows)
            elif packet.content is not Content.EMPTY:
                raise_error(packet)
        if target is None:
            return
        first, end = _range(target, self.targets, self.left.num_rows)
        left = self.left.slice(first, end).append_column(_ROW, pa.array(np.arange(first, end)))
        # What a row was matched by counts no longer: each left row is a key of its own now.
        order_by = [name for name in self.spec.order_columns() if name in self.right.names]
        spec = replace(self.spec, by=_ROW, left_by=None, right_by=None, order_by=order_by)
        with engine.task_context(self.memory_bytes) as context:
            for rows in engine.join(spec, left, pa.concat_tables(right), context):
                yield rows.select(list(self.names))
