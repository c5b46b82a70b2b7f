"""The shape of a predicate for planning: equality keys, ranges, overlaps, filters and the remainder."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from juncture.columnar.types import DAY_S, TIME_UNITS
from juncture.predicate.decompose.linear import LinearComparison, Number, may_overflow, separate
from juncture.predicate.intervals.graph import possible
from juncture.predicate.intervals.interval import Interval
from juncture.predicate.intervals.relate import OPPOSITE, flipped
from juncture.predicate.language import build, conversions, nodes
from juncture.predicate.language.nodes import Column, Compare, Node, sides
from juncture.predicate.language.sql import describe
from juncture.predicate.language.types import TIME_STEPS, ArithmeticOperator, Type

_MOST_SHOWN = 20  # the most keys, bands and so on that an explanation shows of each


@dataclass(frozen=True, slots=True)
class Key:
    """An equality that every match satisfies. NaN equals NaN, -0.0 equals 0.0; with ``null_safe`` null equals null."""

    left: Node
    right: Node
    null_safe: bool = False

    def __str__(self) -> str:
        return f"{describe(self.left)} {'<=>' if self.null_safe else '='} {describe(self.right)}"


@dataclass(frozen=True, slots=True)
class End:
    """An end of a range, ``expression + offset``, added exactly beyond any limit of the type; ``strict`` excludes it.

    ``offset`` is a number, or whole steps of ``unit`` (``d``, ``s``, ``ms``, ``us``, ``ns``) for times.
    """

    expression: Node
    offset: Number = 0
    strict: bool = False
    unit: str = ""

    @property
    def amount(self) -> Fraction:
        """The offset as a number, or in seconds."""
        if not self.unit:
            return self.offset if isinstance(self.offset, Fraction) else Fraction(self.offset)
        return Fraction(self.offset) * (DAY_S if self.unit == "d" else Fraction(1, TIME_STEPS[self.unit]))

    def __str__(self) -> str:
        text = describe(self.expression)
        if not self.offset:
            return text
        sign, size = ("-" if self.offset < 0 else "+"), abs(Fraction(self.offset))
        number = str(size) if size.denominator == 1 else str(float(size))
        return f"{text} {sign} {number}{self.unit}"


Ends: TypeAlias = tuple[End | None, End | None]
"""The first and the last value of an interval; None where it is unbounded."""

PairKind = Literal["band", "containment", "overlap", "inequality"]


@dataclass(frozen=True, slots=True)
class IntervalPair:
    """An interval of each table, which share a point in every match: each starts before the other ends.

    - ``band``: a right point around a left expression, with both ends at constant distances
    - ``containment``: a point of one table between two expressions of the other, which vary by row
    - ``overlap``: two intervals; each may start after its end
    - ``inequality``: a band with one end

    Nulls never match. NaN equals itself and is greater than all other floats, as in Spark. The two ends of a point are
    equal. Intervals that only touch do not match if a touching end is ``strict``.
    """

    kind: PairKind
    left: Ends
    right: Ends

    def __str__(self) -> str:
        (left_start, left_end), (right_start, right_end) = self.left, self.right
        if self.kind == "overlap":
            return f"{_range_text(right_end, left_start, None)} AND {_range_text(right_start, None, left_end)}"
        return (
            _range_text(right_start, *self.left) if right_start == right_end else _range_text(left_start, *self.right)
        )


def _range_text(middle: End | None, lower: End | None, upper: End | None) -> str:
    below = f"{lower} {'<' if lower.strict else '<='} " if lower else ""
    above = f" {'<' if upper.strict else '<='} {upper}" if upper else ""
    return f"{below}{middle}{above}"


@dataclass(frozen=True, slots=True)
class Shape:
    """A predicate taken apart. All parts together are true exactly where the predicate is."""

    keys: tuple[Key, ...] = ()
    intervals: tuple[IntervalPair, ...] = ()  # share a point; the most selective kind first
    left_filter: Node | None = None  # conditions on the rows of one table
    right_filter: Node | None = None
    residual: Node | None = None  # the remaining condition on pairs of rows
    notes: tuple[str, ...] = ()  # why parts of the residual are not among the rest, or are rechecked

    @property
    def links(self) -> bool:
        """Whether any part relates the two tables."""
        return bool(self.keys or self.intervals) or (self.residual is not None and len(sides(self.residual)) == 2)

    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return the parts for readers, each with its label: a key, a band, the residual."""
        parts = [("key", str(key)) for key in self.keys]
        for kind in get_args(PairKind):
            parts += _first(kind, [pair for pair in self.intervals if pair.kind == kind])
        for name in ("left_filter", "right_filter", "residual"):
            node = getattr(self, name)
            parts += [(name.replace("_", " "), describe(node))] if node is not None else []
        return (*parts, *_first("note", self.notes))

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.parts())


