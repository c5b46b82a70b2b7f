"""Reports of joins: counts of matches with the reasons of other rows, single rows explained, and measured runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from juncture.ordered.duration import format_duration
from juncture.runtime.progress import Phase


@dataclass(frozen=True, kw_only=True)
class Distances:
    """How far matches are from their left rows: nanoseconds of dates and timestamps, else in the unit of ``on``.

    A quantile is the least distance that this share of the matches does not exceed, so it occurs in the data.
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
    """The left rows of a join, or the rows of a spine, counted by what became of them.

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
        Left rows whose ``by`` values no right row has (of an as-of join, with an ``on`` that is not null or NaN).
    no_candidate
        Left rows whose key the right has, but not on the wanted side of them.
    beyond_tolerance
        Left rows whose nearest right row on the wanted side is farther than the tolerance, or whose own tolerance is
        null or negative.
    ties
        Of an as-of join, matched left rows for which several right rows have the best ``on``; otherwise None.
    distances
        Of an as-of join, those of the best match of each matched left row; None if nothing matched, or ``on`` is of
        values that have an order and no distances: texts, bytes and several columns.
    leaked
        Of a table of `juncture.join_many` with ``check_available_at``, matched rows whose match, or one of those that
        are aggregated, became available only after the row's own time; otherwise None.
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
    ties: int | None
    distances: Distances | None
    leaked: int | None = None
    explanations: Mapping[str, str]

    @property
    def reasons(self) -> dict[str, int]:
        """The left rows without a match, by their reason."""
        return {name: getattr(self, name) for name in REASONS}

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
        for name, rows in self.reasons.items():
            if name in self.explanations:
                yield self._line(f"  {label_of(name)}", rows, self.explanations[name])
        if self.ties is not None:
            yield self._line("ties", self.ties, self.explanations.get("ties", ""))
        if self.leaked is not None:
            yield self._line("leaked", self.leaked, "available too late")

    def distance(self) -> tuple[tuple[str, str], ...]:
        """Return how far matches are, as a heading and a text; nothing unless the join is an as-of join."""
        if self.ties is None:
            return ()
        why = "none: values of on have an order alone" if self.matched else "none, since nothing matched"
        return (("distance", why if self.distances is None else self.distances.words()),)

    def __repr__(self) -> str:
        lines = list(self.lines())
        label, count = (max(len(line[index]) for line in lines) for index in (0, 1))
        rows = [f"{name:<{label}}  {rows:>{count}}  {share:>7}  {why}".rstrip() for name, rows, share, why in lines]
        return "\n".join([*rows, *(f"{name:<{label}}  {words}" for name, words in self.distance())])

    def _repr_html_(self) -> str:
        rows = [*self.lines(), *self.distance()]
        cells = ("".join(f"<td>{escape(cell.strip())}</td>" for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"

    def _line(self, label: str, rows: int, why: str = "") -> tuple[str, str, str, str]:
        return label, f"{rows:,}", f"{rows / self.left_rows:.2%}" if self.left_rows else "", why


def label_of(name: str) -> str:
    """Return the name of a count as texts show it."""
    return name.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What happened when a join ran. None stands for what cannot be known, and ``unknown`` says why."""

    algorithm: str | None = None  # another than the plan's where a stream turned out too large for that
    duration_s: float  # wall time
    compile_s: float | None = None  # of it, to compile or load kernels: once per process. On Spark, workers do that
    left_rows: int | None = None
    right_rows: int | None = None
    output_rows: int
    phases: tuple[Phase, ...] = ()  # in the order of time; a join that works in turns has several of one name
    shuffle_bytes: int | None = None  # on Spark, what tasks wrote for others to read
    spilled_bytes: int | None = None  # written to temporary files
    peak_memory_bytes: int | None = None  # the most that the process has held since it started
    earlier_peak_bytes: int | None = None  # the same when the join began; where both are equal, it stayed below them
    task_bytes: int | None = None  # on Spark, the most that tables and sorts of a task held in the JVM, not in Python
    unknown: tuple[tuple[str, str], ...] = ()  # what is not known, with the reason: a heading and a text

    def totals(self) -> dict[str, float]:
        """Return the seconds of each kind of phase, in the order in which they first came."""
        totals: dict[str, float] = {}
        for phase in self.phases:
            totals[phase.name] = totals.get(phase.name, 0.0) + phase.duration_s
        return totals


@dataclass(frozen=True, kw_only=True, repr=False)
class Candidate:
    """A right row near a left row that is not among its matches."""

    right_row: int  # its row number
    values: str  # of the columns that a join compares
    # How far its ``on`` is: nanoseconds of dates and timestamps, else in the unit of ``on``; None without distances.
    distance: float | None
    # The first that applies: "side" (not on the side of ``direction``), "exact" (``allow_exact_matches=False``),
    # "not_available" (``available_at``), "where", "beyond_tolerance", "window" (of a range join) or "not_best".
    excluded: str
    explanation: str  # the same in words

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
