"""What the planner knows of joins of rows that lie near each other, which range, overlap and predicate joins share."""

from __future__ import annotations

from juncture.planner.conditions import equal_names
from juncture.planner.inequality_cost import IN_MEMORY
from juncture.planner.memory import too_much
from juncture.planner.planning_input import Question
from juncture.planner.rules import fits_in_a_task, keeps_right_rows, knows_left_rows, looks_first
from juncture.spec.resolved import Resolved

__all__ = ["EXTERNAL_MERGE", "NESTED", "RULES", "SPARK", "gets", "whole"]

SPARK = {
    "broadcast": "the right side goes to every task, the left never moves",
    "broadcast_left": "the left side goes to every task, the right never moves",
    "range": "one shuffle of both sides into equal ranges, with copies of rows that reach into several",
    "bucket": "bins on several levels and one shuffle by bin, all in SQL",
    "nested": "Spark's own join with the condition",
}
"""The algorithms on Spark."""

EXTERNAL_MERGE = "sort both sides on disk, join the right one block by block with the left rows in its reach"
"""What ``external_merge`` does in-process."""

NESTED = "compare all pairs"
"""What ``nested`` does in-process."""


def _has_places(question: Question, algorithm: str) -> str | None:
    """Refuse partitions by place for conditions such as ``l.a > 3 OR r.b > 1``, which bring no rows together."""
    if algorithm == "range" and not question.offer.has_places:
        return "no condition tells where rows have to lie to match."
    return None


def _folds_without_matches(question: Question, algorithm: str) -> str | None:
    """Refuse ``agg=`` where Spark would make the matches first."""
    if question.engine == "spark" and algorithm in ("bucket", "nested", "sql") and question.join.aggregates:
        return "it would have to make all matches to aggregate them: broadcast and range aggregate without."
    return None


def _runs_in_sql(question: Question, algorithm: str) -> str | None:
    """Refuse SQL where it lacks a type or function, such as a common type of two keys."""
    return question.offer.no_sql if algorithm in ("bucket", "nested", "sql") else None


def _has_keys(question: Question, algorithm: str) -> str | None:
    """Refuse a join by keys for conditions such as ``l.a < r.b``, which has none."""
    if algorithm == "sql" and not question.offer.has_keys:
        return "nothing has to be equal, so Spark would compare all pairs: that is nested."
    return None


def _fills_bins(question: Question, algorithm: str) -> str | None:
    """Refuse bins for open windows, as with ``lower=None``, and under ``lazy=True`` for intervals of any length."""
    if algorithm != "bucket":
        return None
    if not question.offer.is_bounded:
        return "rows have no limit on one side, so that all of them would share a bin."
    if question.lazy and question.offer.needs_sample:
        return "its bins depend on a sample of both sides, which lazy=True forbids."
    return None


def _fits_in_memory(question: Question, algorithm: str) -> str | None:
    """Refuse to hold what does not fit: 100 million right rows of 32 bytes take 8 GB."""
    return too_much(question, algorithm, IN_MEMORY)


RULES = (
    _fits_in_memory,
    keeps_right_rows,
    knows_left_rows,
    _has_places,
    looks_first,
    fits_in_a_task,
    _folds_without_matches,
    _runs_in_sql,
    _has_keys,
    _fills_bins,
)
"""What rules out an algorithm."""


def gets(join: Resolved) -> str:
    """Say what a left row gets."""
    return f"each left row gets {'aggregates of ' if join.aggregates else ''}the right rows"


def whole(join: Resolved, sentence: str) -> str:
    """Return a sentence about matches with the keys and rows that are kept."""
    names = equal_names(join)
    return f"{sentence}{', of equal ' + names if names else ''} ({join.how} join)"
