"""Packets: many rows of any table as one row of another, so that a shuffle moves bytes and not rows.

Spark's shuffle writes, hashes and reads row by row, and turns every row into Arrow once more for Python. A packet is an
Arrow stream in one binary cell beside the number of the partition that it goes to and what it holds, so the cost of a
row is that of copying its bytes, and both sides of a join, whatever their columns, fit into one DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from juncture import errors
from juncture.errors import JunctureError

__all__ = [
    "PACKET_COLUMNS",
    "PACKET_SCHEMA",
    "Content",
    "Packet",
    "error_packet",
    "raise_error",
    "read_packets",
    "write_packets",
]

PACKET_SCHEMA = pa.schema([("target", pa.int32()), ("content", pa.int8()), ("rows", pa.binary())])
PACKET_COLUMNS = "target int, content tinyint, rows binary"
"""The same in Spark's words."""

_NOTHING = pa.table({})
_BATCH_BYTES = 8 * 1024 * 1024
"""About how many bytes of packets go to the JVM at a time: it holds them in direct memory, of which it has little."""


class Content(IntEnum):
    """What a packet holds."""

    LEFT = 0
    RIGHT = 1
    CARRIED = 2
    """Right rows of other partitions that rows of this one may match."""
    OUTPUT = 3
    """Rows of the result."""
    PENDING = 4
    """Right rows that another partition may have matched."""
    TAKEN = 5
    """What another partition says about them."""
    ERROR = 6
    """A message."""
    EMPTY = 7
    """Nothing: its partition has to know that it is there."""
    LEFT_SPLIT = 8
    """Left rows that have copies in other partitions, in the one where they start."""
    LEFT_COPY = 9
    """Their copies."""
    RIGHT_SPLIT = 10
    """Right rows that have copies in other partitions, in the one where they start."""
    RIGHT_COPY = 11
    """Their copies."""
    PENDING_LEFT = 12
    """Left rows that another partition may have matched."""
    TAKEN_LEFT = 13
    """What decides of left rows that were matched."""


@dataclass(frozen=True)
class Packet:
    """Rows on their way to a partition."""

    target: int
    content: Content
    rows: pa.Table
    cell: pa.Buffer | None = None
    """The same rows as they came."""


def write_packets(packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
    """Turn packets into record batches of `PACKET_SCHEMA`, each of a few megabytes."""
    sink, ends, targets, contents = pa.BufferOutputStream(), [0], [], []
    for packet in packets:
        with pa.ipc.new_stream(sink, packet.rows.schema) as stream:
            stream.write_table(packet.rows)
        ends.append(sink.tell())
        targets.append(packet.target)
        contents.append(int(packet.content))
        if ends[-1] >= _BATCH_BYTES:
            yield _batch(targets, contents, ends, sink.getvalue())
            sink, ends, targets, contents = pa.BufferOutputStream(), [0], [], []
    if targets:
        yield _batch(targets, contents, ends, sink.getvalue())


def _batch(targets: list[int], contents: list[int], ends: list[int], data: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array(ends, np.int32))
    rows = pa.Array.from_buffers(pa.binary(), len(targets), [None, offsets, data])
    columns = [pa.array(targets, pa.int32()), pa.array(contents, pa.int8()), rows]
    return pa.record_batch(columns, schema=PACKET_SCHEMA)


def read_packets(batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
    """Turn record batches back into packets, whose columns point into the batches."""
    for batch in batches:
        targets, contents, rows = batch.columns
        for target, content, cell in zip(targets.to_pylist(), contents.to_pylist(), rows, strict=True):
            buffer = cell.as_buffer()
            rows = decoded(buffer) if buffer is not None else _NOTHING
            yield Packet(target, Content(content), rows, buffer)


def decoded(cell: pa.Buffer) -> pa.Table:
    """Return the rows of a packet, which point into its bytes."""
    return pa.ipc.open_stream(cell).read_all()


def error_packet(error: JunctureError) -> Packet:
    """Return a packet that makes the stage behind fail with the same error.

    An exception would make Spark try the task again, and then show a traceback.
    """
    return Packet(0, Content.ERROR, pa.table({"kind": [type(error).__name__], "message": [str(error)]}))


def raise_error(packet: Packet) -> None:
    """Raise the error that a packet holds.

    Raises
    ------
    JunctureError
        Always.
    """
    row = packet.rows.to_pylist()[0]
    raise getattr(errors, row["kind"])(row["message"])
