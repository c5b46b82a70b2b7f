"""What rows take in memory, and how much of it they may take."""

from __future__ import annotations

from juncture.columnar.types import is_fixed, plain_type
from juncture.planner.statistics import SideStats
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

HELD_ROW_BYTES = 48
"""What a row that is held takes beside its columns: its key, its order and its number."""

_AGGREGATED_ROW_BYTES = 64  # what it takes besides to be aggregated

HELD_SHARE = 0.6
"""How much of the memory held rows may take. The rest is for what comes in and goes out."""

ASSUMED_ROW_BYTES = 32
"""What a row takes whose size is not known."""


def held_bytes(join: Resolved, side: Side, stats: SideStats) -> int | None:
    """Return what the rows of a side take in memory; None if they are not counted."""
    if stats.rows is None:
        return None
    return stats.rows * held_row_bytes(join, side, ASSUMED_ROW_BYTES if stats.row_bytes is None else stats.row_bytes)


def held_row_bytes(join: Resolved, side: Side, row_bytes: int) -> int:
    """Return the memory of a row with `row_bytes` of columns; text that is no key is copied while parts are joined."""
    schema, keys = (join.left_schema, join.left_by) if side == "left" else (join.right_schema, join.right_by)
    types = {name: plain_type(schema.field(name).type) for name in join.needed(side)}
    fixed_bytes = sum(each.bit_width // 8 for each in types.values() if is_fixed(each))
    has_text = any(not is_fixed(each) for name, each in types.items() if name not in keys)
    copied_bytes = max(0, row_bytes - fixed_bytes) if has_text else 0
    return row_bytes + copied_bytes + HELD_ROW_BYTES + _AGGREGATED_ROW_BYTES * len(join.aggregates)


def surely_fits(join: Resolved, stats: SideStats, room_bytes: int) -> bool:
    """Return whether rows fit in memory even if all of their columns are text, which small tables need not look at."""
    row_bytes = ASSUMED_ROW_BYTES if stats.row_bytes is None else stats.row_bytes
    most_bytes = 2 * row_bytes + HELD_ROW_BYTES + _AGGREGATED_ROW_BYTES * len(join.aggregates)
    return stats.rows is not None and stats.rows * most_bytes <= room_bytes


def room_bytes(memory_bytes: int) -> int:
    """Return how much of the memory held rows may take."""
    return int(memory_bytes * HELD_SHARE)
