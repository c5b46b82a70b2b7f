"""What rules out algorithms of several kinds of join. A rule is one small function: it returns why, or None."""

from __future__ import annotations

from juncture.planner.algorithm import Algorithm, Cost, PlanningInput, Rule, held_side, if_counted
from juncture.planner.memory import held_bytes, room_bytes, surely_fits
from juncture.spec.size import format_size

TABLE_FACTOR = 4
"""How much larger a side may be as a hash table in the JVM, in objects and with its keys apart."""


def fits_in_memory(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to hold what does not fit: 100 million right rows of 32 bytes take 8 GB."""
    room = room_bytes(planning.resources.memory_bytes)
    if surely_fits(planning.join, planning.stats.right, room):
        return None
    right_bytes = held_bytes(planning.join, "right", planning.stats.right)
    if right_bytes is None or right_bytes <= room:
        return None
    return f"the right rows take about {format_size(right_bytes)}, but only {format_size(room)} is available."


def in_memory(name: str, does: str, cost: Cost, *rules: Rule) -> Algorithm:
    """Return an in-process algorithm that holds the right rows in memory."""
    return Algorithm(name, does, if_counted(cost), holds="right", rules=(fits_in_memory, *rules))


def collects(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to collect a side under ``lazy=True``. Files need no job to be sent: tasks read them."""
    if planning.lazy and not planning.direct:
        return "it collects one side while planning, which lazy=True forbids."
    return None


def samples(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse to sample under ``lazy=True``."""
    return "it samples both sides while planning, which lazy=True forbids." if planning.lazy else None


def follows_stream(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse to move or to hold the rows of a stream, which have no end: all but ``broadcast`` does."""
    if planning.is_stream and not (algorithm.sends and algorithm.holds == "right"):
        return "the left side is a stream, which cannot be shuffled or buffered."
    return None


def fits_in_task(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse to ship a side that is unknown, or too large for a task or a message, such as 1 GB to tasks of 1 GB."""
    return _too_large(planning, algorithm, sent_bytes_most(planning))


def sent_bytes_most(planning: PlanningInput) -> int:
    """Return the maximum size of what every task gets a copy of."""
    room = planning.resources.memory_bytes // 4
    return room if planning.direct else min(planning.resources.broadcast_bytes, room)


def fits_as_table(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse to send a side that is unknown, or whose table is too large, such as 1 GB to tasks of 1 GB."""
    return _too_large(planning, algorithm, planning.resources.memory_bytes // TABLE_FACTOR)


def _too_large(planning: PlanningInput, algorithm: Algorithm, limit_bytes: int) -> str | None:
    name = held_side(planning, algorithm)
    if why := is_checked(planning, algorithm):
        return why
    size = planning.stats.of(name).bytes
    if size is None:
        return f"the size of the {name} side is unknown." if planning.lazy else None
    if size > limit_bytes:
        limit = f"the limit for a copy in every task is {limit_bytes / 1e6:,.0f} MB."
        return f"the {name} side has about {size / 1e6:,.0f} MB; {limit}"
    return None


def is_checked(planning: PlanningInput, algorithm: Algorithm) -> str | None:
    """Refuse to buffer a side whose size only the caller states, if no job may count it."""
    name = held_side(planning, algorithm)
    side = planning.stats.of(name)
    if planning.lazy and side.bytes is not None and (side.is_given("rows") or side.is_given("row_bytes")):
        return f"the size of the {name} side comes from stats=, and lazy=True forbids counting it first."
    return None


def keeps_right_rows(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse ``how="full"`` where no task sees all left rows."""
    how = planning.join.how
    if how in ("right", "full"):
        return f"how={how!r} keeps unmatched right rows, but each task sees only a part of the left rows."
    return None


def knows_left_rows(planning: PlanningInput, _: Algorithm) -> str | None:
    """Refuse ``how="left"`` or ``agg=`` where the right rows are in several tasks."""
    folds, how = bool(planning.join.aggregates), planning.join.how
    if not folds and how in ("inner", "right"):
        return None
    argument = "agg=" if folds else f"how={how!r}"
    return f"{argument} needs all matches of a left row, but each task sees only a part of the right rows."
