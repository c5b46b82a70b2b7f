"""Packets: many rows of any table as one row of another, so that a shuffle moves bytes and not rows.

Spark's shuffle writes, hashes and reads row by row, and converts every row to Arrow again for Python. A packet is an
Arrow stream in one binary cell with its target partition and content type. A row then costs the copying of its bytes,
and both sides of a join fit into one DataFrame, whatever their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from juncture.errors import JunctureError, error_of
from juncture.spark.tasks.narrow import widened

PACKET_SCHEMA = pa.schema(
    [("target", pa.int32()), ("content", pa.string()), ("side", pa.string()), ("rows", pa.binary())]
)

_NOTHING = pa.table({})
_BATCH_BYTES = 8 * 1024 * 1024
"""Approximate bytes of packets per batch: the JVM buffers them in scarce direct memory."""


class Content(StrEnum):
    """The content of a packet."""

    OWNED = "owned"
    """Rows of a side, in the partition that owns them."""
    SPLIT = "split"
    """Owned rows that have copies in other partitions."""
    COPY = "copy"
    """Copies of rows that another partition owns."""
    UNMATCHED = "unmatched"
    """Rows without a match in the partition that owns them, which another one may have matched."""
    MARK = "mark"
    """Match marks: rows that agree with one of them in all of its columns have a match in another partition."""
    OUTPUT = "output"
    """Rows of the result."""
    ERROR = "error"
    """The class and the message of an error."""
    FRONTIER = "frontier"
    """The progress of a side of a stream."""
    EMPTY = "empty"
    """No rows: an empty packet starts the task of its partition."""


@dataclass(frozen=True)
class Packet:
    """Rows for the partition `target`; `carried` are the rows with narrow integers, and `cell` the bytes received."""

    target: int
    content: Content
    carried: pa.Table
    side: str | None = None
    cell: pa.Buffer | None = None

    @property
    def rows(self) -> pa.Table:
        """The rows with their original types."""
        return widened(self.carried)


def write_packets(packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
    """Convert packets to record batches of `PACKET_SCHEMA`, each of a few megabytes."""
    sink, ends, batch = pa.BufferOutputStream(), [0], list[Packet]()
    for packet in packets:
        with pa.ipc.new_stream(sink, packet.carried.schema) as stream:
            stream.write_table(packet.carried)
        ends.append(sink.tell())
        batch.append(Packet(packet.target, packet.content, _NOTHING, packet.side))
        if ends[-1] >= _BATCH_BYTES:
            yield _batch(batch, ends, sink.getvalue())
            sink, ends, batch = pa.BufferOutputStream(), [0], []
    if batch:
        yield _batch(batch, ends, sink.getvalue())


def _batch(packets: list[Packet], ends: list[int], data: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array(ends, np.int32))
    columns = [
        pa.array([packet.target for packet in packets], pa.int32()),
        pa.array([packet.content for packet in packets], pa.string()),
        pa.array([packet.side for packet in packets], pa.string()),
        pa.Array.from_buffers(pa.binary(), len(packets), [None, offsets, data]),
    ]
    return pa.record_batch(columns, schema=PACKET_SCHEMA)


def read_packets(batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
    """Convert record batches to packets, whose columns are views of the batches; raise an error packet's error."""
    for batch in batches:
        *labels, cells = batch.columns
        for target, content, side, cell in zip(*(label.to_pylist() for label in labels), cells, strict=True):
            buffer = cell.as_buffer()
            packet = Packet(target, Content(content), decoded(buffer) if buffer is not None else _NOTHING, side, buffer)
            if packet.content is Content.ERROR:
                [error] = packet.rows.to_pylist()
                raise error_of(**error)
            yield packet


def decoded(cell: pa.Buffer) -> pa.Table:
    """Return the rows of a packet as views of its bytes."""
    return pa.ipc.open_stream(cell).read_all()


def error_packet(error: JunctureError) -> Packet:
    """Return a packet that makes the next stage fail with the same error."""
    told = {"kind": type(error).__name__, "message": error.message, "name": error.name}
    return Packet(0, Content.ERROR, pa.Table.from_pylist([told]))
