"""The rows of one partition: received packets, stored so that they can be read repeatedly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFile
from juncture.spark.tasks.engine import JOIN_SHARE, RECEIVED_SHARE
from juncture.spark.tasks.packets import Content, Packet, decoded, read_packets, widened, widened_bytes
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_PART_ROWS = 1 << 18

_PART_SHARE = 1 / 8  # largest part as a share of the memory: a part is read whole, beside everything in memory

_SPILLED = pa.schema([("rows", pa.binary())])


class PacketStore:
    """The rows of many packets of one side, in memory up to the context's limit and then in the spill folder.

    Each packet has its own dictionaries, so packets are stored as bytes and not as batches of one schema.
    """

    def __init__(self, schema: pa.Schema, context: JoinContext) -> None:
        self.schema = schema
        self.part_rows: list[int] = []  # row counts of the parts
        self._parts: list[list[pa.Table | int]] = []
        self._spill = context.spill
        self._memory = context.memory
        self._part_bytes = int(context.memory.total_bytes * _PART_SHARE)
        self._bytes = self._last_part_bytes = 0
        self._file: SpillFile | None = None
        self._spilled = 0

    def add(self, packet: Packet) -> None:
        """Store a packet; raise `StateError` if it cannot be spilled."""
        assert packet.cell is not None
        widened_by = widened_bytes(packet.carried)
        self._bytes += packet.cell.size + widened_by
        if self._file is None and self._memory.hold(packet.cell.size):
            stored: pa.Table | int = packet.carried
        else:
            if self._file is None:
                self._file = self._spill.file(_SPILLED)
            offsets = pa.array([0, packet.cell.size], pa.int32()).buffers()[1]
            cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, packet.cell])
            self._file.write(pa.record_batch([cell], schema=_SPILLED))
            stored, self._spilled = self._spilled, self._spilled + 1
        rows, size = packet.carried.num_rows, packet.cell.size + widened_by
        self._last_part_bytes += size
        if not self._parts or self.part_rows[-1] + rows > _PART_ROWS or self._last_part_bytes > self._part_bytes:
            self._parts.append([])
            self.part_rows.append(0)
            self._last_part_bytes = size
        self._parts[-1].append(stored)
        self.part_rows[-1] += rows

    def finish(self) -> None:
        """End writing, so that the rows can be read."""
        if self._file is not None:
            self._file.finish()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of some columns, assuming equal sizes."""
        return self._bytes * len(columns) // max(len(self.schema), 1)

    def part(self, part: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of a part as one batch, since a batch costs its reader as much as thousands of rows."""
        tables = [widened(self._table(stored).select(columns)) for stored in self._parts[part]]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if len(tables) > 1 else tables[0]

    def _table(self, stored: pa.Table | int) -> pa.Table:
        if isinstance(stored, pa.Table):
            return stored
        assert self._file is not None
        # Read to the end, so that the file updates its statistics and releases unused memory.
        [batch] = self._file.read([stored])
        return decoded(batch.column(0)[0].as_buffer())


class ChainedRows(Source):
    """The rows of some stores in sequence."""

    def __init__(self, stores: Sequence[PacketStore]) -> None:
        self.schema = stores[0].schema
        self._parts = [(store, part) for store in stores for part in range(len(store.part_rows))]
        self.part_rows = [store.part_rows[part] for store, part in self._parts]
        self._stores = stores

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        yield from self._part(part, columns).to_batches()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the approximate bytes of some columns."""
        return sum(store.bytes_of(columns) for store in self._stores)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, part by part."""
        for part in range(len(self.part_rows)):
            yield self._part(part, self.schema.names)

    def take(self, rows: Ints) -> Iterator[pa.Table]:
        """Yield the rows of ascending numbers, part by part."""
        for part in range(len(self.part_rows)):
            start, end = self.bounds[part], self.bounds[part + 1]
            wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(wanted):
                yield self._part(part, self.schema.names).take(wanted - start)

    def filter(self, wanted: Mask) -> Iterator[pa.Table]:
        """Yield the rows of a mask, part by part."""
        return self.take(np.flatnonzero(wanted))

    def _part(self, part: int, columns: Sequence[str]) -> pa.Table:
        store, inner = self._parts[part]
        # A table without columns has no rows.
        return store.part(inner, list(columns) or self.schema.names[:1]).select(list(columns))


class PartitionRows:
    """The rows of a partition by side and content, spilled beyond their share; `joining` is the context for joins."""

    def __init__(self, join: Resolved, context: JoinContext) -> None:
        self.target = 0
        self._stores: dict[tuple[str | None, Content], PacketStore] = {}
        schemas: dict[Side, pa.Schema] = {"left": join.left_schema, "right": join.right_schema}
        for side, schema in schemas.items():
            received = context.within(context.memory.reserve(f"{side} rows received", RECEIVED_SHARE))
            for content in (Content.OWNED, Content.SPLIT, Content.COPY):
                self._stores[side, content] = PacketStore(schema, received)
        self.joining = context.within(context.memory.reserve("join", JOIN_SHARE))

    @classmethod
    def of(cls, join: Resolved, batches: Iterable[pa.RecordBatch], context: JoinContext) -> PartitionRows:
        """Return the rows of a partition that receives no result rows."""
        partition = cls(join, context)
        for _ in partition.receive(batches):
            raise AssertionError("there is no stage before that gives rows out")
        return partition

    def receive(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Read Spark's batches, and yield result rows among them; raise the error of an earlier task."""
        for packet in read_packets(batches):
            self.target = packet.target
            if packet.content is Content.OUTPUT:
                yield packet.rows
            else:
                self._stores[packet.side, packet.content].add(packet)
        for store in self._stores.values():
            store.finish()

    def rows(self, side: Side, *contents: Content) -> ChainedRows:
        """Return rows of a side by content."""
        return ChainedRows([self._stores[side, content] for content in contents])

    def count(self, side: Side, *contents: Content) -> int:
        """Return the number of rows of a side with some contents."""
        return self.rows(side, *contents).num_rows
