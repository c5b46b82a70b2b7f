"""The size of the state of a stream join, and its late rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class SideState:
    """State of one side of a stream join.

    Attributes
    ----------
    rows, bytes
        Number of stored rows, and their memory.
    evicted_rows
        Number of rows that were stored and evicted.
    late_rows
        Number of late rows.
    """

    rows: int
    bytes: int
    evicted_rows: int
    late_rows: int


@dataclass(frozen=True)
class State:
    """State of a stream join.

    Attributes
    ----------
    left, right
        State of each side.
    """

    left: SideState
    right: SideState


@dataclass(frozen=True)
class LateRows:
    """Late rows as they were pushed; empty unless ``late="collect"``.

    Attributes
    ----------
    left, right
        Late rows of each side.
    """

    left: pa.Table
    right: pa.Table
