"""What an as-of join found: how many rows matched, why the others did not, and how far away the matches were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from juncture.ordered.duration import format_duration


@dataclass(frozen=True, kw_only=True)
class Distances:
    """How far matches are from their left rows: the least, the greatest, and between them quantiles.

    A quantile is the least distance that this share of the matches does not exceed, so it occurs in the data. Of
    dates and timestamps distances are nanoseconds, otherwise they are in the unit of the ``on`` columns.
    """

    min: float
    p50: float
    p90: float
    p99: float
    max: float
    is_time: bool

    def words(self) -> str:
        """Say what they are in a line."""
        figures = {name: getattr(self, name) for name in ("min", "p50", "p90", "p99", "max")}
        return ", ".join(f"{name} {figure(value, is_time=self.is_time)}" for name, value in figures.items())


def figure(distance: float, *, is_time: bool) -> str:
    """Return a distance as texts show it."""
    return format_duration(int(distance)) if is_time else f"{distance:,.12g}"


REASONS = ("null_on", "null_key", "unknown_key", "no_candidate", "beyond_tolerance")
"""Why a left row has no match: the first that applies."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MatchReport:
    """The left rows of an as-of join, counted by what became of them.

    Every left row is counted in ``matched`` or in exactly one of the reasons, the first that applies in the order
    below. It does not matter which rows the join's ``how`` keeps.

    Attributes
    ----------
    left_rows, right_rows
        Rows of the inputs.
    matched
        Left rows with a match.
    null_on
        Left rows whose ``on`` is null or NaN.
    null_key
        Left rows with a null among their ``by`` values.
    unknown_key
        Left rows whose ``by`` values no right row has (with an ``on`` that is not null or NaN).
    no_candidate
        Left rows whose key the right has, but not on the wanted side of them.
    beyond_tolerance
        Left rows whose nearest right row on the wanted side is farther than the tolerance, or whose own tolerance is
        null or negative.
    ties
        Matched left rows for which several right rows have the best ``on``.
    distances
        Of the best match of each matched left row; None if nothing matched, or ``on`` is of values that have an order
        and no distances: texts, bytes and several columns.
    explanations
        What the counts mean in words of the join's columns, by their names. Counts without one are always 0.
    """

    left_rows: int
    right_rows: int
    matched: int
    null_on: int
    null_key: int
    unknown_key: int
    no_candidate: int
    beyond_tolerance: int
    ties: int
    distances: Distances | None
    explanations: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data.

        Examples
        --------
        >>> counts = dict.fromkeys((*REASONS, "ties"), 0)
        >>> report = MatchReport(left_rows=0, right_rows=2, matched=0, distances=None, explanations={}, **counts)
        >>> report.to_dict()["right_rows"]
        2
        """
        return asdict(self)

    def lines(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield what is counted, how many rows that are, their share of the left rows, and what it means."""
        yield "left rows", f"{self.left_rows:,}", "", ""
        yield "right rows", f"{self.right_rows:,}", "", ""
        yield self._line("matched", self.matched)
        yield self._line("unmatched", self.left_rows - self.matched)
        for name in REASONS:
            if name in self.explanations:
                yield self._line(f"  {label_of(name)}", getattr(self, name), self.explanations[name])
        yield self._line("ties", self.ties, self.explanations.get("ties", ""))

    def __repr__(self) -> str:
        lines = list(self.lines())
        label, count = (max(len(line[place]) for line in lines) for place in (0, 1))
        rows = [f"{name:<{label}}  {rows:>{count}}  {share:>7}  {why}".rstrip() for name, rows, share, why in lines]
        return "\n".join([*rows, f"{'distance':<{label}}  {distances_in_words(self)}"])

    def _repr_html_(self) -> str:
        rows = [*self.lines(), ("distance", distances_in_words(self), "", "")]
        cells = ("".join(f"<td>{escape(cell.strip())}</td>" for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"

    def _line(self, label: str, rows: int, why: str = "") -> tuple[str, str, str, str]:
        return label, f"{rows:,}", f"{rows / self.left_rows:.2%}" if self.left_rows else "", why


def label_of(name: str) -> str:
    """Return the name of a count as texts show it."""
    return name.replace("_", " ")


def distances_in_words(report: MatchReport) -> str:
    """Say in a line how far matches are."""
    if report.distances is not None:
        return report.distances.words()
    return "none: values of on have an order alone" if report.matched else "none, since nothing matched"
