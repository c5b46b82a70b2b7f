"""All that a join of streams is at one moment, as a value: plain data and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Snapshot:
    """A join of streams at one moment.

    Attributes
    ----------
    setup
        What it is made of, as plain data: `Setup.to_dict`.
    progress
        How far it has come, as plain data.
    tables
        Rows by what they are: ``left_state`` and ``right_state`` (held, with marks), ``left_late`` and ``right_late``
        (collected), ``not_given`` (of the answer). Those without rows are left out.
    """

    setup: Mapping[str, Any]
    progress: Mapping[str, Any]
    tables: Mapping[str, pa.Table]


def write_ipc(table: pa.Table, sink: Any) -> None:
    """Write a table to a file or buffer, in Arrow's format of streams."""
    # Files of one block could not hold batches with dictionaries of their own.
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def to_ipc(table: pa.Table) -> pa.Buffer:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    write_ipc(table, sink)
    return sink.getvalue()


def from_ipc(source: Any) -> pa.Table:
    """Return the table that a file or bytes hold."""
    with pa.ipc.open_stream(source) as reader:
        return reader.read_all()
