"""Why a left row has the matches that it has, or none."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from juncture.planner.report import label_of


@dataclass(frozen=True, kw_only=True, repr=False)
class Candidate:
    """A right row near a left row that is not among its matches.

    Attributes
    ----------
    right_row
        Its row number.
    values
        The columns that a join compares, as text.
    distance
        How far its ``on`` is: nanoseconds of dates and timestamps, else in the unit of ``on``; None if values have an
        order and no distances.
    excluded
        Why it is no match, the first that applies: ``"side"`` (not on the side of ``direction``), ``"exact"``
        (``allow_exact_matches=False``), ``"not_available"`` (``available_at``), ``"where"``, ``"beyond_tolerance"``,
        ``"window"`` (outside the window of a range join), or ``"not_best"``.
    explanation
        The same as text.
    """

    right_row: int
    values: str
    distance: float | None
    excluded: str
    explanation: str

    def __repr__(self) -> str:
        return f"  right row {self.right_row:,} ({self.values}): {self.explanation}"


@dataclass(frozen=True, kw_only=True, repr=False)
class RowExplanation:
    """Why a left row has the matches that it has, or none. Shown, it is a text.

    Made by `juncture.Plan.explain_row`; not to be made by hand.

    Attributes
    ----------
    left_row
        The row number.
    values
        Its columns that the join compares, as text.
    matches, match_count
        Row numbers of its matches, at most ten of them, best first; and how many there are.
    reason
        Why there is none: one of the counts of `MatchReport`, such as ``"beyond_tolerance"``. None if there is a match.
    explanation
        The same as text, in words of the join's columns.
    candidates
        Right rows near it that are not among its matches, the nearest first. Of as-of and range joins.
    """

    left_row: int
    values: str
    matches: tuple[int, ...]
    match_count: int
    reason: str | None
    explanation: str
    candidates: tuple[Candidate, ...] = ()

    def __repr__(self) -> str:
        if self.reason is None:
            rows = ", ".join(f"{row:,}" for row in self.matches) + (
                ", …" if self.match_count > len(self.matches) else ""
            )
            outcome = f"{self.match_count:,} match{'es' if self.match_count > 1 else ''}, right row {rows}"
        else:
            outcome = f"no match, {label_of(self.reason)}" + (f": {self.explanation}" if self.explanation else "")
        lines = [f"left row {self.left_row:,} ({self.values}): {outcome}"]
        lines += [str(each) for each in self.candidates]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"