def _first(label: str, parts: Sequence[object]) -> list[tuple[str, str]]:
    """Return the first of many parts, each with its label, and the number of others."""
    first = [(label, str(part)) for part in parts[:_MOST_SHOWN]]
    return [*first, (label, f"… {len(parts) - _MOST_SHOWN:,} more")] if len(parts) > _MOST_SHOWN else first


def shape(node: Node, bounds: Mapping[Column, Interval] | None = None) -> Shape:
    """Take a predicate apart for planning.

    Terms are moved across a comparison where that changes no result: with integers, unrounded decimals, dates,
    timestamps and durations. Where a rearranged sum could overflow for rows of one table, the filter of that table
    excludes the overflow; where it could for pairs of rows, the comparison also stays in the residual. Differences of
    floats become a band that contains every match, widened by rounding, and stay in the residual too. ``bounds`` are
    known intervals of columns, which rule out overflows.
    """
    return _ShapeParts(dict(bounds or {})).take(node)


def conjuncts(node: Node) -> tuple[Node, ...]:
    """Return the smallest conditions that together are true exactly where the predicate is.

    Negations move inward, what all alternatives of an OR share moves out, and a bounded ``abs`` becomes two bounds.
    """
    match node:
        case nodes.And(operands=operands):
            parts = [part for operand in operands for part in conjuncts(operand)]
            return tuple(dict.fromkeys(parts))
        case nodes.Or(operands=operands):
            return _factored([conjuncts(operand) for operand in operands])
        case nodes.Not(operand=operand):
            inner = _negated(operand)
            return conjuncts(inner) if inner is not None else (node,)
        case Compare(operator="<" | "<=" as sign, left=nodes.Call(function="abs", operands=(operand,)), right=limit):
            return _within(sign, operand, limit)
        case Compare(operator=">" | ">=" as sign, left=limit, right=nodes.Call(function="abs", operands=(operand,))):
            return _within(flipped(sign), operand, limit)
    return (node,)


def _within(sign: nodes.CompareOperator, operand: Node, limit: Node) -> tuple[Node, ...]:
    """Return ``abs(operand) < limit`` as two comparisons. NaN fails the first, as it fails the whole."""
    return (build.compare(sign, operand, limit), build.compare(flipped(sign), operand, build.negate(limit)))


def _negated(node: Node) -> Node | None:
    match node:
        case nodes.Not(operand=operand):
            return operand
        case nodes.And(operands=operands):
            return build.disjunction([build.negation(operand) for operand in operands])
        case nodes.Or(operands=operands):
            return build.conjunction([build.negation(operand) for operand in operands])
        case Compare(operator=sign) if sign in OPPOSITE:
            return replace(node, operator=OPPOSITE[sign])
    return None


