"""When rows of two streams match: equal keys, relations of codes, and what is left to check.

A *relation* bounds a right value by a left one, from above or from below. Both are coded so that a pair satisfies it if
the one code is at least the complement of the other (see `juncture.kernels.symmetric`): a left row's code is the
greatest right value that it allows, a right row's the complement of its value; and the other way round for a bound
from below. So a held row can still satisfy a relation if it does with the greatest code of all that can come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, raw_values
from juncture.columnar.order_encoding import TooWideError
from juncture.errors import DataError
from juncture.kernels.array_types import Ints
from juncture.local.inequality import overlap as overlaps
from juncture.local.inequality import range as ranges
from juncture.local.inequality.conditions import Equality, Limit, Line, equalities_of, limits_of, line_of
from juncture.local.inequality.index import Coded
from juncture.local.inequality.limits import Axis, End, both
from juncture.local.inequality.probe import Sought
from juncture.predicate.decompose.shape import Shape, shape
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.intervals.graph import possible
from juncture.predicate.intervals.interval import interval
from juncture.predicate.language.nodes import Column, Node, columns
from juncture.predicate.language.sql import to_sql
from juncture.predicate.language.types import from_arrow
from juncture.spec.equi import ResolvedEqui
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import Bound, ResolvedRange
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.spec.where import ResolvedWhere

__all__ = ["Condition", "Relation", "Rows", "bare_text", "column_of", "condition_of"]

Table = npt.NDArray[np.int64]
OneValue = Callable[[pa.Array], int]


@dataclass(frozen=True)
class Rows:
    """What a join sees in rows of one side.

    Attributes
    ----------
    keys
        The columns that have to be equal to those of the other side.
    codes
        A line for each relation.
    valid
        Which rows can match at all; None for all.
    """

    keys: list[pa.Array]
    codes: Table
    valid: Mask | None


@dataclass(frozen=True)
class Relation:
    """A bound of a right value by a left one.

    Attributes
    ----------
    left, right
        The expressions; None where they are no single one of their table.
    upper
        Whether the right value is bounded from above.
    strict, offset
        Whether the bound itself is left out, and what is added to the left value, in numbers or seconds: to be shown.
    left_code, right_code
        Return the code of a left and of a right value.
    left_text, right_text
        The expressions as they are shown.
    """

    left: Node | None
    right: Node | None
    left_text: str
    right_text: str
    upper: bool
    strict: bool
    offset: Fraction
    left_code: OneValue
    right_code: OneValue


@dataclass(frozen=True)
class Condition:
    """When rows of two streams match.

    Attributes
    ----------
    join
        The join.
    key_types
        The types of the key columns of the left and of the right side.
    nulls_equal
        Whether null is a key like others.
    relations
        What all matches satisfy, in the order of the codes.
    left, right
        Return what the join sees in rows of a side.
    check
        What has to be true of pairs besides; None for nothing.
    predicate
        What has to be true of pairs, as far as it is a predicate: all that can be told of what can still match.
    matching
        How many of the relations are of use to find matches. What follows only tells what can still match.
    filters
        What the rows of the left and of the right side have to satisfy on their own; None for nothing.
    """

    join: Resolved
    key_types: tuple[list[pa.DataType], list[pa.DataType]]
    nulls_equal: bool
    relations: tuple[Relation, ...]
    left: Callable[[pa.RecordBatch], Rows]
    right: Callable[[pa.RecordBatch], Rows]
    check: Node | None
    predicate: Node | None
    matching: int
    filters: tuple[Node | None, Node | None] = (None, None)

    def rows(self, batch: pa.RecordBatch, side: Side) -> Rows:
        """Return what the join sees in rows of a side.

        Raises
        ------
        DataError
            If a value does not fit 64 bits.
        """
        try:
            return self.left(batch) if side == "left" else self.right(batch)
        except TooWideError:
            raise DataError(
                f"A {side} value does not fit the 64 bits by which streams are compared. Cast the column to a type of "
                "fewer digits, or of a coarser unit."
            ) from None


def condition_of(join: Resolved, ordered: Collection[Column]) -> Condition:
    """Return when rows of a join match.

    Parameters
    ----------
    join
        The join.
    ordered
        The columns that orders read: what equal keys say of others is of no use.
    """
    if isinstance(join, ResolvedRange):
        return _of_range(join)
    if isinstance(join, ResolvedOverlap):
        return _of_overlap(join)
    if isinstance(join, ResolvedEqui):
        parts = Shape() if join.predicate is None else shape(join.predicate)
        return _of_where(join, join.predicate, parts, ordered, nulls_equal=join.nulls_equal)
    assert isinstance(join, ResolvedWhere)
    return _of_where(join, join.predicate, join.shape, ordered, nulls_equal=False)


# Predicates


@dataclass(frozen=True)
class _Predicate:
    """The parts of a predicate that bring rows together."""

    join: Resolved
    shape: Shape
    equalities: tuple[Equality, ...]
    lines: tuple[Line, ...]
    """Each with one limit."""
    guards: Mapping[Node, tuple[tuple[str, int], ...]]
    """Filters that hold where columns are less than so much."""

    def keys(self, batch: pa.RecordBatch, side: Side) -> list[pa.Array]:
        by = self.join.left_by if side == "left" else self.join.right_by
        found = [batch.column(name) for name in by]
        for equality in self.equalities:
            node = equality.left if side == "left" else equality.right
            found += equality.columns(evaluate(node, **{side: batch}))
        return found

    def passed(self, batch: pa.RecordBatch, side: Side) -> Mask | None:
        node = self.shape.left_filter if side == "left" else self.shape.right_filter
        if node is None:
            return None
        if self._is_harmless(node, batch):
            return None
        mask: Mask = matches(node, **{side: batch}).to_numpy(zero_copy_only=False)
        return mask

    def _is_harmless(self, node: Node, batch: pa.RecordBatch) -> bool:
        """Tell whether a condition holds for all rows since their values are small: it guards against overflow."""
        if node not in self.guards:
            return False
        for name, most in self.guards[node]:
            column = batch.column(name)
            values = raw_values(column, f"i{column.type.bit_width // 8}")
            if column.null_count or (len(values) and not -most < values.min() <= values.max() < most):
                return False
        return True

    def left(self, batch: pa.RecordBatch) -> Rows:
        valid = self.passed(batch, "left")
        codes = np.empty((len(self.lines), batch.num_rows), np.int64)
        for place, line in enumerate(self.lines):
            least, most, here = line.ends(batch)
            valid = both(valid, here)
            codes[place] = _own(least, most)
        return Rows(self.keys(batch, "left"), codes, valid)

    def right(self, batch: pa.RecordBatch) -> Rows:
        valid = self.passed(batch, "right")
        codes = np.empty((len(self.lines), batch.num_rows), np.int64)
        coded: dict[tuple[Node, Axis], tuple[Ints, Mask | None]] = {}
        for place, line in enumerate(self.lines):
            known = coded.get((line.right, line.axis))
            if known is None or line.type is not None:
                known = coded[line.right, line.axis] = line.encode(batch)
            values, here = known
            valid = both(valid, here)
            codes[place] = ~values if line.limits[0].upper else values
        return Rows(self.keys(batch, "right"), codes, valid)


def _own(least: Ints | None, most: Ints | None) -> Ints:
    """Return the codes of left rows, of which one limit is known."""
    if most is not None:
        return most
    assert least is not None
    return ~least


def _of_where(
    join: Resolved, predicate: Node | None, parts: Shape, ordered: Collection[Column], *, nulls_equal: bool
) -> Condition:
    equalities, exact = ([], not parts.keys) if nulls_equal else equalities_of(parts)
    limits = limits_of(parts)
    lines, used = _lines(limits)
    exact = exact and parts.residual is None and used == len(limits) and all(line.is_exact for line in lines)
    own, other = list[pa.DataType](), list[pa.DataType]()
    for ours, theirs in zip(join.left_by, join.right_by, strict=True):
        own.append(join.left_schema.field(ours).type)
        other.append(join.right_schema.field(theirs).type)
    for equality in equalities:
        own += equality.types(equality.left)
        other += equality.types(equality.right)
    watched = () if nulls_equal else _lines(_equal_limits(join, parts, ordered))[0]
    found = _Predicate(join, parts, tuple(equalities), (*lines, *watched), _guards(join, parts))
    return Condition(
        join=join,
        key_types=(own, other),
        nulls_equal=nulls_equal,
        relations=tuple(_relation(line) for line in found.lines),
        left=found.left,
        right=found.right,
        check=None if exact or predicate is None else predicate,
        predicate=predicate,
        matching=len(lines),
        filters=(parts.left_filter, parts.right_filter),
    )


def _guards(join: Resolved, parts: Shape) -> dict[Node, tuple[tuple[str, int], ...]]:
    """Return the filters that hold wherever the columns that they read are far from the limits of their types."""
    found = {}
    for node, schema in ((parts.left_filter, join.left_schema), (parts.right_filter, join.right_schema)):
        read = () if node is None else columns(node)
        types = [schema.field(column.name).type for column in read]
        if node is None or not all(pat.is_signed_integer(each) for each in types):
            continue
        most = [1 << (each.bit_width - 4) for each in types]
        small = {column: interval(column.type, -limit, limit) for column, limit in zip(read, most, strict=True)}
        value = possible(node, small)
        if value.is_point and value.may_be_true:
            found[node] = tuple((column.name, limit) for column, limit in zip(read, most, strict=True))
    return found


def _lines(limits: Sequence[Limit]) -> tuple[tuple[Line, ...], int]:
    """Return lines of one limit each, those with limits on both ends first; and how many limits are in them."""
    by_right: dict[Node, list[Limit]] = {}
    for limit in limits:
        by_right.setdefault(limit.right, []).append(limit)
    lines = [line for right, own in by_right.items() if (line := line_of(right, own))]
    lines.sort(key=lambda line: not line.is_band)
    single = tuple(
        replace(line, limits=(limit,)) for line in lines for limit in sorted(line.limits, key=lambda each: each.upper)
    )
    return single, len(single)


def _equal_limits(join: Resolved, parts: Shape, ordered: Collection[Column]) -> list[Limit]:
    """Return what equal keys say of one another's values, where orders tell something of these."""
    pairs = [(key.left, key.right) for key in parts.keys if not key.null_safe]
    for ours, theirs in zip(join.left_by, join.right_by, strict=True):
        one, other = column_of(join, "left", ours), column_of(join, "right", theirs)
        if one is not None and other is not None:
            pairs.append((one, other))
    told = [pair for pair in pairs if any(column in ordered for node in pair for column in columns(node))]
    return [Limit(one, other, Fraction(0), upper, False) for one, other in told for upper in (False, True)]


