"""As-of joins with the whole left side in every task: each task finds candidates, and the best candidate matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import TableSource
from juncture.spark.tasks import engine
from juncture.spark.tasks.broadcast_table import BroadcastTable
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, read_packets
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.asof import Asof, ResolvedAsof

_ROW = "juncture:left"


@dataclass(frozen=True)
class ProbeLeft(PacketStage):
    """Finds a task's best right rows for each row of the whole left side; left rows form `targets` partitions."""

    feed: Feed
    join: ResolvedAsof
    left: BroadcastTable
    left_columns: tuple[str, ...]
    targets: int

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield candidate right rows with their left rows."""
        right = self.feed.source(batches, context)
        left = self.left.table(self.left_columns)
        joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        spec = self._probe_spec
        probing = replace(self.join, spec=spec, how=spec.how).over(left.schema, right.schema)
        found, rows = engine.match(probing, left, right, joining)
        schema = candidates(self.feed.schema, self.join)
        kept = engine.take(right, schema.names[:-1], rows, context)
        yield from self._cut(found, kept.append_column(_ROW, pa.array(found)).cast(schema))

    @property
    def _probe_spec(self) -> Asof:
        """The join of one task. With ``ties="error"`` it keeps one more match, to detect ties across tasks."""
        spec = self.join.spec
        if spec.ties == "error":
            return replace(spec, how="inner", matches=spec.matches + 1, ties="greatest")
        return spec if spec.how in ("semi", "anti") else replace(spec, how="inner")

    def _cut(self, found: Ints, rows: pa.Table) -> Iterator[Packet]:
        for target in range(self.targets):
            first, end = _range(target, self.targets, self.left.num_rows)
            start, stop = np.searchsorted(found, [first, end])
            if start < stop:
                yield Packet(target, Content.OWNED, rows.slice(start, stop - start), "right")


def candidates(right: pa.Schema, join: ResolvedAsof) -> pa.Schema:
    """Return the schema of candidates, which are keyed by left row rather than by key."""
    needed = _by_row(join).needed("right")
    return pa.schema([*(field for field in right if field.name in needed), pa.field(_ROW, pa.int64())])


def _by_row(join: ResolvedAsof) -> ResolvedAsof:
    """Return the join of left rows with their candidates: each left row is its own key."""
    return replace(join, left_by=(_ROW,), right_by=(_ROW,))


def _range(target: int, targets: int, rows: int) -> tuple[int, int]:
    """Return the left rows of a partition."""
    return rows * target // targets, rows * (target + 1) // targets


@dataclass(frozen=True)
class ChooseCandidates(OutputStage):
    """Chooses the best candidates for the left rows of a partition."""

    join: ResolvedAsof
    left: BroadcastTable
    right: pa.Schema
    targets: int
    names: tuple[str, ...]

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        received, target = [self.right.empty_table()], None
        for packet in read_packets(batches):
            target = packet.target
            if packet.content is Content.OWNED:
                received.append(packet.rows)
        if target is None:
            return
        first, end = _range(target, self.targets, self.left.num_rows)
        left = self.left.slice(first, end).append_column(_ROW, pa.array(np.arange(first, end)))
        spec, right = self.join.spec, pa.concat_tables(received)
        spec = replace(spec, order_by=[name for name in spec.order_columns() if name in self.right.names])
        by_row = replace(_by_row(self.join), spec=spec).over(left.schema, right.schema)
        for rows in engine.execute(by_row, TableSource(left), TableSource(right), context):
            yield rows.select(list(self.names))
