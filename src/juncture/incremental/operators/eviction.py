"""Bounds of future changes, and the stored rows that no future change can need.

Each source is followed through the plan by bounds on values that its future changes cause: a filter keeps them, a
projection of rising expressions and the keys of groups and partitions carry them over, and the conditions of a join
carry them from the changed side to the other one. Rows outside the bounds of all sources are final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import true_rows
from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import (
    Call,
    Constant,
    Expression,
    InputColumn,
    evaluate,
    shifted,
    substituted,
    text_of,
)
from juncture.kernels.array_types import Mask

Frontiers = Mapping[str, pa.Array]
"""For each source with an order, the least value of its future changes, as an array of one value."""

Pairs = Sequence[tuple[Expression, Expression]]
"""Pairs of values: equal ones of different rows, or a lesser and a greater one of a row."""

IsNeverNull = Callable[[int], bool]
"""Whether a column is known not to have NULL."""

_ASCENDING = {"equal": (0, 1), "less": (0, 1), "less_equal": (0, 1), "greater": (1, 0), "greater_equal": (1, 0)}
"""The positions of the lesser and the greater operand of a comparison."""


@dataclass(frozen=True)
class Bound:
    """A limit of future changes: ``value`` is at least ``least``, or null. ``least`` is over the frontier."""

    value: Expression
    least: Expression

    def least_of(self, value: Expression, is_never_null: IsNeverNull | None = None) -> Expression | None:
        """Return the least value of an expression that follows from the bound; None if the expression may fall."""
        if value == self.value:
            return self.least
        position = _rising_operand(value)
        if not isinstance(value, Call) or position is None:
            return None
        operand = value.operands[position]
        if value.function == "coalesce" and (is_never_null is None or not all(map(is_never_null, operand.columns))):
            return None
        least = self.least_of(operand, is_never_null)
        return None if least is None else _with_operand(value, position, least)

    def solved(self) -> Bound:
        """Return a bound of a column in place of a bound of its sum with a constant."""
        value = self.value
        if not isinstance(value, Call):
            return self
        if isinstance(value.option, DuckQuery) and value.option.inverse is not None:
            inverse = replace(value, operands=(self.least,), option=value.option.inverse)
            return Bound(value.operands[0], inverse).solved()
        position = _rising_operand(value) if value.function in _INVERSE and pat.is_integer(value.type) else None
        if position is None or value.operands[position].type != value.type:
            return self
        least = Call(value.type, _INVERSE[value.function], (self.least, value.operands[1 - position]))
        return Bound(value.operands[position], least).solved()


@dataclass(frozen=True)
class FutureChanges:
    """The changes of rows that future changes of one source cause. All of them satisfy all bounds."""

    source: str
    bounds: tuple[Bound, ...] = ()

    def through(self, conditions: Iterable[Expression], ascending: Pairs = ()) -> FutureChanges:
        """Return the changes with the bounds that follow from conditions, and from further ascending pairs."""
        pairs = list(ascending)
        for each in conditions:
            if isinstance(each, Call) and each.function in _ASCENDING:
                lesser, greater = (each.operands[position] for position in _ASCENDING[each.function])
                pairs += [(lesser, greater), *([(greater, lesser)] if each.function == "equal" else [])]
        bounds = list(self.bounds)
        # Bounds that are added to the list are followed in turn.
        for bound in bounds:
            for lesser, greater in pairs:
                least = bound.least_of(lesser)
                if least is not None:
                    following = Bound(greater, least).solved()
                    if following.value not in [each.value for each in bounds]:
                        bounds.append(following)
        return replace(self, bounds=tuple(bounds))

    def carried(self, pairs: Pairs, is_never_null: IsNeverNull | None, *, is_last: bool) -> FutureChanges:
        """Return the changes of other rows, given pairs of their values and the equal values of these rows."""
        at = {value.index: column for column, value in pairs if isinstance(value, InputColumn)}

        def bounds() -> Iterator[Bound]:
            for bound in self.bounds:
                if bound.value.columns <= at.keys():
                    yield Bound(substituted(bound.value, at), bound.least)
                    if is_last:
                        continue
                for column, value in pairs:
                    least = None if isinstance(value, InputColumn) else bound.least_of(value, is_never_null)
                    if least is not None:
                        yield Bound(column, least)

        return replace(self, bounds=tuple(dict.fromkeys(bounds())))


Future = tuple[FutureChanges, ...]
"""All changes of some rows that are possible. A row is final if it violates a bound of each."""


def carry(
    future: Iterable[FutureChanges], pairs: Pairs, is_never_null: IsNeverNull | None = None, *, is_last: bool = False
) -> Future:
    """Return the changes of other rows, given pairs of their values and the equal values of these rows.

    Unless this ``is_last``, values that follow from others have bounds too, because nodes above may read them alone.
    """
    return tuple(each.carried(pairs, is_never_null, is_last=is_last) for each in future)


def moved(future: Future, by: int) -> Future:
    """Return changes with bounds over columns at other positions."""
    return tuple(
        replace(each, bounds=tuple(Bound(shifted(one.value, by), one.least) for one in each.bounds)) for each in future
    )


def joined(futures: Sequence[Future], firsts: Sequence[int], conditions: Sequence[Expression]) -> Future:
    """Return the changes of an inner join, given those of its inputs and the positions of their first columns."""
    return tuple(
        each.through(conditions) for future, first in zip(futures, firsts, strict=True) for each in moved(future, first)
    )


_INVERSE = {"add": "subtract", "subtract": "add"}


def _with_operand(value: Call, position: int, operand: Expression) -> Call:
    return replace(value, operands=(*value.operands[:position], operand, *value.operands[position + 1 :]))


def _rising_operand(value: Expression) -> int | None:
    """Return the only operand that is not constant, if the value of a call rises or stays as the operand rises."""
    if not isinstance(value, Call):
        return None
    positions = [position for position, each in enumerate(value.operands) if not isinstance(each, Constant)]
    position = positions[0] if len(positions) == 1 else None
    if position is None or value.function == "duckdb":
        return position if isinstance(value.option, DuckQuery) and value.option.rises else None
    others = [each.value for each in value.operands if isinstance(each, Constant)]
    if any(each is None for each in others):
        return None
    if value.function == "cast":
        types = value.type, value.operands[0].type
        are_numbers = all(pat.is_integer(each) or pat.is_floating(each) or pat.is_decimal(each) for each in types)
        return position if are_numbers else None
    if value.function in ("multiply", "divide", "int_divide") and not others[0] > 0:
        return None
    first = value.function in ("subtract", "divide", "int_divide", "coalesce")
    is_known = first or value.function in ("add", "multiply")
    return position if is_known and not (first and position) else None


def final_rows(future: Future, batch: pa.RecordBatch, *, frontiers: Frontiers) -> Mask:
    """Return which rows are final."""
    final = np.ones(batch.num_rows, np.bool_)
    for changes in future:
        excluded = np.zeros(batch.num_rows, np.bool_)
        for bound in changes.bounds:
            least = _least_value(bound, changes.source, frontiers)
            if least is None:
                continue
            try:
                values = evaluate(bound.value, batch.columns, batch.num_rows)
            except pa.ArrowException:
                # A value is outside the range of its type.
                continue
            excluded[true_rows(pc.less(values, least[0]))] = True
        final &= excluded
    return final


def least_values(future: Future, frontiers: Frontiers) -> list[pa.Array] | None:
    """Return an array with the limit of each change by its first bound; None if one of them is not known."""
    limits = [_least_value(each.bounds[0], each.source, frontiers) for each in future]
    return None if any(each is None for each in limits) else limits


def _least_value(bound: Bound, source: str, frontiers: Frontiers) -> pa.Array | None:
    """Return an array with the limit of a bound; None without a frontier, or outside the range of its type."""
    try:
        least = evaluate(bound.least, [frontiers[source]], 1) if source in frontiers else None
    except pa.ArrowException:
        return None
    return None if least is None or least.null_count else least


def retention(future: Future, names: Sequence[str]) -> str:
    """Return when rows are forgotten, as text."""
    unbounded = list(dict.fromkeys(changes.source for changes in future if not changes.bounds))
    if unbounded:
        return f"grows: any row can be needed by future changes of {', '.join(unbounded)}"
    texts = [
        " or ".join(f"{text_of(each.value, names)} < {text_of(each.least, [f'frontier of {changes.source}'])}"
                    for each in changes.bounds)
        for changes in future
    ]  # fmt: skip
    return f"forgets rows when {' and '.join(dict.fromkeys(texts))}"
