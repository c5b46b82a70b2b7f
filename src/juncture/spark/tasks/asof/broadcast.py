"""As-of joins of a left side that every task has as a whole: candidates from each task, of which the best one wins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, read_packets
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.asof import Asof

_ROW = "juncture:left"


@dataclass(frozen=True)
class ProbeLeft(PacketStage):
    """Finds the best right rows of a task for each row of the whole left side.

    Attributes
    ----------
    feed, by
        The right rows, and their key columns.
    spec
        What the join means.
    left, left_columns
        The left side, and what matching needs of it.
    targets
        How many partitions the left rows are cut into.
    """

    feed: Feed
    by: tuple[str, ...]
    spec: Asof
    left: BroadcastTable
    left_columns: tuple[str, ...]
    targets: int

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield right rows with the left rows that want them."""
        right = self.feed.source(batches, context)
        left = self.left.table(self.left_columns)
        joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        found, rows = engine.match(self._probe_spec, left, right, joining)
        schema = candidates(self.feed.schema, self.by, self.spec)
        kept = engine.take(right, schema.names[:-1], rows, context)
        yield from self._cut(found, kept.append_column(_ROW, pa.array(found)).cast(schema))

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
                yield Packet(target, Content.OWNED, rows.slice(start, stop - start), "right")


def candidates(right: pa.Schema, by: tuple[str, ...], spec: Asof) -> pa.Schema:
    """Return the schema of the right rows that are sent on, to left rows and no longer to keys."""
    pairs = [spec.on_pair(), spec.known_pair()]
    ranked = [pair[1] for pair in pairs if pair is not None]
    kept = [field for field in right if field.name not in by or field.name in ranked]
    return pa.schema([*kept, pa.field(_ROW, pa.int64())])


def _range(target: int, targets: int, rows: int) -> tuple[int, int]:
    """Return the left rows of a partition."""
    return rows * target // targets, rows * (target + 1) // targets


@dataclass(frozen=True)
class ChooseCandidates(OutputStage):
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
    """

    spec: Asof
    left: BroadcastTable
    right: pa.Schema
    targets: int
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        right, target = [self.right.empty_table()], None
        for packet in read_packets(batches):
            target = packet.target
            if packet.content is Content.OWNED:
                right.append(packet.rows)
        if target is None:
            return
        first, end = _range(target, self.targets, self.left.num_rows)
        left = self.left.slice(first, end).append_column(_ROW, pa.array(np.arange(first, end)))
        # What a row was matched by counts no longer: each left row is a key of its own now.
        order_by = [name for name in self.spec.order_columns() if name in self.right.names]
        spec = replace(self.spec, by=_ROW, left_by=None, right_by=None, order_by=order_by)
        for rows in engine.join(spec, left, pa.concat_tables(right), context):
            yield rows.select(list(self.names))
