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
    """How the conditions of a join bring rows together, and what a sample showed."""

    has_keys: bool = False  # whether columns or expressions have to be equal
    inequalities: int = 0  # in-process, how many right expressions are compared with left ones, up to two
    is_bounded: bool = False  # whether matches lie within limits on both sides, not on one alone
    is_partitionable: bool = False  # on Spark, whether keys or key ranges determine the task of each row
    no_sql: str | None = None  # why Spark's SQL cannot run the join, or None
    needs_sample: bool = False  # whether bins depend on a sample
    left_copies: float = 1.0  # in how many bins a row is, on average
    right_copies: float = 2.0
    candidates: float | None = None  # how many right rows are compared with a left one in its bins; None if not sampled
    key_pairs: float | None = None  # about how many pairs have equal keys; None if not sampled
    pairs: float | None = None  # about how many pairs match, None if not sampled
    spine_is_shuffled: bool = False  # whether other tables of a join of many bring the spine to a key's partitions
    sent_bytes: int = 0  # the bytes of the smaller tables of such a join
    pairs_how: str = "matching pairs not sampled"  # and the source of it, or why there is none


@dataclass(frozen=True, kw_only=True)
class PlanningInput:
    """All that the choice depends on."""

    join: Resolved
    engine: Engine
    stats: Stats
    resources: Resources
    direct: bool = False  # whether both inputs are paths that Spark's tasks read themselves
    lazy: bool = False  # whether jobs at build time are forbidden
    is_stream: bool = False  # whether the left side is a stream
    partitions: int = 1  # on Spark, into how many partitions the session shuffles
    native: bool = False  # whether the session has Spark's own as-of join switched on
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
