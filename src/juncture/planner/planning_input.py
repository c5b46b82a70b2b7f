"""What a choice depends on, what it comes to, and what the planner has to know of a kind of join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from juncture.planner.conditions import Condition
from juncture.planner.stats import Resources, Stats
from juncture.spec.resolved import Resolved

__all__ = ["ASSUMED_ROWS", "Choice", "Engine", "Estimate", "Kind", "Offer", "Option", "Question", "Rule"]

Engine = Literal["local", "spark"]

ASSUMED_ROWS = 100_000_000
"""Rows of a side that nobody has counted: large, so that it is not shipped anywhere by mistake."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What the conditions of a join offer to bring rows together by, and what has been found out of it.

    Attributes
    ----------
    has_keys
        Whether columns or expressions have to be equal.
    limited
        In-process, how many right expressions are limited by left ones, up to two.
    is_bounded
        Whether matches lie within limits on both sides, not on one alone.
    has_places
        On Spark, whether anything tells where rows lie, so that tasks can bring them together.
    no_sql
        Why Spark's SQL cannot run the join, or None.
    needs_sample
        Whether bins depend on a look at the rows.
    left_copies, right_copies
        In how many bins a row is, on average.
    candidates
        How many right rows are compared with a left one in its bins; None if nobody has looked.
    key_pairs
        About how many pairs have equal keys; None if nobody has looked.
    pairs, pairs_how
        About how many pairs match, None if nobody has looked; and how this is known, or why it is not.
    """

    has_keys: bool = False
    limited: int = 0
    is_bounded: bool = False
    has_places: bool = False
    no_sql: str | None = None
    needs_sample: bool = False
    left_copies: float = 1.0
    right_copies: float = 2.0
    candidates: float | None = None
    key_pairs: float | None = None
    pairs: float | None = None
    pairs_how: str = "nobody has looked how many pairs satisfy the condition"


@dataclass(frozen=True, kw_only=True)
class Question:
    """All that the choice depends on.

    Attributes
    ----------
    join
        The resolved spec.
    engine
        Where it runs.
    stats, resources
        What is known of the inputs, and what may be used.
    direct
        Whether both inputs are paths that Spark's tasks read themselves.
    lazy
        Whether jobs at build time are forbidden.
    partitions
        On Spark, into how many partitions the session shuffles.
    native
        Whether the session has Spark's own as-of join switched on.
    offer
        What brings rows together.
    """

    join: Resolved
    engine: Engine
    stats: Stats
    resources: Resources
    direct: bool = False
    lazy: bool = False
    partitions: int = 1
    native: bool = False
    offer: Offer = Offer()

    @property
    def left_rows(self) -> int:
        """Rows of the left side, assumed where nobody has counted them."""
        return self.stats.left.rows if self.stats.left.rows is not None else ASSUMED_ROWS

    @property
    def right_rows(self) -> int:
        """Rows of the right side, assumed where nobody has counted them."""
        return self.stats.right.rows if self.stats.right.rows is not None else ASSUMED_ROWS


@dataclass(frozen=True, kw_only=True)
class Option:
    """One algorithm, weighed.

    Attributes
    ----------
    algorithm
        Its name.
    cost_s
        What it should take; None where that is not estimated.
    refusal
        Why it cannot serve, or None.
    """

    algorithm: str
    cost_s: float | None = None
    refusal: str | None = None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure that is expected.

    Attributes
    ----------
    value
        The figure; None if nobody knows.
    how
        How it was come by, or why there is none.
    """

    value: int | None
    how: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The algorithm that will run, why, and what else was weighed.

    Attributes
    ----------
    algorithm, reason
        What runs, and why it was taken.
    options
        What was weighed.
    rows
        How many rows the join should give.
    shuffle_bytes, task_bytes
        How many bytes it should shuffle, and how many a task should hold; None in-process.
    """

    algorithm: str
    reason: str
    options: tuple[Option, ...]
    rows: Estimate
    shuffle_bytes: Estimate | None
    task_bytes: Estimate | None


Rule = Callable[[Question, str], str | None]
"""Looks at one algorithm, and returns why it is ruled out, or None."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the planner knows of a kind of join.

    Attributes
    ----------
    title
        What the kind is called at the start of a sentence.
    algorithms
        The algorithms of each engine, with what they do.
    rules
        What rules an algorithm out, the first that applies being the reason given.
    cost_s
        What an algorithm should take; None where that is not estimated, so that it runs only when it is named.
    meaning
        Says in a sentence what a resolved join of this kind means.
    conditions
        Says what a pair of rows has to satisfy, part by part.
    """

    title: str
    algorithms: Mapping[Engine, Mapping[str, str]]
    rules: tuple[Rule, ...]
    cost_s: Callable[[Question, str], float | None]
    meaning: Callable[[Any], str]
    conditions: Callable[[Any], tuple[Condition, ...]]
