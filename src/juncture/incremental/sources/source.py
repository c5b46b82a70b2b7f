"""What a source of changes is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Read = Callable[[str, int], object]
"""Is told, of a table, how many rows more have been read."""


@dataclass(frozen=True)
class Snapshot:
    """The tables as they are at first."""

    tables: Mapping[str, pa.Table]
    offset: Any


@dataclass(frozen=True)
class SourceEpoch:
    """Changes that belong together: one transaction of the source, or several."""

    changes: Mapping[str, Sequence[pa.RecordBatch]]
    offset: Any
    transactions: int
    rows: int
    truncated: frozenset[str] = frozenset()


class Source(Protocol):
    """Tables that change.

    It is read once as it is, and then epoch by epoch. What has been read is asked for again until it is acknowledged.
    """

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables, and their columns."""

    def snapshot(self, read: Read, /) -> Snapshot:
        """Return the tables as they are."""

    def start(self, offset: Any) -> None:
        """Go on from an offset, with what comes after it."""

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return what has changed, no more than about so many rows; None if nothing has within that time."""

    def acknowledge(self, offset: Any) -> None:
        """Take notice that all up to an offset is kept elsewhere."""

    def close(self) -> None:
        """Let go of connections and files."""
