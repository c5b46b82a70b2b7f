"""What a join of streams holds, and what came too late: as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class SideState:
    """What a join holds of one side.

    Attributes
    ----------
    rows, bytes
        How many rows are held, and how much memory they take.
    evicted_rows
        How many have been held and let go.
    late_rows
        How many came too late.
    """

    rows: int
    bytes: int
    evicted_rows: int
    late_rows: int


@dataclass(frozen=True)
class State:
    """What a join holds.

    Attributes
    ----------
    left, right
        Of each side.
    """

    left: SideState
    right: SideState


@dataclass(frozen=True)
class LateRows:
    """The rows that came too late, as they came; none unless they are collected.

    Attributes
    ----------
    left, right
        Of each side.
    """

    left: pa.Table
    right: pa.Table
