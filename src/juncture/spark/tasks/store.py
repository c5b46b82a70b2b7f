"""The rows of one partition: packets that a task has received, kept so that they can be read again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFile
from juncture.spark.tasks.engine import JOIN_SHARE, RECEIVED_SHARE
from juncture.spark.tasks.narrow import widened, widened_bytes
from juncture.spark.tasks.packets import Content, Packet, decoded, read_packets
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

# Beside the user's own columns, so of names that nobody gives.
NUMBERS: dict[Side, str] = {"left": "juncture:left", "right": "juncture:right"}
"""What a side's column is called that numbers the rows of a partition."""

_PART_ROWS = 1 << 18

_PART_SHARE = 1 / 8
"""What a part takes of the memory, at most: it is read as a whole, beside all that is in memory."""

_SPILLED = pa.schema([("rows", pa.binary())])


class PacketStore:
    """The rows of many packets of one side.

    Packets stay as they came: in memory, up to a limit, and beyond it in the spill folder. Each has its own
    dictionaries, so they are stored as bytes, and not as batches of one schema.

    Parameters
    ----------
    schema
        Of all packets.
    context
        What may be used, all of whose memory is for packets.

    Attributes
    ----------
    part_rows
        The number of rows of each part.
    """

    def __init__(self, schema: pa.Schema, context: JoinContext) -> None:
        self.schema = schema
        self.part_rows: list[int] = []
        self._parts: list[list[pa.Table | int]] = []
        self._spill = context.spill
        self._memory = context.memory
        self._part_bytes = int(context.memory.total_bytes * _PART_SHARE)
        self._bytes = self._last_part_bytes = 0
        self._file: SpillFile | None = None
        self._spilled = 0

    def add(self, packet: Packet) -> None:
        """Keep a packet.

        Raises
        ------
        StateError
            If it does not fit in memory and there is no room to spill.
        """
        assert packet.cell is not None
        widened_by = widened_bytes(packet.carried)
        self._bytes += packet.cell.size + widened_by
        if self._file is None and self._memory.hold(packet.cell.size):
            kept: pa.Table | int = packet.carried
        else:
            if self._file is None:
                self._file = self._spill.file(_SPILLED)
            offsets = pa.array([0, packet.cell.size], pa.int32()).buffers()[1]
            cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, packet.cell])
            self._file.write(pa.record_batch([cell], schema=_SPILLED))
            kept, self._spilled = self._spilled, self._spilled + 1
        rows, size = packet.carried.num_rows, packet.cell.size + widened_by
        self._last_part_bytes += size
        if not self._parts or self.part_rows[-1] + rows > _PART_ROWS or self._last_part_bytes > self._part_bytes:
            self._parts.append([])
            self.part_rows.append(0)
            self._last_part_bytes = size
        self._parts[-1].append(kept)
        self.part_rows[-1] += rows

    def finish(self) -> None:
        """End writing, so that the rows can be read.

        Raises
        ------
        StateError
            If there is no room.
        """
        if self._file is not None:
            self._file.finish()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of some columns, as if all took the same."""
        return self._bytes * len(columns) // max(len(self.schema), 1)

    def part(self, part: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of a part as one batch: to its reader, a batch costs as much as thousands of rows."""
        tables = [widened(self._table(kept).select(columns)) for kept in self._parts[part]]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if len(tables) > 1 else tables[0]

    def _table(self, kept: pa.Table | int) -> pa.Table:
        if isinstance(kept, pa.Table):
            return kept
        assert self._file is not None
        # Read to the end: only then does the file take note of what went by, and give back what is unused.
        [batch] = self._file.read([kept], [0])
        return decoded(batch.column(0)[0].as_buffer())


class ChainedRows(Source):
    """The rows of some stores, one after the other.

    Parameters
    ----------
    stores
        The stores.
    number
        The name of a further column, with the number of each row; none if it is empty.
    """

    def __init__(self, stores: Sequence[PacketStore], number: str = "") -> None:
        schema = stores[0].schema
        self.schema = schema.append(pa.field(number, pa.int64())) if number else schema
        self._parts = [(store, part) for store in stores for part in range(len(store.part_rows))]
        self.part_rows = [store.part_rows[part] for store, part in self._parts]
        self._stores = stores
        self._stored = schema.names
        self._number = number

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        yield from self._part(part, columns).to_batches()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take."""
        return sum(store.bytes_of([name for name in columns if name != self._number]) for store in self._stores)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, part by part."""
        for part in range(len(self.part_rows)):
            yield self._part(part, self.schema.names)

    def take(self, rows: Ints) -> Iterator[pa.Table]:
        """Yield some rows, given by ascending numbers, part by part and without their numbers."""
        for part in range(len(self.part_rows)):
            start, end = self.bounds[part], self.bounds[part + 1]
            wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(wanted):
                yield self._part(part, self._stored).take(wanted - start)

    def filter(self, wanted: Mask) -> Iterator[pa.Table]:
        """Yield the rows of a mask, part by part and without their numbers."""
        return self.take(np.flatnonzero(wanted))

    def _part(self, part: int, columns: Sequence[str]) -> pa.Table:
        store, inner = self._parts[part]
        # Without a column there would be no rows.
        table = store.part(inner, [name for name in columns if name != self._number] or self._stored[:1])
        if self._number in columns:
            numbers = np.arange(self.bounds[part], self.bounds[part + 1])
            table = table.append_column(self._number, pa.array(numbers, pa.int64()))
        return table.select(list(columns))


class PartitionRows:
    """The rows of one partition, by side and content. What exceeds their share of the memory is in the spill folder.

    Parameters
    ----------
    join, context
        The join, with the schemas of the rows as they come in packets, and what it may use.

    Attributes
    ----------
    target
        The number of the partition.
    joining
        What joins of its rows may use.
    """

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
        """Return the rows of a partition to which none are sent that are ready.

        Raises
        ------
        JunctureError
            As `receive` does.
        """
        partition = cls(join, context)
        for _ in partition.receive(batches):
            raise AssertionError("there is no stage before that gives rows out")
        return partition

    def receive(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Take what Spark hands over, and yield what of it is ready to be given out.

        Raises
        ------
        JunctureError
            If one of the tasks before failed with it, or there is no room to spill.
        """
        for packet in read_packets(batches):
            self.target = packet.target
            if packet.content is Content.OUTPUT:
                yield packet.rows
            else:
                self._stores[packet.side, packet.content].add(packet)
        for store in self._stores.values():
            store.finish()

    def rows(self, side: Side, *contents: Content, numbered: bool = False) -> ChainedRows:
        """Return some rows of a side, one content after the other, with a column of their numbers if asked for."""
        return ChainedRows([self._stores[side, content] for content in contents], NUMBERS[side] if numbered else "")

    def count(self, side: Side, *contents: Content) -> int:
        """Return how many rows of a side have some contents."""
        return self.rows(side, *contents).num_rows
