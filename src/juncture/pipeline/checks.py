"""Checks of sources and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from juncture.ordered.duration import duration_ns, format_duration
from juncture.pipeline.engine import Engine, MatchCounts
from juncture.pipeline.model import Check, DistanceLimits


@dataclass(frozen=True)
class Checked:
    """The result of one check.

    Attributes
    ----------
    of
        The source or step.
    expected, found
        The expected and the actual value, as text.
    fails
        Whether the pipeline stops if the check has not passed.
    """

    of: str
    expected: str
    found: str
    passed: bool
    fails: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)


def checked(check: Check, engine: Engine) -> Iterator[Checked]:
    """Yield the result of each expectation of a check."""
    name = check.from_ if check.table is None else f"{check.from_}.{check.table}"
    for expected, found, passed in _found(check, engine):
        yield Checked(name, expected, found, passed, check.on_failure == "error")


def _found(check: Check, engine: Engine) -> Iterator[tuple[str, str, bool]]:
    columns = [check.not_null] if isinstance(check.not_null, str) else check.not_null
    if check.rows is not None or columns:
        rows, nulls = engine.count(check.from_, columns)
        if check.rows is not None:
            low, high = check.rows.min, check.rows.max
            yield f"rows {_between(low, high)}", f"{rows:,}", (low or 0) <= rows and (high is None or rows <= high)
        for column in columns:
            yield f"{column} is never null", f"{nulls[column]:,} nulls", not nulls[column]
    keys = [check.unique] if isinstance(check.unique, str) else check.unique
    if keys:
        repeated = engine.repeated(check.from_, keys)
        yield f"{', '.join(keys)} unique", f"{repeated:,} values more than once", not repeated
    if check.min_match_rate is not None or check.max_distance is not None or check.max_leaked is not None:
        yield from _of_matches(check, engine.matches(check.from_, check.table))


def _of_matches(check: Check, matches: MatchCounts) -> Iterator[tuple[str, str, bool]]:
    if check.min_match_rate is not None:
        rate = matches.matched / matches.left_rows if matches.left_rows else 1.0
        yield f"at least {check.min_match_rate:.2%} matched", f"{rate:.2%}", rate >= check.min_match_rate
    if check.max_distance is not None:
        limits = check.max_distance
        if not isinstance(limits, DistanceLimits):
            limits = DistanceLimits(max=limits)
        for name, limit in limits.model_dump(exclude_none=True).items():
            yield _distance(name, limit, matches)
    if check.max_leaked is not None:
        leaked = matches.leaked or 0
        yield f"at most {check.max_leaked:,} rows available too late", f"{leaked:,}", leaked <= check.max_leaked


def _distance(name: str, limit: Any, matches: MatchCounts) -> tuple[str, str, bool]:
    expected, distances = f"distance {name} at most {limit}", matches.distances
    if distances is None and matches.matched:
        return expected, "on columns without distances", False
    if distances is None:
        return expected, "nothing matched", True
    value = getattr(distances, name)
    greatest = duration_ns(limit, argument="max_distance") if isinstance(limit, str) else limit
    return expected, format_duration(int(value)) if distances.is_time else f"{value:g}", value <= greatest


def _between(low: int | None, high: int | None) -> str:
    if high is None:
        return f"at least {low or 0:,}"
    return f"at most {high:,}" if low is None else f"from {low:,} to {high:,}"
