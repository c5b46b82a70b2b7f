"""Algorithms as the planner knows them: rows of data with rules and costs, and what the choice among them depends on.

Each step of a join has one constant, in core-nanoseconds a row. Costs are right to within a factor: they rank the
algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from juncture.planner.constants import Constants
from juncture.planner.decision import Engine
from juncture.planner.statistics import Resources, Stats
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

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


Fact = Literal["counts", "size", "text", "sample", "keys", "lengths", "cuts"]
"""What may have to be learnt of the inputs: the rows of both sides; the size of a side that is held, whatever was said
of it; how long its strings are; a sample of both sides; how often keys come; the longest intervals; ends of key ranges.
"""


@dataclass(frozen=True)
class Need:
    """What has to be known before an algorithm runs."""

    fact: Fact
    unnamed: bool = False  # whether only the choice depends on it, so that a named algorithm does not need it


Cost = Callable[[PlanningInput], float | None]
"""Returns what an algorithm should take, in seconds; None where that is not estimated."""


@dataclass(frozen=True)
class Algorithm:
    """One way to run a join. It `holds` a side whole, or by the partition on Spark."""

    name: str
    summary: str
    cost: Cost | None = None  # what it should take; without one it runs only when it is named
    _: KW_ONLY
    # The smaller side is the right one for ``semi`` and ``anti``: left rows that stream past are shown at once.
    holds: Side | Literal["smaller"] | None = None
    sends: bool = False  # on Spark, whether that side goes to every task, and rows of the other stay
    shuffles: Literal["once", "copies"] | None = None  # on Spark, how rows of both sides move
    in_python: bool = False  # whether its tasks on Spark are Python
    splits_keys: bool = False  # whether the rows of one key may be divided among tasks
    needs: tuple[Need, ...] = ()  # what has to be known before it runs, in the order in which it is looked for
    rules: tuple[Rule, ...] = ()  # what rules it out, the first that applies being the reason given


Rule = Callable[[PlanningInput, Algorithm], str | None]
"""Looks at an algorithm, and returns why it is ruled out, or None."""


def broadcast(
    side: Side, cost: Cost, *, needs: tuple[Need, ...], rules: tuple[Rule, ...], in_python: bool = True
) -> Algorithm:
    """Return the algorithm that sends a side to every task of Spark, and leaves rows of the other where they are."""
    name, other = ("broadcast", "left") if side == "right" else ("broadcast_left", "right")
    sent = f"{'' if in_python else 'a table of '}the {side} side"
    summary = f"send {sent} to every task; the {other} side is not shuffled"
    return Algorithm(name, summary, cost, holds=side, sends=True, in_python=in_python, needs=needs, rules=rules)


def held_side(planning: PlanningInput, algorithm: Algorithm) -> Side:
    """Return the side that an algorithm holds, which holds one."""
    assert algorithm.holds is not None
    if algorithm.holds != "smaller":
        return algorithm.holds
    if planning.join.how in ("semi", "anti"):
        return "right"
    left, right = planning.stats.left.bytes, planning.stats.right.bytes
    if left is None or right is None:
        return "left" if planning.left_rows < planning.right_rows else "right"
    return "left" if left < right else "right"


def terms(planning: PlanningInput) -> tuple[Constants, int, int]:
    """Return what formulas are made of: what a row costs in each step, and the rows of both sides."""
    return planning.resources.constants, planning.left_rows, planning.right_rows


def enter_ns(planning: PlanningInput) -> float:
    """Return what it takes to bring a row into a task's Python."""
    c = planning.resources.constants
    return c.direct_scan_ns if planning.direct else c.scan_ns + handed_ns(c)


def handed_ns(constants: Constants) -> float:
    """Return what it takes to hand a row of the JVM's to Python."""
    return constants.to_python_ns + constants.row_size_ns


def spread_s(planning: PlanningInput, core_ns: float) -> float:
    """Return the seconds of work that divides evenly among the cores."""
    return core_ns / planning.resources.cores / 1e9


def keyed_s(planning: PlanningInput, core_ns: float) -> float:
    """Return the seconds of work that cannot divide a key."""
    return core_ns * max(1 / planning.resources.cores, planning.hottest_key_share) / 1e9


def if_counted(cost: Cost) -> Cost:
    """Return a formula without an answer where right rows are not counted: those are held only if someone says so."""
    return lambda planning: None if planning.stats.right.rows is None else cost(planning)
