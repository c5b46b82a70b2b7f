"""A snapshot of a stream join: plain data and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Snapshot:
    """The state of a stream join at one moment.

    Attributes
    ----------
    setup
        Definition of the join, as plain data: `Setup.to_dict`.
    progress
        Progress of the join, as plain data.
    tables
        Rows by kind: ``left_state`` and ``right_state`` (stored, with marks), ``left_late`` and ``right_late``
        (collected), ``not_given`` (results not returned yet). Tables without rows are left out.
    """

    setup: Mapping[str, Any]
    progress: Mapping[str, Any]
    tables: Mapping[str, pa.Table]


def write_ipc(table: pa.Table, sink: Any) -> None:
    """Write a table to a file or buffer in Arrow's stream format."""
    # The file format allows only one dictionary for each column; the stream format one for each batch.
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def to_ipc(table: pa.Table) -> pa.Buffer:
    """Return a table as bytes in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    write_ipc(table, sink)
    return sink.getvalue()


def from_ipc(source: Any) -> pa.Table:
    """Return the table of a file or buffer in Arrow's stream format."""
    with pa.ipc.open_stream(source) as reader:
        return reader.read_all()