def _relation(line: Line) -> Relation:
    [limit] = line.limits

    def left_code(values: pa.Array) -> int:
        codes, _ = line.axis.limits(
            _converted(values, line.type), line.steps(limit.offset), End(limit.upper, limit.strict and line.is_exact)
        )
        code = int(codes[0]) + (0 if line.is_exact else 1 if limit.upper else -1)
        return code if limit.upper else ~code

    def right_code(values: pa.Array) -> int:
        codes, _ = line.axis.encode(_converted(values, line.type))
        return ~int(codes[0]) if limit.upper else int(codes[0])

    return Relation(
        left=limit.left,
        right=limit.right,
        left_text=bare_text(limit.left),
        right_text=bare_text(limit.right),
        upper=limit.upper,
        strict=limit.strict,
        offset=limit.offset,
        left_code=left_code,
        right_code=right_code,
    )


def _converted(values: pa.Array, data_type: pa.DataType | None) -> pa.Array:
    return values if data_type is None else values.cast(data_type, safe=False)


def bare_text(node: Node) -> str:
    """Return an expression of one side as SQL, without the side's name."""
    return to_sql(node, names=("", ""))


def column_of(join: Resolved, side: Side, name: str) -> Column | None:
    """Return a column as a predicate names it; None where its type is none of a predicate's."""
    field = (join.left_schema if side == "left" else join.right_schema).field(name)
    data_type = from_arrow(field.type)
    return None if data_type is None else Column(data_type, side, name, field.nullable)


