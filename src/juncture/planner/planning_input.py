"""What the choice of an algorithm depends on."""

from __future__ import annotations

from dataclasses import dataclass

from juncture.planner.decision import Engine
from juncture.planner.statistics import Resources, Stats
from juncture.spec.resolved import Resolved

_ASSUMED_ROWS = 100_000_000
"""Rows of a side that is not counted: large, so that it is not sent anywhere by mistake."""


@dataclass(frozen=True, kw_only=True)
class JoinFeatures:
    """How the conditions of a join bring rows together, and what a sample showed.

    Attributes
    ----------
    has_keys
        Whether columns or expressions have to be equal.
    inequalities
        In-process, how many right expressions are compared with left ones, up to two.
    is_bounded
        Whether matches lie within limits on both sides, not on one alone.
    is_partitionable
        On Spark, whether keys or key ranges determine the task of each row.
    no_sql
        Why Spark's SQL cannot run the join, or None.
    needs_sample
        Whether bins depend on a sample.
    left_copies, right_copies
        In how many bins a row is, on average.
    candidates
        How many right rows are compared with a left one in its bins; None if not sampled.
    key_pairs
        About how many pairs have equal keys; None if not sampled.
    pairs, pairs_how
        About how many pairs match, None if not sampled; and the source of it, or why there is none.
    """

    has_keys: bool = False
    inequalities: int = 0
    is_bounded: bool = False
    is_partitionable: bool = False
    no_sql: str | None = None
    needs_sample: bool = False
    left_copies: float = 1.0
    right_copies: float = 2.0
    candidates: float | None = None
    key_pairs: float | None = None
    pairs: float | None = None
    pairs_how: str = "matching pairs not sampled"


@dataclass(frozen=True, kw_only=True)
class PlanningInput:
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
    is_stream
        Whether the left side is a stream.
    partitions
        On Spark, into how many partitions the session shuffles.
    native
        Whether the session has Spark's own as-of join switched on.
    features
        What brings rows together.
    """

    join: Resolved
    engine: Engine
    stats: Stats
    resources: Resources
    direct: bool = False
    lazy: bool = False
    is_stream: bool = False
    partitions: int = 1
    native: bool = False
    features: JoinFeatures = JoinFeatures()

    @property
    def left_rows(self) -> int:
        """Rows of the left side, assumed where they are not counted."""
        return self.stats.left.rows if self.stats.left.rows is not None else _ASSUMED_ROWS

    @property
    def right_rows(self) -> int:
        """Rows of the right side, assumed where they are not counted."""
        return self.stats.right.rows if self.stats.right.rows is not None else _ASSUMED_ROWS

    @property
    def hottest_key_share(self) -> float:
        """Share of all rows that stay together since they have one key: 1 where there is no key."""
        shares = (self.stats.left.hottest_key_share, self.stats.right.hottest_key_share)
        return max(share or 0.0 for share in shares) if self.join.left_by else 1.0
