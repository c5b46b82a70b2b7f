"""The join condition of a predicate: equal expressions, and limits of right expressions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

import pyarrow as pa

from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of
from juncture.ordered.numbers import Decimals, Floats
from juncture.predicate.decompose.shape import Ends, IntervalPair, Key, Shape
from juncture.predicate.language.nodes import Column, Node
from juncture.predicate.language.types import Type, arrow_type
from juncture.spec.condition import BoundedValue, EqualValues, JoinCondition, Limit, MatchInterval, Value
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_SCALE_MAX = 19  # decimals of 38 digits represent 64-bit integers beside this many digits after the point


def condition_of(predicate: Node, shape: Shape) -> JoinCondition:
    """Return a predicate's condition. A band to sort by takes precedence over single limits."""
    equalities, exact = equalities_of(shape)
    limits = limits_of(shape)
    first, second = (*islice(_bounded_values(limits), 2), None, None)[:2]
    if second is not None and second.is_band:
        second = second.toward(upper=False)
    bounded = [value for value in (first, second) if value is not None]
    used = sum(len(value.limits) for value in bounded)
    exact = exact and shape.residual is None and used == len(limits) and all(value.exact for value in bounded)
    return JoinCondition(
        equalities=tuple(equalities),
        first=first,
        second=second,
        left_filter=shape.left_filter,
        right_filter=shape.right_filter,
        # The part of the shape that limits pairs the most.
        interval=next((each for pair in shape.intervals if (each := _interval(pair)) is not None), None),
        predicate=predicate,
        exact=exact,
    )


def equalities_of(shape: Shape) -> tuple[list[EqualValues], bool]:
    """Return the equalities usable as keys, and whether these are all of them and exact."""
    equalities = [equality for key in shape.keys if (equality := _equality(key))]
    return equalities, len(equalities) == len(shape.keys) and all(equality.exact for equality in equalities)


