"""The choice of an algorithm for range, overlap and predicate joins on Spark: what rules one out, and the costs."""

from __future__ import annotations

from dataclasses import dataclass

from juncture.errors import PlanError
from juncture.planner.asof import BROADCAST_BYTES_MAX
from juncture.planner.choose import kind_of
from juncture.planner.cost import Constants
from juncture.planner.question import ASSUMED_ROWS, Choice, Option
from juncture.planner.stats import Resources, Stats
from juncture.spark.bins import PAIR_NS, Bins
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import ResolvedRange
from juncture.spec.resolved import Resolved

__all__ = ["Known", "choose_near", "refusal_of"]

_COMPARED_NS = 6.0
"""What it costs Spark's nested loop to compare two rows."""
_MADE_NS = 30.0
"""What it costs Spark to make a row of the result, when it joins itself."""
_START_S = 1.0
"""What the first task of a kind takes to start Python."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """All that the choice depends on.

    Attributes
    ----------
    join
        The join.
    stats, resources
        What is known of the inputs, and what may be used.
    direct
        Whether both inputs are files that tasks read themselves.
    lazy
        Whether jobs at build time are forbidden.
    has_places
        Whether anything tells where rows lie, so that tasks can bring them together.
    no_sql
        Why SQL cannot run the join, or None.
    is_bounded
        Whether rows lie within limits, so that bins make sense.
    needs_sample
        Whether bins depend on a look at the rows.
    bins
        The bins that would be used, if they have been chosen.
    pairs
        About how many pairs match, if somebody has looked.
    has_keys
        Whether some columns or expressions have to be equal.
    """

    join: Resolved
    stats: Stats
    resources: Resources
    direct: bool
    lazy: bool
    has_places: bool
    no_sql: str | None
    is_bounded: bool
    needs_sample: bool
    has_keys: bool
    bins: Bins | None = None
    pairs: float | None = None

    @property
    def aggregates(self) -> bool:
        """Whether the join gives aggregates instead of matches."""
        return isinstance(self.join, ResolvedRange | ResolvedOverlap) and bool(self.join.aggregates)


def choose_near(known: Known, algorithm: str) -> Choice:
    """Choose an algorithm, or check the one that was named.

    Raises
    ------
    PlanError
        If the named algorithm cannot serve, or none can.
    """
    options = tuple(
        Option(algorithm=name, cost_s=_cost_s(known, name), refusal=refusal_of(known, name))
        for name in kind_of(known.join.spec).algorithms["spark"]
    )
    if algorithm != "auto":
        option = next(option for option in options if option.algorithm == algorithm)
        if option.refusal:
            raise PlanError(f"algorithm={algorithm!r} cannot run this join: {option.refusal} Pass algorithm='auto'.")
        return Choice(algorithm=algorithm, reason="it was named", options=options)
    able = sorted((option.cost_s or 0.0, option.algorithm) for option in options if option.refusal is None)
    if not able:
        refusals = " ".join(f"{option.algorithm}: {option.refusal}" for option in options)
        raise PlanError(f"No algorithm can run this join as asked. {refusals}")
    reason = f"the other {len(options) - 1} are ruled out"
    if len(able) > 1:
        reason = f"it should cost the least, and {able[1][1]} is next"
    return Choice(algorithm=able[0][1], reason=reason, options=options)


def refusal_of(known: Known, algorithm: str) -> str | None:
    """Say why an algorithm cannot serve, or return None."""
    if algorithm in ("broadcast", "broadcast_left"):
        return _one_side_refusal(known, algorithm)
    if algorithm == "range":
        if not known.has_places:
            return "no condition tells where rows have to lie to match."
        return "it samples both sides when the join is built, which lazy=True forbids." if known.lazy else None
    if known.aggregates:
        return "it would have to make all matches to aggregate them: broadcast and range aggregate without."
    if known.no_sql is not None:
        return known.no_sql
    if algorithm == "sql" and not known.has_keys:
        return "nothing has to be equal, so Spark would compare all pairs: that is nested."
    if algorithm == "bucket":
        if not known.is_bounded:
            return "rows have no limit on one side, so that all of them would share a bin."
        if known.lazy and known.needs_sample:
            return "its bins depend on a sample of both sides, which lazy=True forbids."
    return None


def _one_side_refusal(known: Known, algorithm: str) -> str | None:
    name, how = ("right" if algorithm == "broadcast" else "left"), known.join.how
    if algorithm == "broadcast" and how in ("right", "full"):
        return f"how={how!r} keeps right rows that no left row matched, which no task knows alone."
    if algorithm == "broadcast_left" and (known.aggregates or how not in ("inner", "right")):
        asked = "agg=" if known.aggregates else f"how={how!r}"
        return f"{asked} asks what matches each left row in all, which no task knows alone."
    if known.lazy and not known.direct:
        return "it collects a side when the join is built, which lazy=True forbids."
    side = known.stats.right if algorithm == "broadcast" else known.stats.left
    room = known.resources.memory_bytes // 4
    limit = room if known.direct else min(BROADCAST_BYTES_MAX, room)
    if side.bytes is None:
        return f"the size of the {name} side is not known." if known.lazy else None
    if side.bytes > limit:
        return f"the {name} side has about {side.bytes / 1e6:,.0f} MB, and {limit / 1e6:,.0f} MB may go to every task."
    return None


def _cost_s(known: Known, algorithm: str) -> float:
    c, cores = Constants(), known.resources.cores
    left = known.stats.left.rows if known.stats.left.rows is not None else ASSUMED_ROWS
    right = known.stats.right.rows if known.stats.right.rows is not None else ASSUMED_ROWS
    pairs = known.pairs if known.pairs is not None else float(max(left, right))
    shown = left if known.aggregates or known.join.how in ("semi", "anti") else pairs
    to_task = c.direct_scan_ns if known.direct else c.scan_ns + c.to_python_ns
    given = shown * c.from_python_ns + (pairs * 2 if known.aggregates else 0)
    if algorithm == "broadcast":
        whole = right * (c.search_ns if known.direct else c.collect_ns + c.search_ns)
        return _START_S + (left * (to_task + c.search_ns) + given) / cores / 1e9 + whole / 1e9
    if algorithm == "broadcast_left":
        whole = left * (c.search_ns if known.direct else c.collect_ns + c.search_ns)
        return _START_S + (right * (to_task + c.search_ns) + given) / cores / 1e9 + whole / 1e9
    if algorithm == "range":
        moved = (left + right) * (to_task + c.scan_ns + c.shuffle_ns + c.to_python_ns + c.search_ns)
        return _START_S + 3 * c.stage_s + (moved + given) / cores / 1e9
    rows = (left + right) * c.scan_ns + shown * _MADE_NS
    if algorithm == "bucket":
        copies = (known.bins.left_copies, known.bins.right_copies) if known.bins is not None else (1.0, 2.0)
        moved = (left * copies[0] + right * copies[1]) * (c.shuffle_ns + c.sort_ns)
        compared = left * known.bins.candidates if known.bins is not None else 2 * pairs
        return 2 * c.stage_s + (rows + moved + compared * PAIR_NS) / cores / 1e9
    compared = left * right * (_COMPARED_NS if algorithm == "nested" or not known.has_keys else _COMPARED_NS / 10)
    return c.stage_s + (rows + compared) / cores / 1e9