def _factored(alternatives: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    common = set(alternatives[0]).intersection(*alternatives[1:])
    shared = tuple(part for part in alternatives[0] if part in common)
    rests = [[part for part in alternative if part not in common] for alternative in alternatives]
    if not all(rests):
        return shared
    return (*shared, build.disjunction([build.conjunction(rest) for rest in rests]))


class _ShapeParts:
    """Sorts the conditions of a predicate into the parts of a shape."""

    def __init__(self, bounds: dict[Column, Interval]) -> None:
        self._bounds = bounds
        self._keys: list[Key] = []
        self._relations: list[LinearComparison] = []
        self._filters: dict[str, list[Node]] = {"left": [], "right": []}
        self._residual: list[Node] = []
        self._notes: list[str] = []

    def take(self, node: Node) -> Shape:
        """Return the shape of a predicate."""
        conditions = conjuncts(node)
        for condition in conditions:
            self._sort(condition)
        bands, singles = _merged(self._relations)
        containments, singles = _containments(singles)
        overlaps, singles = _overlaps(singles)
        return Shape(
            tuple(dict.fromkeys(self._keys)),
            (*bands, *containments, *overlaps, *(single.pair for single in singles)),
            _all(self._filters["left"]),
            _all(self._filters["right"]),
            _all(self._residual),
            tuple(dict.fromkeys(self._notes)),
        )

    def _sort(self, condition: Node) -> None:
        condition_sides = sides(condition)
        if len(condition_sides) == 1:
            self._filters[next(iter(condition_sides))].append(condition)
        elif not condition_sides:
            value = possible(condition, {})
            if not (value.is_point and value.may_be_true):
                self._residual.append(condition)
        else:
            relation = separate(condition, self._bounds) if isinstance(condition, Compare) else None
            self._take(condition, relation)

    def _take(self, condition: Node, relation: LinearComparison | None) -> None:
        if relation is None or relation.operator == "<>":
            self._residual.append(condition)
            if relation is None and isinstance(condition, Compare) and condition.operator not in ("<>", "<=>"):
                self._notes.append(
                    f"{describe(condition)} stays as it is: its terms cannot be moved without changing its truth"
                )
            return
        if not relation.exact:
            self._residual.append(condition)
            self._notes.append(f"{describe(condition)} is rechecked: it could be rounded or overflow")
        for guard in relation.guards:
            side = next(iter(sides(guard)))
            self._filters[side].append(build.negation(build.is_null(guard)))
        if relation.operator in ("=", "<=>") and (key := self._key(relation)):
            self._keys.append(key)
        else:
            self._relations.append(relation)

    def _key(self, relation: LinearComparison) -> Key | None:
        """Return an equality as a key, with a constant on the left unless that can overflow."""
        if not relation.offset:
            return Key(relation.left, relation.right, relation.operator == "<=>")
        kind = relation.left.type.kind
        if kind != "integer" or Fraction(relation.offset).denominator != 1:
            return None
        sign: ArithmeticOperator = "+" if relation.offset > 0 else "-"
        left = build.arithmetic(sign, relation.left, conversions.integer_literal(abs(int(relation.offset))))
        return None if may_overflow(left, self._bounds) else Key(left, relation.right)


def _all(conditions: list[Node]) -> Node | None:
    return build.conjunction(list(dict.fromkeys(conditions))) if conditions else None


@dataclass(frozen=True, slots=True)
class _Inequality:
    """An end, as a lower or an upper one, of the values of a right expression."""

    end: End
    right: Node
    is_upper: bool

    @property
    def pair(self) -> IntervalPair:
        """The inequality as a band with one end."""
        around = (None, self.end) if self.is_upper else (self.end, None)
        return IntervalPair("inequality", around, (End(self.right), End(self.right)))


def _merged(relations: Sequence[LinearComparison]) -> tuple[list[IntervalPair], list[_Inequality]]:
    """Return the bands and inequalities of all pairs of expressions."""
    ends: dict[tuple[Node, Node], tuple[list[End], list[End]]] = {}
    for relation in relations:
        lowers, uppers = ends.setdefault((relation.left, relation.right), ([], []))
        end = _end(relation)
        if relation.operator in (">", ">=", "="):
            lowers.append(end)
        if relation.operator in ("<", "<=", "="):
            uppers.append(end)
    bands, singles = [], []
    for (_, right), (lowers, uppers) in ends.items():
        lower, upper = _tightest(lowers, 1), _tightest(uppers, -1)
        if lower and upper:
            bands.append(IntervalPair("band", (lower, upper), (End(right), End(right))))
        elif only := lower or upper:
            singles.append(_Inequality(only, right, is_upper=upper is not None))
    return bands, singles


def _end(relation: LinearComparison) -> End:
    offset, unit = _in_steps(relation.offset, relation.left.type, relation.right.type)
    return End(relation.left, offset, relation.operator in ("<", ">"), unit)


def _in_steps(offset: Number, left: Type, right: Type) -> tuple[Number, str]:
    """Return an offset in seconds as whole steps of the coarsest unit that suits both sides and the offset."""
    if left.kind not in ("date", "timestamp", "duration"):
        return _plain(offset), ""
    units = {"d": Fraction(1, DAY_S)} | TIME_STEPS
    sizes = [data_type.unit or "d" for data_type in (left, right)]
    names = ["d", *TIME_UNITS]
    start = max(names.index(size) for size in sizes)
    for name in names[start:]:
        steps = Fraction(offset) * units[name]
        if steps.denominator == 1:
            return int(steps), name
    raise AssertionError("no timestamp or interval is finer than a nanosecond")


def _plain(number: Number) -> Number:
    return int(number) if number.denominator == 1 else number


def _tightest(ends: list[End], sign: int) -> End | None:
    """Return the most restrictive end, or None: the greatest of lower ends (sign 1), the least of others."""
    return max(ends, key=lambda end: (sign * end.amount, end.strict), default=None)


def _partners(
    singles: list[_Inequality], traits: Callable[[_Inequality], tuple[Hashable, ...]]
) -> tuple[list[tuple[_Inequality, _Inequality]], list[_Inequality]]:
    """Pair each lower end with the first upper one that shares a trait; return pairs, and ends without a partner."""
    waiting: dict[Hashable, deque[int]] = {}
    for index, single in enumerate(singles):
        for trait in traits(single) if single.is_upper else ():
            waiting.setdefault(trait, deque()).append(index)
    partners: list[tuple[_Inequality, _Inequality]] = []
    paired: set[int] = set()
    for index, lower in enumerate(singles):
        heads = []
        for trait in () if lower.is_upper else traits(lower):
            candidates = waiting.get(trait, deque())
            while candidates and candidates[0] in paired:
                candidates.popleft()
            heads.extend([candidates[0]] if candidates else [])
        if heads:
            partners.append((lower, singles[min(heads)]))
            paired |= {index, min(heads)}
    return partners, [single for index, single in enumerate(singles) if index not in paired]


def _containments(singles: list[_Inequality]) -> tuple[list[IntervalPair], list[_Inequality]]:
    """Pair a lower and an upper bound of the same expression."""
    partners, others = _partners(singles, lambda one: (("right", one.right), ("left", one.end.expression)))
    containments = []
    for lower, upper in partners:
        left, right = (lower.end, upper.end), (End(lower.right), End(lower.right))
        if lower.right != upper.right:
            point = End(lower.end.expression)
            left, right = (point, point), (_turned(upper.end, upper.right), _turned(lower.end, lower.right))
        containments.append(IntervalPair("containment", left, right))
    return containments, others


def _turned(end: End, expression: Node) -> End:
    """Return an end as one of the other side: ``right >= left + c`` is ``left <= right - c``."""
    return End(expression, -end.offset, end.strict, end.unit)


def _overlaps(singles: list[_Inequality]) -> tuple[list[IntervalPair], list[_Inequality]]:
    """Pair two inequalities of opposite directions into the overlap of two intervals."""
    partners, others = _partners(singles, lambda one: (one.end.expression.type.kind,))
    overlaps = [
        IntervalPair("overlap", (lower.end, upper.end), (End(upper.right), End(lower.right)))
        for lower, upper in partners
    ]
    return overlaps, others