# Windows and intervals


@dataclass(frozen=True)
class _Coded:
    """What brings rows together by limits that the join's kind defines.

    Attributes
    ----------
    code, seek
        Return what the join sees in right rows, and what left rows seek.
    relations
        For each, whether it is of the second right value, and whether it is an upper one.
    """

    code: Callable[[pa.RecordBatch], Coded]
    seek: Callable[[pa.RecordBatch], Sought]
    relations: tuple[tuple[bool, bool], ...]

    def left(self, batch: pa.RecordBatch) -> Rows:
        sought = self.seek(batch)
        codes = np.empty((len(self.relations), batch.num_rows), np.int64)
        for place, (second, upper) in enumerate(self.relations):
            limit = sought.high if upper else sought.thresholds if second else sought.low
            assert limit is not None
            codes[place] = limit if upper else ~limit
        return Rows(list(sought.keys), codes, sought.possible)

    def right(self, batch: pa.RecordBatch) -> Rows:
        coded = self.code(batch)
        codes = np.empty((len(self.relations), batch.num_rows), np.int64)
        for place, (second, upper) in enumerate(self.relations):
            values = coded.leaves if second else coded.on
            assert values is not None
            codes[place] = ~values if upper else values
        return Rows(coded.keys, codes, coded.valid)


