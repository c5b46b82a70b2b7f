"""The part of a predicate that tells where rows have to lie to match: the line, and the ends on both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from juncture.predicate.decompose.shape import Band, End, Shape
from juncture.predicate.language.nodes import Node, sides
from juncture.predicate.language.types import DAY_S, TIME_STEPS

__all__ = ["Ends", "MatchInterval", "match_interval_of"]

Ends = tuple[End | None, End | None]


@dataclass(frozen=True)
class MatchInterval:
    """Between which values the rows of both sides lie: those of rows that match have a value in common.

    Attributes
    ----------
    left, right
        The ends; None where there is none.
    may_swap
        Whether a first end may be after a last one, and the row still match.
    """

    left: Ends
    right: Ends
    may_swap: bool = False

    @property
    def _expressions(self) -> list[Node]:
        return [end.expression for end in (*self.left, *self.right) if end is not None]

    @property
    def is_usable(self) -> bool:
        """Whether the values lie on one line."""
        kinds = {node.type.kind for node in self._expressions}
        numbers, times = kinds <= {"integer", "decimal", "float"}, kinds <= {"date", "timestamp"}
        return bool(kinds) and (numbers or times or kinds == {"duration"})

    @property
    def is_whole(self) -> bool:
        """Whether all values count the same steps, and fit 64 bits."""
        types = [node.type for node in self._expressions]
        same = {(data_type.kind, data_type.unit) for data_type in types}
        return len(same) == 1 and types[0].kind in ("integer", "date", "timestamp", "duration")

    @property
    def is_open(self) -> bool:
        """Whether one side has no end, so that nearly all rows lie on each other."""
        return None in (*self.left, *self.right)

    @property
    def are_points(self) -> bool:
        """Whether each right row lies at one place."""
        return self.right[0] == self.right[1]

    @property
    def width(self) -> float | None:
        """How far the left ends are apart, if that is the same for all rows."""
        first, last = self.left
        if first is None or last is None or first.expression != last.expression:
            return None
        if self.is_whole:
            return float(self.steps(last, upper=True) - self.steps(first, upper=False))
        return float(last.amount - first.amount)

    @property
    def step_ns(self) -> int:
        """How long a step is in Spark, of times that are whole steps; otherwise 0."""
        kind = self._expressions[0].type.kind
        return {"date": 86_400_000_000_000, "timestamp": 1_000, "duration": 1_000}.get(kind, 0) if self.is_whole else 0

    def steps(self, end: End, *, upper: bool, unit: str = "us") -> int:
        """Return an offset in steps of the line, of which times have some unit, rounded away from the middle."""
        if not end.unit:
            steps = end.amount
        elif end.expression.type.kind == "date":
            steps = end.amount / DAY_S
        else:
            steps = end.amount * TIME_STEPS[unit]
        return math.ceil(steps) if upper else math.floor(steps)


def match_interval_of(shape: Shape) -> MatchInterval | None:
    """Return the part of a predicate's shape that limits pairs the most, or None if there is none."""
    return next((interval for interval in _match_intervals(shape) if interval.is_usable), None)


def _match_intervals(shape: Shape) -> Iterator[MatchInterval]:
    for band in shape.bands:
        yield _around(band)
    for part in shape.containments:
        point, ends = End(part.point), (part.lower, part.upper)
        if sides(part.point) == {"right"}:
            yield MatchInterval(ends, (point, point))
        else:
            yield MatchInterval((point, point), ends)
    for overlap in shape.overlaps:
        ends = (overlap.left_start, overlap.left_end)
        yield MatchInterval(ends, (End(overlap.right_start), End(overlap.right_end)), may_swap=True)
    for band in shape.inequalities:
        yield _around(band)


def _around(band: Band) -> MatchInterval:
    return MatchInterval((band.lower, band.upper), (End(band.right), End(band.right)))
