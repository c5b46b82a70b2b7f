"""The condition of inequality joins, common to range, overlap and predicate joins.

A left row matches the right rows with equal keys whose values lie between limits set by the left row, and that satisfy
the remaining predicate. Engines read a `JoinCondition` regardless of the kind of spec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeAlias

import pyarrow as pa

from juncture.ordered.domain import Domain
from juncture.spec.aggregate import aggregated_columns
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node

Value: TypeAlias = "str | Node"
"""A value per row of a side: a column name or an expression of a predicate."""


@dataclass(frozen=True, slots=True)
class EqualValues:
    """Two expressions that are equal in every match."""

    left: Node
    right: Node
    type: pa.DataType | None  # the type to convert both to; None if they can be coded without conversion
    null_safe: bool
    exact: bool  # whether the converted values are equal only where the expressions are


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that the rows of one side set to values of the other: ``value + offset``, or ``value + column``."""

    value: Value  # of the left side, except in a `MatchInterval`
    upper: bool
    strict: bool = False  # whether the end is excluded
    offset: int | float | Fraction = 0  # in steps of the domain, or a float for floats
    column: str | None = None  # replaces the offset, row by row; null and non-finite values match nothing

    @property
    def is_moved(self) -> bool:
        """Whether anything is added to the value."""
        return self.column is not None or self.offset != 0


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A right value and its limits, which are empty where rows are only sorted by the value."""

    right: Value
    limits: tuple[Limit, ...]
    domain: Domain
    type: pa.DataType | None = None  # the type to convert all values to first; None if they have one kind
    exact: bool = True  # if not, matches need a recheck

    @property
    def is_band(self) -> bool:
        """Whether both ends are limited."""
        return len({limit.upper for limit in self.limits}) == 2

    def toward(self, *, upper: bool) -> BoundedValue:
        """Return the value with the limits of one end only."""
        return replace(self, limits=tuple(limit for limit in self.limits if limit.upper == upper))


@dataclass(frozen=True, slots=True)
class OwnInterval:
    """The columns of an interval in the rows of one side; a null end matches nothing, reversed ends are an error."""

    start: str | None  # None if unbounded, like the end
    end: str | None
    domain: Domain
    # Whether an interval whose start equals its end contains that point; otherwise it matches nothing.
    may_be_empty: bool
    labels: tuple[str, ...]  # name the columns in messages

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        if self.start is None or self.end is None:
            return tuple(name for name in (self.start, self.end) if name is not None)
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class MatchInterval:
    """The values between which the rows of both sides lie: matching rows have a value in common."""

    left: tuple[Limit | None, Limit | None]  # the least and the greatest value of each row; None where unlimited
    right: tuple[Limit | None, Limit | None]
    domain: Domain
    exact: bool = True  # if not, values are floats (times in seconds), rounded outward, with NaN greatest
    may_swap: bool = False  # whether a row can match although its least value is above its greatest

    @property
    def limits(self) -> list[tuple[Side, Limit]]:
        """All ends, with their side."""
        return [(side, limit) for side in SIDES for limit in self.ends(side) if limit is not None]

    @property
    def is_open(self) -> bool:
        """Whether one side has no end, so that nearly all rows overlap."""
        return None in (*self.left, *self.right)

    def ends(self, side: Side) -> tuple[Limit | None, Limit | None]:
        """Return the ends of a side."""
        return self.left if side == "left" else self.right

    def is_point(self, side: Side) -> bool:
        """Return whether each row of a side is a single point."""
        first, last = self.ends(side)
        return first is not None and last is not None and replace(first, upper=True) == last

    @property
    def width(self) -> float | None:
        """The distance between the left ends, if it is the same for all rows."""
        first, last = self.left
        if first is None or last is None or first.value != last.value or first.column or last.column:
            return None
        width = float(last.offset - first.offset)
        return width if self.domain.is_time else width * float(self.domain.step)


@dataclass(frozen=True, kw_only=True)
class JoinCondition:
    """When a left and a right row match. All parts are *conservative*: they hold for every match."""

    equalities: tuple[EqualValues, ...] = ()  # equal values besides the ``by`` columns
    first: BoundedValue | None = None  # a right value to sort by, with its limits
    second: BoundedValue | None = None  # another one, limited at one end
    left_filter: Node | None = None  # conditions on the rows of one side
    right_filter: Node | None = None
    left_interval: OwnInterval | None = None  # the intervals that the rows of a side are
    right_interval: OwnInterval | None = None
    # The values between which rows lie. An end that is not strict may be strict by another part.
    interval: MatchInterval | None = None
    predicate: Node | None = None  # true for matches, and for nothing else; None if the other parts say it all
    exact: bool = True  # whether the parts hold for matches only

    @property
    def inequalities(self) -> int:
        """The number of bounded right values."""
        return sum(value is not None for value in (self.first, self.second))

    @property
    def is_bounded(self) -> bool:
        """Whether the matches of a left row are contiguous in the right order, bounded at both ends."""
        return self.right_interval is not None or (self.first is not None and self.first.is_band)

    @cached_property
    def without_left_interval(self) -> JoinCondition:
        """The condition for left rows whose intervals have all been found to contain a point."""
        return replace(self, left_interval=None)

    def only_first(self) -> JoinCondition:
        """Return the condition without the second bounded value."""
        return replace(self, second=None, exact=self.exact and self.second is None)

    def unbounded(self, sorted_by: BoundedValue | None) -> JoinCondition:
        """Return a condition by which all pairs are compared, and right rows are only sorted."""
        return replace(self, equalities=(), first=sorted_by, second=None, exact=False)


@dataclass(frozen=True, kw_only=True)
class ResolvedInequality(Resolved, ABC):
    """A validated join by inequalities. ``tie_columns`` follow the right column that orders matches."""

    @property
    def window_names(self) -> tuple[str, ...]:
        """The names of the windows for which aggregates are computed; empty if there is a single one."""
        return ()

    def in_window(self, _name: str, /) -> Self:
        """Return the join for one of several windows."""
        return self

    @property
    @abstractmethod
    def condition(self) -> JoinCondition:
        """The condition under which two rows match, without the ``by`` columns."""

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows or aggregates."""
        aggregated = aggregated_columns(self.aggregates, self.tie_columns) if side == "right" else ()
        return tuple(dict.fromkeys((*super().needed(side), *aggregated)))
