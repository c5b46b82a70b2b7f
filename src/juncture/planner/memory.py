"""What in-process algorithms hold, and which of them a budget rules out."""

from __future__ import annotations

from collections.abc import Collection

from juncture.planner.planning_input import Question
from juncture.planner.stats import Resources, SideStats
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side, is_fixed, plain_type
from juncture.spec.size import format_size

__all__ = [
    "ASSUMED_ROW_BYTES",
    "FOLDED_ROW_BYTES",
    "HELD_ROW_BYTES",
    "HELD_SHARE",
    "fits",
    "held_bytes",
    "held_row_bytes",
    "room_bytes",
    "too_much",
]

HELD_ROW_BYTES = 48
"""What a row that is held takes beside its columns: its key, its code and its place."""

FOLDED_ROW_BYTES = 64
"""What it takes besides to be aggregated."""

HELD_SHARE = 0.6
"""How much of the memory held rows may take. The rest is for what comes in and goes out."""

ASSUMED_ROW_BYTES = 32
"""What a row takes whose size nobody knows."""


def held_bytes(join: Resolved, side: Side, stats: SideStats) -> int | None:
    """Return what the rows of a side take in memory; None if nobody has counted them."""
    if stats.rows is None:
        return None
    return stats.rows * held_row_bytes(join, side, ASSUMED_ROW_BYTES if stats.row_bytes is None else stats.row_bytes)


def held_row_bytes(join: Resolved, side: Side, row_bytes: int) -> int:
    """Return what a row of a side takes in memory, whose columns have so many bytes.

    Columns of text, unless they are keys, are there twice for a moment, while their parts are put together.
    """
    schema, keys = (join.left_schema, join.left_by) if side == "left" else (join.right_schema, join.right_by)
    types = {name: plain_type(schema.field(name).type) for name in join.needed(side)}
    fixed_bytes = sum(each.bit_width // 8 for each in types.values() if is_fixed(each))
    has_text = any(not is_fixed(each) for name, each in types.items() if name not in keys)
    copied_bytes = max(0, row_bytes - fixed_bytes) if has_text else 0
    return row_bytes + copied_bytes + HELD_ROW_BYTES + FOLDED_ROW_BYTES * len(join.aggregates)


def room_bytes(resources: Resources) -> int:
    """Return how much of the memory held rows may take."""
    return int(resources.memory_bytes * HELD_SHARE)


def fits(question: Question) -> bool:
    """Tell whether the right rows are known to fit in memory."""
    held = held_bytes(question.join, "right", question.stats.right)
    return held is not None and held <= room_bytes(question.resources)


def too_much(question: Question, algorithm: str, holding: Collection[str]) -> str | None:
    """Refuse to hold what does not fit: 100 million right rows of 32 bytes take 8 GB."""
    held = held_bytes(question.join, "right", question.stats.right)
    if question.engine != "local" or algorithm not in holding or held is None or fits(question):
        return None
    room = format_size(room_bytes(question.resources))
    return f"it holds right rows of about {format_size(held)}, and {room} may be held."
