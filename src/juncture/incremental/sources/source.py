"""The interface of sources of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Read = Callable[[str, int], object]
"""Called with the name of a table and the number of rows read since the last call."""


@dataclass(frozen=True)
class Snapshot:
    """Initial tables, and the offset of the changes after them."""

    tables: Mapping[str, pa.Table]
    offset: Any


@dataclass(frozen=True)
class SourceEpoch:
    """Changes of one or several transactions of the source.

    ``changes`` are change batches by table. All rows of ``truncated`` tables are deleted before them. ``offset`` is the
    position after the changes, as plain data.
    """

    changes: Mapping[str, Sequence[pa.RecordBatch]]
    offset: Any
    transactions: int
    rows: int
    truncated: frozenset[str] = frozenset()


class Source(Protocol):
    """Tables that change.

    It is read once as a snapshot, and then epoch by epoch. Epochs are read again until they are acknowledged.
    """

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables with their columns."""

    def snapshot(self, read: Read, /) -> Snapshot:
        """Return the initial tables."""

    def start(self, offset: Any) -> None:
        """Resume after an offset."""

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return changes, about ``rows`` at most; None if there are none within the time."""

    def acknowledge(self, offset: Any) -> None:
        """Allow the source to discard changes up to an offset. By default, it keeps them."""
        del offset

    def close(self) -> None:
        """Close connections and files. By default, none is open."""
        return
