"""What is known of the inputs before a join runs, each figure with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from juncture.planner.constants import Constants

__all__ = ["Resources", "SideStats", "Stats"]


@dataclass(frozen=True, kw_only=True)
class SideStats:
    """What is known of one input. None means that nobody has looked.

    Attributes
    ----------
    rows
        Number of rows.
    row_bytes
        Bytes of one row, of the columns that take part.
    keys
        Distinct values of the ``by`` columns.
    hottest_share
        Share of the rows that have the most frequent key, from 0 to 1.
    extent
        The least and the greatest value of the ``on`` column: a number, or whole days, or whole units of a timestamp
        (of the finer of both sides' units) since 1970.
    is_sorted
        Whether the rows are known to come sorted by the ``on`` column.
    sources
        Where each figure comes from, by its name: ``"Parquet footers"``, ``"count"``, ``"sample of 20,000 rows"``,
        ``"given"``, ``"assumed"``.
    """

    rows: int | None = None
    row_bytes: int | None = None
    keys: int | None = None
    hottest_share: float | None = None
    extent: tuple[Any, Any] | None = None
    is_sorted: bool = False
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int | None:
        """Bytes of all rows, of the columns that take part."""
        if self.rows is None or self.row_bytes is None:
            return None
        return self.rows * self.row_bytes


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What is known of both inputs."""

    left: SideStats = SideStats()
    right: SideStats = SideStats()


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the join may use.

    Attributes
    ----------
    cores
        Tasks or threads that run at once.
    memory_bytes
        What one task (on Spark) or the process (in-process) may hold.
    constants
        What a row costs in each step, on one of these cores.
    """

    cores: int
    memory_bytes: int
    constants: Constants = field(default_factory=Constants)