def _equality(key: Key) -> EqualValues | None:
    kinds = {key.left.type.kind, key.right.type.kind}
    if "null" in kinds or (kinds == {"duration"} and key.left.type.unit != key.right.type.unit):
        return None
    if len(kinds) == 1:
        return EqualValues(key.left, key.right, None, key.null_safe, exact=True)
    if not kinds <= {"integer", "decimal", "float"}:
        return None
    if "float" in kinds:
        return EqualValues(key.left, key.right, pa.float64(), key.null_safe, exact=False)
    scale = max(key.left.type.scale, key.right.type.scale)
    if scale > _SCALE_MAX:
        return None
    return EqualValues(key.left, key.right, pa.decimal256(38 + scale, scale), key.null_safe, exact=True)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit of a right expression: a left one plus a constant, a number or seconds."""

    left: Node
    right: Node
    offset: Fraction
    upper: bool
    strict: bool


def limits_of(shape: Shape) -> list[_Limit]:
    """Return all limits of right expressions in a shape, those at constant distances first."""
    ordered = sorted(shape.intervals, key=lambda pair: pair.kind in ("containment", "overlap"))
    return [limit for pair in ordered for limit in _limits_of_pair(pair)]


def _limits_of_pair(pair: IntervalPair) -> list[_Limit]:
    """Return the limits by which each interval starts before the other ends. A right point is bounded below first."""
    (left_start, left_end), (right_start, right_end) = pair.left, pair.right
    ends = ((right_start, left_end, True), (right_end, left_start, False))
    return [
        _Limit(left.expression, right.expression, left.amount - right.amount, upper, left.strict or right.strict)
        for right, left, upper in (reversed(ends) if right_start == right_end else ends)
        if right is not None and left is not None
    ]


def bounded_values(shape: Shape) -> tuple[list[BoundedValue], bool]:
    """Return all right expressions that a shape limits, bands first, and whether all limits are among them."""
    limits = limits_of(shape)
    bounded = list(_bounded_values(limits))
    return bounded, sum(len(value.limits) for value in bounded) == len(limits)


def equal_bounds(left: Node, right: Node) -> BoundedValue | None:
    """Return a right expression limited at both ends by the left one that it equals; None without an order."""
    return _bounded_value(right, [_Limit(left, right, Fraction(0), upper, False) for upper in (False, True)])


def _bounded_values(limits: Iterable[_Limit]) -> Iterator[BoundedValue]:
    """Yield right expressions with their limits, bands first. Lazy, since callers need a few of many."""
    by_right: dict[Node, list[_Limit]] = {}
    for limit in limits:
        by_right.setdefault(limit.right, []).append(limit)
    single: list[tuple[Node, list[_Limit]]] = []
    for right, limits in by_right.items():
        value = _bounded_value(right, limits) if len({limit.upper for limit in limits}) == 2 else None
        if value is not None and value.is_band:
            yield value
        else:
            single.append((right, limits))
    for right, limits in single:
        value = _bounded_value(right, limits)
        if value is not None:
            yield value


def _bounded_value(right: Node, limits: list[_Limit]) -> BoundedValue | None:
    """Return a right expression with the limits that its type allows; None if there are none."""
    usable = []
    domain: Domain | None = None
    target: pa.DataType | None = None
    types = {right.type}
    for limit in limits:
        joined, _ = _domain([limit.left.type, right.type])
        if joined is not None and (domain is None or isinstance(joined, type(domain))):
            usable.append(limit)
            if domain is None or limit.left.type not in types:
                types.add(limit.left.type)
                domain, target = _domain(list(types))
    if domain is None:
        return None
    usable_limits = tuple(Limit(each.left, each.upper, each.strict, _steps(each.offset, domain)) for each in usable)
    exact = not domain.floating or (target is None and not any(limit.is_moved for limit in usable_limits))
    return BoundedValue(right, usable_limits, domain, target, exact=exact)


def _steps(offset: Fraction, domain: Domain) -> float | Fraction:
    """Return a number, or seconds, in steps of a domain."""
    return float(offset) if domain.floating else offset / domain.step


def _domain(types: list[Type]) -> tuple[Domain | None, pa.DataType | None]:
    """Return the domain in which values of some types are compared, if any, and the type to convert them to first."""
    if len({each.kind for each in types}) > 1:
        scale = max(each.scale for each in types)
        if not all(each.is_number for each in types):
            return None, None
        if any(each.kind == "float" for each in types):
            return Floats(nan_counts=True), pa.float64()
        return (Decimals(scale), pa.decimal128(38, scale)) if scale <= _SCALE_MAX else (None, None)
    domain = domain_of(*map(arrow_type, types))
    if domain is None or domain.is_asof_only:
        return None, None
    return Floats(nan_counts=True) if domain.floating else domain, None


def sorting_value(columns: Iterable[Column]) -> BoundedValue | None:
    """Return the first right column that can be sorted by a 64-bit code, without limits."""
    for column in columns:
        domain, _ = _domain([column.type])
        if column.side == "right" and domain is not None and column.type.kind != "decimal":
            return BoundedValue(column, (), domain)
    return None


def type_of_value(join: Resolved, side: Side, value: Value) -> pa.DataType:
    """Return the type of a value of a side."""
    if not isinstance(value, str):
        return arrow_type(value.type)
    return join.schema(side).field(value).type


def _interval(part: IntervalPair) -> MatchInterval | None:
    """Return a pair of intervals in whole 64-bit steps if all values have one unit; else in floats."""
    types = [end.expression.type for end in (*part.left, *part.right) if end is not None]
    kinds = {each.kind for each in types}
    numbers, times = kinds <= {"integer", "decimal", "float"}, kinds <= {"date", "timestamp"}
    if not kinds or not (numbers or times or kinds == {"duration"}):
        return None
    # Decimals may not fit in 64 bits.
    is_whole = len({(each.kind, each.unit) for each in types}) == 1 and not kinds & {"decimal", "float"}
    integer_domain = domain_of(arrow_type(types[0])) if is_whole else None
    left, right = _limits(part.left, integer_domain), _limits(part.right, integer_domain)
    return MatchInterval(
        left, right, integer_domain or Floats(), exact=integer_domain is not None, may_swap=part.kind == "overlap"
    )


def _limits(ends: Ends, domain: Domain | None) -> tuple[Limit | None, Limit | None]:
    """Return ends with offsets rounded outward; without a domain, as numbers or seconds."""
    first, last = (
        None if end is None else Limit(end.expression, upper, offset=end.amount)
        for end, upper in zip(ends, (False, True), strict=True)
    )
    if domain is None:
        return first, last
    return (
        None if first is None else replace(first, offset=math.floor(first.offset / domain.step)),
        None if last is None else replace(last, offset=math.ceil(last.offset / domain.step)),
    )
