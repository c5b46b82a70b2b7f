"""What rules out algorithms on Spark, whatever the kind of join."""

from __future__ import annotations

from juncture.planner.planning_input import Question
from juncture.spec.schema import Side

__all__ = [
    "SENT",
    "fits_in_a_task",
    "keeps_right_rows",
    "knows_left_rows",
    "looks_first",
    "not_checked",
    "too_large_to_send",
]

BROADCAST_BYTES_MAX = 64 * 1024 * 1024
"""The largest side that is collected and shipped to tasks: it has to fit into one message of Spark Connect."""

SENT: dict[str, Side] = {"broadcast": "right", "broadcast_left": "left"}
"""The side that is sent everywhere, by the algorithm."""


def looks_first(question: Question, algorithm: str) -> str | None:
    """Refuse jobs at build time under ``lazy=True``. Files need none to be sent: tasks read them."""
    if question.lazy and not question.direct and algorithm in ("broadcast", "broadcast_left"):
        return "it collects a side when the join is built, which lazy=True forbids."
    if question.lazy and algorithm == "range":
        return "it samples both sides when the join is built, which lazy=True forbids."
    return None


def fits_in_a_task(question: Question, algorithm: str) -> str | None:
    """Refuse to ship a side that is unknown, or too large for a task or a message, such as 1 GB to tasks of 1 GB."""
    room = question.resources.memory_bytes // 4
    return too_large_to_send(question, algorithm, room if question.direct else min(BROADCAST_BYTES_MAX, room))


def too_large_to_send(question: Question, algorithm: str, limit_bytes: int) -> str | None:
    """Refuse to send a side everywhere that is unknown, or larger than a limit."""
    name = SENT.get(algorithm)
    if name is None:
        return None
    side = question.stats.left if name == "left" else question.stats.right
    if why := not_checked(question, name):
        return why
    if side.bytes is None:
        return f"the size of the {name} side is not known." if question.lazy else None
    if side.bytes > limit_bytes:
        return (
            f"the {name} side has about {side.bytes / 1e6:,.0f} MB, and {limit_bytes / 1e6:,.0f} MB may go to every "
            "task."
        )
    return None


def not_checked(question: Question, name: Side) -> str | None:
    """Refuse to hold a side on nothing but the caller's word where no job may count it."""
    side = question.stats.left if name == "left" else question.stats.right
    if question.lazy and side.bytes is not None and (side.is_given("rows") or side.is_given("row_bytes")):
        return f"the size of the {name} side was given, and lazy=True forbids to count it before it is held."
    return None


def keeps_right_rows(question: Question, algorithm: str) -> str | None:
    """Refuse ``how="full"`` where the left rows are in several tasks, of which none sees all of them."""
    how = question.join.how
    if algorithm == "broadcast" and how in ("right", "full"):
        return f"how={how!r} keeps right rows that no left row matched, which no task knows alone."
    return None


def knows_left_rows(question: Question, algorithm: str) -> str | None:
    """Refuse ``how="left"`` or ``agg=`` where the right rows are in several tasks."""
    folds, how = bool(question.join.aggregates), question.join.how
    if algorithm != "broadcast_left" or (not folds and how in ("inner", "right")):
        return None
    asked = "agg=" if folds else f"how={how!r}"
    return f"{asked} asks what matches each left row in all, which no task knows alone."
