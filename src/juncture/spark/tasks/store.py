"""Packets that a task has received, kept so that the in-process engine can read them again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFile
from juncture.spark.tasks.packets import Packet, decoded

__all__ = ["PacketStore"]

_PART_ROWS = 1 << 18

_PART_SHARE = 1 / 8
"""What a part takes of the memory, at most: it is read as a whole, beside all that is held."""

_SPILLED = pa.schema([("rows", pa.binary())])


class PacketStore(Source):
    """The rows of many packets of one side.

    Packets stay as they came: in memory, up to a limit, and beyond it in the spill folder. Each has its own
    dictionaries, so they are stored as bytes, and not as batches of one schema.

    Parameters
    ----------
    schema
        Of all packets.
    context
        What may be used, all of whose memory is for packets.
    number
        The name of a further column, with the number of each row; none if it is empty.
    """

    def __init__(self, schema: pa.Schema, context: JoinContext, number: str = "") -> None:
        self.schema = schema.append(pa.field(number, pa.int64())) if number else schema
        self.part_rows: list[int] = []
        self._number = number
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
        self._bytes += packet.cell.size
        if self._file is None and self._memory.hold(packet.cell.size):
            kept: pa.Table | int = packet.rows
        else:
            if self._file is None:
                self._file = self._spill.file(_SPILLED)
            offsets = pa.array([0, packet.cell.size], pa.int32()).buffers()[1]
            cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, packet.cell])
            self._file.write(pa.record_batch([cell], schema=_SPILLED))
            kept, self._spilled = self._spilled, self._spilled + 1
        rows = packet.rows.num_rows
        self._last_part_bytes += packet.cell.size
        if not self._parts or self.part_rows[-1] + rows > _PART_ROWS or self._last_part_bytes > self._part_bytes:
            self._parts.append([])
            self.part_rows.append(0)
            self._last_part_bytes = packet.cell.size
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

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        yield from self._whole(part, columns).to_batches()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of some columns, as if all took the same."""
        return self._bytes * len(columns) // max(len(self.schema), 1)

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, part by part."""
        for part in range(len(self._parts)):
            yield self._whole(part, self.schema.names)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return some rows, given by ascending numbers."""
        parts = [self.schema.empty_table()]
        for part in range(len(self._parts)):
            start, end = self.bounds[part], self.bounds[part + 1]
            wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(wanted):
                parts.append(self._whole(part, self.schema.names).take(wanted - start))
        return pa.concat_tables(parts)

    def _whole(self, part: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of a part as one batch: to its reader, a batch costs as much as thousands of rows."""
        tables = [self._table(kept) for kept in self._parts[part]]
        whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks() if len(tables) > 1 else tables[0]
        if self._number:
            numbers = np.arange(self.bounds[part], self.bounds[part + 1])
            whole = whole.append_column(self._number, pa.array(numbers, pa.int64()))
        return whole.select(columns)

    def _table(self, kept: pa.Table | int) -> pa.Table:
        if isinstance(kept, pa.Table):
            return kept
        assert self._file is not None
        batch = next(self._file.read([kept], [0]))
        return decoded(batch.column(0)[0].as_buffer())
