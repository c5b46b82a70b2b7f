"""Packets: many rows of any table as one row of another, so that a shuffle moves bytes and not rows.

Spark's shuffle writes, hashes and reads row by row, and converts every row to Arrow again for Python. A packet is an
Arrow stream in one binary cell with its target partition and content type. A row then costs the copying of its bytes,
and both sides of a join fit into one DataFrame, whatever their columns.

A shuffle copies every byte some ten times, between processes and through files. Integers therefore travel in as few
bytes as needed, as offsets from the least value of their column. The reference value is that of one task's rows, and a
column has one width, so narrowing takes two passes and widening one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import JunctureError, error_of
from juncture.spark.tasks.placement import one_chunk

_LEAST = b"juncture:least"
_WIDE = b"juncture:wide"
_WIDTHS = (np.uint8, np.uint16, np.uint32)


def narrowed(table: pa.Table) -> pa.Table:
    """Return a table with narrow integers and metadata that restores them."""
    columns, fields = list(table.columns), list(table.schema)
    for number, field in enumerate(table.schema):
        if not _is_whole(field.type):
            continue
        narrow = _narrow(one_chunk(columns[number]))
        if narrow is not None:
            columns[number], least = narrow
            fields[number] = pa.field(field.name, columns[number].type, metadata={_LEAST: str(least).encode()})
    if fields == list(table.schema):
        return table
    wide = table.schema.serialize().to_pybytes()
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, {_WIDE: wide}))


def widened(table: pa.Table) -> pa.Table:
    """Return a narrowed table with its original types, or any other table unchanged. Columns may be missing."""
    schema_bytes = (table.schema.metadata or {}).get(_WIDE)
    if schema_bytes is None:
        return table
    wide = _schema(schema_bytes)
    columns = []
    for column, field in zip(table.columns, table.schema, strict=True):
        least = (field.metadata or {}).get(_LEAST)
        columns.append(column if least is None else _widen(one_chunk(column), int(least), wide.field(field.name).type))
    return pa.Table.from_arrays(
        columns, schema=pa.schema([wide.field(name) for name in table.column_names], wide.metadata)
    )


def widened_bytes(table: pa.Table) -> int:
    """Return the additional bytes of a table when it is widened."""
    schema_bytes = (table.schema.metadata or {}).get(_WIDE)
    if schema_bytes is None:
        return 0
    wide, schema = _schema(schema_bytes), table.schema
    narrow = [field for field in schema if _LEAST in (field.metadata or {})]
    bits = sum(wide.field(field.name).type.bit_width - field.type.bit_width for field in narrow)
    return int(table.num_rows * bits // 8)


@lru_cache(256)
def _schema(schema_bytes: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(schema_bytes))


def _is_whole(data_type: pa.DataType) -> bool:
    """Return whether values are integers of at least two bytes in memory."""
    is_number = pat.is_integer(data_type) or pat.is_temporal(data_type)
    return bool(is_number and not pat.is_interval(data_type) and data_type.bit_width > 8)


def _storage(data_type: pa.DataType) -> npt.DTypeLike:
    """Return the integers that store values."""
    sign = "u" if pat.is_unsigned_integer(data_type) else "i"
    return np.dtype(f"{sign}{data_type.bit_width // 8}")


def _narrow(column: pa.Array) -> tuple[pa.Array, int] | None:
    """Return a column as offsets from its least value, and that value, if this saves bytes."""
    if column.null_count == len(column):
        return None
    dtype = np.dtype(_storage(column.type))
    values = np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]
    nulls = np.asarray(column.is_null()) if column.null_count else None
    valid_values = values if nulls is None else values[~nulls]
    least, greatest = int(valid_values.min()), int(valid_values.max())
    for narrow in _WIDTHS:
        if greatest - least <= np.iinfo(narrow).max and np.dtype(narrow).itemsize < dtype.itemsize:
            out = np.empty(len(values), narrow)
            # Values under nulls are undefined.
            np.subtract(values, dtype.type(least), out=out, casting="unsafe")
            return pa.array(out, mask=nulls), least
    return None


def _widen(column: pa.Array, least: int, data_type: pa.DataType) -> pa.Array:
    dtype = np.dtype(_storage(data_type))
    width = column.type.bit_width // 8
    values = np.frombuffer(column.buffers()[1], f"u{width}")[column.offset : column.offset + len(column)].astype(dtype)
    values += dtype.type(least)
    nulls = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(values, mask=nulls).view(data_type)


PACKET_SCHEMA = pa.schema(
    [("target", pa.int32()), ("content", pa.string()), ("side", pa.string()), ("rows", pa.binary())]
)

_NOTHING = pa.table({})
_BATCH_BYTES = 8 * 1024 * 1024
"""Approximate bytes of packets per batch: the JVM buffers them in scarce direct memory."""


class Content(StrEnum):
    """The content of a packet."""

    OWNED = "owned"  # rows of a side, in the partition that owns them
    SPLIT = "split"  # owned rows that have copies in other partitions
    COPY = "copy"  # copies of rows that another partition owns
    UNMATCHED = "unmatched"  # rows without a match where they are owned, which another partition may have matched
    MARK = "mark"  # match marks: rows that agree with one in all of its columns have a match in another partition
    OUTPUT = "output"  # rows of the result
    ERROR = "error"  # the class and the message of an error
    FRONTIER = "frontier"  # the progress of a side of a stream
    EMPTY = "empty"  # no rows: an empty packet starts the task of its partition


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
    description = {"kind": type(error).__name__, "message": error.message, "name": error.name}
    return Packet(0, Content.ERROR, pa.Table.from_pylist([description]))
