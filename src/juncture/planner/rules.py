"""What rules out algorithms on Spark, whatever the kind of join."""

from __future__ import annotations

from juncture.planner.question import Question

__all__ = ["fits_in_a_task", "looks_first"]

BROADCAST_BYTES_MAX = 64 * 1024 * 1024
"""The largest side that is collected and shipped to tasks: it has to fit into one message of Spark Connect."""


def looks_first(question: Question, algorithm: str) -> str | None:
    """Refuse jobs at build time under ``lazy=True``. Files need none to be sent: tasks read them."""
    if question.lazy and not question.direct and algorithm in ("broadcast", "broadcast_left"):
        return "it collects a side when the join is built, which lazy=True forbids."
    if question.lazy and algorithm == "range":
        return "it samples both sides when the join is built, which lazy=True forbids."
    return None


def fits_in_a_task(question: Question, algorithm: str) -> str | None:
    """Refuse to ship a side that is unknown, or too large for a task or a message, such as 1 GB to tasks of 1 GB."""
    if algorithm not in ("broadcast", "broadcast_left"):
        return None
    side = question.stats.right if algorithm == "broadcast" else question.stats.left
    name = "right" if algorithm == "broadcast" else "left"
    room = question.resources.memory_bytes // 4
    limit = room if question.direct else min(BROADCAST_BYTES_MAX, room)
    if side.bytes is None:
        return f"the size of the {name} side is not known." if question.lazy else None
    if side.bytes > limit:
        return f"the {name} side has about {side.bytes / 1e6:,.0f} MB, and {limit / 1e6:,.0f} MB may go to every task."
    return None
