"""What a join by inequalities asks of two rows, whichever spec says it: equal values, bounded ones, and the rest.

Range, overlap and predicate joins come to the same: a left row matches the right rows whose keys are equal to its own,
whose values lie between limits that the left row sets, and for which what is left of the condition is true. Engines
look at a `JoinCondition` and need not know which kind of spec it is from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from juncture.spec.aggregate import aggregated_columns
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Domain, Side, plain_type

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node

Value: TypeAlias = "str | Node"
"""A value of each row of a side: a column, by its name, or an expression of a predicate."""


@dataclass(frozen=True, slots=True)
class EqualValues:
    """Two expressions that are equal in every match.

    Attributes
    ----------
    left, right
        The expressions.
    type
        The type that both are converted to; None if they can be coded as they are.
    null_safe
        Whether two nulls are equal.
    exact
        Whether the converted values are equal only where the expressions are.
    """

    left: Node
    right: Node
    type: pa.DataType | None
    null_safe: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that the rows of one side set to values of the other.

    Attributes
    ----------
    value
        A value of the side that sets it: of the left one, unless a `MatchInterval` says otherwise.
    upper, strict
        Which end it is, and whether the end itself does not match.
    offset
        Added to the value: steps of the domain, or a float among floats.
    column
        The column that holds what is added, row by row, in place of an offset; None if none does. Null and what is not
        finite match nothing.
    """

    value: Value
    upper: bool
    strict: bool = False
    offset: int | float | Fraction = 0
    column: str | None = None

    @property
    def is_moved(self) -> bool:
        """Whether anything is added."""
        return self.column is not None or self.offset != 0


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A right value, and the limits of it.

    Attributes
    ----------
    right
        The value.
    limits
        Its limits. None where rows are only brought into its order.
    domain
        What the values are compared as.
    type
        The type that all values are converted to first; None if they are of one kind.
    unsigned
        Whether all are unsigned integers.
    nan_counts
        Whether NaN is a value, equal to itself and greater than all others; otherwise it matches nothing.
    exact
        Whether values are within the limits only where the condition says so; else it has to be looked at again.
    """

    right: Value
    limits: tuple[Limit, ...]
    domain: Domain
    type: pa.DataType | None = None
    unsigned: bool = False
    nan_counts: bool = False
    exact: bool = True

    @property
    def is_band(self) -> bool:
        """Whether there are limits on both ends."""
        return len({limit.upper for limit in self.limits}) == 2

    def toward(self, *, upper: bool) -> BoundedValue:
        """Return the value with the limits of one end only."""
        return replace(self, limits=tuple(limit for limit in self.limits if limit.upper == upper))


@dataclass(frozen=True, slots=True)
class OwnInterval:
    """The ends of an interval in the rows of one side. Rows that lack one that is named match nothing.

    Attributes
    ----------
    start, end
        The columns; None where the interval is unbounded. One that starts after its end is an error.
    domain
        What they are compared as.
    may_be_empty
        Whether an interval that starts where it ends holds that point; otherwise such a row matches nothing.
    """

    start: str | None
    end: str | None
    domain: Domain
    unsigned: bool
    may_be_empty: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name in (self.start, self.end) if name is not None)


@dataclass(frozen=True, slots=True)
class MatchInterval:
    """Between which values the rows of both sides lie: those of rows that match have a value in common.

    Attributes
    ----------
    left, right
        The least and the greatest value, as the rows of each side set them; None where there is none.
    domain
        What the values are compared as.
    exact
        Whether they are compared as they are. Otherwise they are floats, times in seconds, and rounded outward; NaN is
        greater than all others.
    may_swap
        Whether the least may be above the greatest, and the row still match.
    """

    left: tuple[Limit | None, Limit | None]
    right: tuple[Limit | None, Limit | None]
    domain: Domain
    exact: bool = True
    may_swap: bool = False

    @property
    def limits(self) -> list[tuple[Side, Limit]]:
        """All ends, with the side that sets them."""
        sides: tuple[Side, Side] = ("left", "right")
        return [(side, limit) for side in sides for limit in self.ends(side) if limit is not None]

    @property
    def is_open(self) -> bool:
        """Whether one side has no end, so that nearly all rows lie on each other."""
        return None in (*self.left, *self.right)

    def ends(self, side: Side) -> tuple[Limit | None, Limit | None]:
        """Return the ends that a side sets."""
        return self.left if side == "left" else self.right

    def is_point(self, side: Side) -> bool:
        """Tell whether each row of a side lies at one place."""
        first, last = self.ends(side)
        return first is not None and last is not None and replace(first, upper=True) == last

    @property
    def width(self) -> float | None:
        """How far the left ends are apart, if that is the same for all rows."""
        first, last = self.left
        if first is None or last is None or first.value != last.value or first.column or last.column:
            return None
        width = float(last.offset - first.offset)
        return width * 10.0**-self.domain.scale if self.domain.kind == "decimal" else width


@dataclass(frozen=True, kw_only=True)
class JoinCondition:
    """When a left and a right row match.

    All that it says is *conservative*: it holds of every match. Where it is also *exact*, it holds of nothing else.

    Attributes
    ----------
    equalities
        What has to be equal besides the ``by`` columns.
    first
        A right value to sort by, and its limits; None if there is none.
    second
        Another one, with limits of one end; None if there is none.
    left_filter, right_filter
        What rows of a side have to satisfy by themselves; None for nothing.
    left_interval, right_interval
        Intervals that the rows of a side are; None if they are none.
    interval
        Between which values rows lie; None if nothing limits that. An end that is not strict may be, by what else the
        condition says.
    predicate
        What is true of every match, and of nothing else; None if all else says it.
    exact
        Whether the rest says as much as the predicate.
    """

    equalities: tuple[EqualValues, ...] = ()
    first: BoundedValue | None = None
    second: BoundedValue | None = None
    left_filter: Node | None = None
    right_filter: Node | None = None
    left_interval: OwnInterval | None = None
    right_interval: OwnInterval | None = None
    interval: MatchInterval | None = None
    predicate: Node | None = None
    exact: bool = True

    @property
    def inequalities(self) -> int:
        """How many right values are bounded."""
        return sum(value is not None for value in (self.first, self.second))

    @property
    def is_bounded(self) -> bool:
        """Whether right rows match left ones in a stretch of their order only, at both of its ends."""
        return self.right_interval is not None or (self.first is not None and self.first.is_band)

    def only_first(self) -> JoinCondition:
        """Return the condition without the second bounded value."""
        return replace(self, second=None, exact=self.exact and self.second is None)

    def unbounded(self, sorted_by: BoundedValue | None) -> JoinCondition:
        """Return a condition by which all pairs have to be looked at, and right rows are just sorted."""
        return replace(self, equalities=(), first=sorted_by, second=None, exact=False)


@dataclass(frozen=True, kw_only=True)
class ResolvedInequality(Resolved, ABC):
    """A join by inequalities that has been checked against two schemas.

    Attributes
    ----------
    tie_columns
        The right columns that order right rows for ``first`` and ``last``, after the value that `order_column` names.
    nulls_equal
        Whether null equals null in the ``by`` columns.
    """

    tie_columns: tuple[str, ...] = ()
    nulls_equal: bool = False

    @property
    def order_column(self) -> str | None:
        """The right column that orders the matches of a left row, before ties are looked at; None if there is none."""
        return None

    @property
    @abstractmethod
    def condition(self) -> JoinCondition:
        """When two rows match, their ``by`` columns aside."""

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows or aggregates."""
        aggregated = aggregated_columns(self.aggregates, self.tie_columns) if side == "right" else ()
        return tuple(dict.fromkeys((*super().needed(side), *aggregated)))


def is_unsigned(*types: pa.DataType) -> bool:
    """Tell whether all of some types are unsigned integers."""
    return all(pat.is_unsigned_integer(plain_type(each)) for each in types)
