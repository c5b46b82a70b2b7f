"""Batches of rows as values in Spark's state store, in parts of limited size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from juncture.errors import StateError
from juncture.spec.schema import Side
from juncture.streams.snapshot import from_ipc, to_ipc

_CHUNK_BYTES = 16 << 20
"""Largest value in the state store, in bytes."""


class Table(Protocol):
    """Values by name: a map in Spark's state store."""

    def getValue(self, key: tuple[str], /) -> Any:  # noqa: N802 - Spark's name
        """Return a value, or None."""

    def updateValue(self, key: tuple[str], value: tuple[bytes], /) -> None:  # noqa: N802 - Spark's name
        """Set a value."""

    def removeKey(self, key: tuple[str], /) -> None:  # noqa: N802 - Spark's name
        """Remove a value."""


def put_rows(table: Table, number: int, rows: pa.RecordBatch) -> int:
    """Write a batch under a number, and return the number of parts."""
    data = to_ipc(pa.Table.from_batches([rows])).to_pybytes()
    parts = -(-len(data) // _CHUNK_BYTES)
    for part in range(parts):
        table.updateValue((f"{number} {part}",), (data[part * _CHUNK_BYTES : (part + 1) * _CHUNK_BYTES],))
    return parts


def rows_put(table: Table, number: int, parts: int, side: Side) -> pa.RecordBatch:
    """Return the batch that `put_rows` wrote."""
    [batch] = from_ipc(b"".join(values_of(table, number, range(parts), side))).to_batches()
    return batch


def values_of(table: Table, number: int, names: Iterable[str | int], side: Side) -> list[bytes]:
    """Return values of a batch."""
    values = [table.getValue((f"{number} {name}",)) for name in names]
    if None in values:
        raise StateError(
            f"The state in the checkpoint of this query is damaged: a part of the {side} rows is missing. Start the "
            "query with a new checkpoint and output.",
            name="JN-STATE-DAMAGED",
        )
    return [value for [value] in values]


def remove(table: Table, number: int, names: Sequence[str | int]) -> None:
    """Remove values of a batch."""
    for name in names:
        table.removeKey((f"{number} {name}",))