def _windowed(join: Resolved, coded: _Coded, relations: list[Relation]) -> Condition:
    types = [
        [schema.field(name).type for name in by]
        for schema, by in ((join.left_schema, join.left_by), (join.right_schema, join.right_by))
    ]
    return Condition(
        join=join,
        key_types=(types[0], types[1]),
        nulls_equal=False,
        relations=tuple(relations),
        left=coded.left,
        right=coded.right,
        check=None,
        predicate=None,
        matching=len(relations),
    )


def _of_range(join: ResolvedRange) -> Condition:
    axis = ranges.axis_of(join)
    right = column_of(join, "right", join.right_on)
    relations, used = [], []
    for bound, upper in ((join.lower, False), (join.upper, True)):
        if bound is not None:
            left = None if bound.constant is None else column_of(join, "left", join.left_on)
            added = f" + {bound.column}" if bound.column else ""
            texts = f"{join.left_on}{added}", join.right_on
            types = join.left_schema.field(join.left_on).type, join.right_schema.field(join.right_on).type
            relations.append(_axis_relation(axis, (left, right), texts, types, bound, upper=upper))
            used.append((False, upper))
    code = partial(_code, partial(ranges.coded, join, axis))
    return _windowed(join, _Coded(code, partial(ranges.sought, join, axis), tuple(used)), relations)


def _of_overlap(join: ResolvedOverlap) -> Condition:
    axis = overlaps.axis_of(join)
    ours, theirs = join.left_interval, join.right_interval
    relations, used = [], []
    bound = Bound(constant=0, closed=join.closed == "both")
    for own, other, second in ((ours[1], theirs[0], False), (ours[0], theirs[1], True)):
        if own is not None and other is not None:
            nodes = column_of(join, "left", own), column_of(join, "right", other)
            types = join.left_schema.field(own).type, join.right_schema.field(other).type
            relations.append(_axis_relation(axis, nodes, (own, other), types, bound, upper=not second))
            used.append((second, not second))

    def seek(batch: pa.RecordBatch) -> Sought:
        overlaps.check_left(join, axis, batch, 0)
        return overlaps.sought(join, axis, batch)

    code = partial(_code, partial(overlaps.coded, join, axis))
    return _windowed(join, _Coded(code, seek, tuple(used)), relations)


def _code(code: Callable[[pa.RecordBatch, int], Coded], batch: pa.RecordBatch) -> Coded:
    return code(batch, 0)


def _axis_relation(
    axis: Axis,
    nodes: tuple[Node | None, Node | None],
    texts: tuple[str, str],
    types: tuple[pa.DataType, pa.DataType],
    bound: Bound,
    *,
    upper: bool,
) -> Relation:
    """Return a bound of right values by left ones plus a constant, if it is one."""
    constant = bound.constant or 0

    def left_code(values: pa.Array) -> int:
        codes, _ = axis.limits(values.cast(types[0]), constant, End(upper, strict=not bound.closed))
        return int(codes[0]) if upper else ~int(codes[0])

    def right_code(values: pa.Array) -> int:
        codes, _ = axis.encode(values.cast(types[1]))
        return ~int(codes[0]) if upper else int(codes[0])

    domain = axis.domain
    size = Fraction(domain.step_ns, 10**9) if domain.is_time else 1 / domain.steps_in_one
    offset = Fraction(constant) * (1 if domain.kind == "float" else size)
    return Relation(
        left=nodes[0],
        right=nodes[1],
        left_text=texts[0],
        right_text=texts[1],
        upper=upper,
        strict=not bound.closed,
        offset=offset,
        left_code=left_code,
        right_code=right_code,
    )
