"""When rows of two streams match: equal keys, relations of codes, and a residual predicate.

A *relation* bounds a right value by a left one, from above or from below. Both are coded so that a pair satisfies it if
one code is at least the complement of the other (see `juncture.kernels.symmetric`). For an upper bound, the code of a
left row is the greatest right value that it allows, and that of a right row the complement of its value. For a lower
bound, it is the reverse. So a stored row can still satisfy a relation if it does with the greatest code of future rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, both, raw_values
from juncture.errors import DataError, SchemaError, SpecError
from juncture.kernels.array_types import Ints, IntTable, Mask
from juncture.local.inequality.conditions import CodedValue, points_of
from juncture.local.keys import equal_columns, equal_types
from juncture.matching.plain_lines import PlainLines, plain_lines
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Domain
from juncture.predicate.decompose.shape import Shape
from juncture.predicate.evaluate.evaluate import column_as_is, matches
from juncture.predicate.intervals.graph import possible
from juncture.predicate.intervals.interval import interval
from juncture.predicate.intervals.narrow import rounds
from juncture.predicate.language import build
from juncture.predicate.language.nodes import Arithmetic, Cast, Column, Node, columns
from juncture.predicate.language.sql import to_sql
from juncture.predicate.language.types import DOUBLE, from_arrow
from juncture.spec.condition import BoundedValue, JoinCondition, Limit, ResolvedInequality, Value
from juncture.spec.predicate_condition import bounded_values, equal_bounds, equalities_of
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

OneValue = Callable[[pa.Array], int]


@dataclass(frozen=True)
class ComparedRows:
    """The part of the rows of one side that the join compares."""

    keys: list[pa.Array]
    codes: IntTable  # a line for each relation
    valid: Mask | None  # the rows that can match at all; None for all
    rising: int | None = None  # which of the first two code lines rises while the other falls; None if unknown


@dataclass(frozen=True)
class Relation:
    """A bound of a right value by a left one."""

    left: Node | None  # None if it is no single expression of its table
    right: Node | None
    left_text: str
    right_text: str
    upper: bool  # whether the right value is bounded from above
    strict: bool  # whether the bound is exclusive, for display
    offset: Fraction  # of the left value in numbers or seconds, for display
    left_code: OneValue
    right_code: OneValue

    def value(self, side: Side) -> Node | None:
        """Return the value of a side; None if it is no single expression of its table."""
        return self.left if side == "left" else self.right


@dataclass(frozen=True)
class Condition:
    """When rows of two streams match."""

    join: Resolved
    key_types: tuple[list[pa.DataType], list[pa.DataType]]
    nulls_equal: bool
    relations: tuple[Relation, ...]  # necessary conditions of a match, in the order of the code lines
    readers: Mapping[Side, Callable[[pa.RecordBatch], ComparedRows]]
    check: Node | None  # the residual predicate of pairs
    predicate: Node | None  # the whole predicate, if the join has one
    matching: int  # number of relations, from the first, that find matches; the others only limit state
    filters: tuple[Node | None, Node | None] = (None, None)  # conditions on left and on right rows alone
    is_band: bool = False  # whether two relations bound a right value by one left value: a line rises, the other falls

    def rows(self, batch: pa.RecordBatch, side: Side) -> ComparedRows:
        """Return the part of rows that the join compares."""
        try:
            return self.readers[side](batch)
        except TooWideError:
            raise DataError(
                f"A value of the {side} side does not fit a 64-bit code. Cast the column to a type with fewer digits "
                "or a coarser unit.",
                name="JN-VALUE-RANGE",
            ) from None

    def match_mask(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Mask | None:
        """Return a mask of the pairs that pass the residual predicate; None if all do."""
        if self.check is None or not left.num_rows:
            return None
        if not columns(self.check):
            # A constant does not have the number of rows.
            left = pa.table({"row": array_of(np.arange(left.num_rows), pa.int64())})
        mask: Mask = matches(self.check, left, right).to_numpy(zero_copy_only=False)
        return None if mask.all() else mask


def unmatched_are_results(how: str, side: Side) -> bool:
    """Return whether unmatched rows of a side are results."""
    return how in (("left", "full", "anti") if side == "left" else ("right", "full"))


def condition_of(join: Resolved, ordered: Collection[Column]) -> Condition:
    """Return when rows of a join match. Equal keys limit state only through the ``ordered`` columns."""
    if join.domain is None:
        return _of_predicate(join, join.predicate, join.shape or Shape(), ordered, nulls_equal=join.nulls_equal)
    assert isinstance(join, ResolvedInequality)
    condition = join.condition
    values = [value for value in (condition.first, condition.second) if value is not None and value.limits]
    return _condition(join, condition, _coded(values), matching=sum(len(value.limits) for value in values))


def _of_predicate(
    join: Resolved, predicate: Node | None, parts: Shape, ordered: Collection[Column], *, nulls_equal: bool
) -> Condition:
    equalities, exact = ([], not parts.keys) if nulls_equal else equalities_of(parts)
    values, are_all = bounded_values(parts)
    exact = exact and are_all and parts.residual is None and all(value.exact for value in values)
    # Other equal keys limit state, and are looked up by key.
    limiting = [] if nulls_equal else _equal_bounds(join, parts, ordered)
    condition = JoinCondition(
        equalities=tuple(equalities),
        left_filter=parts.left_filter,
        right_filter=parts.right_filter,
        predicate=predicate,
        exact=exact or predicate is None,
    )
    matching = sum(len(value.limits) for value in values)
    coded_values = _coded([*values, *limiting])
    return _condition(
        join, condition, coded_values, matching=matching, nulls_equal=nulls_equal, guards=_guards(join, parts)
    )


def _condition(
    join: Resolved,
    condition: JoinCondition,
    values: Sequence[CodedValue],
    *,
    matching: int,
    nulls_equal: bool = False,
    guards: Mapping[Side, Mapping[str, int]] | None = None,
) -> Condition:
    readers = {side: _SideReader(join, condition, values, side, (guards or {}).get(side)) for side in SIDES}
    return Condition(
        join=join,
        key_types=(readers["left"].key_types, readers["right"].key_types),
        nulls_equal=nulls_equal,
        relations=tuple(_relation(join, coded, limit) for coded in values for limit in coded.value.limits),
        readers=readers,
        check=None if condition.exact else condition.predicate,
        predicate=condition.predicate,
        matching=matching,
        filters=(condition.left_filter, condition.right_filter),
        is_band=matching == 2 and _is_fixed_band(values[0].value),
    )


def _is_fixed_band(value: BoundedValue) -> bool:
    """Return whether a value has two limits at constant distances from one other value."""
    values = {limit.value for limit in value.limits}
    return value.is_band and len(values) == 1 and all(limit.column is None for limit in value.limits)


def _coded(values: Iterable[BoundedValue]) -> tuple[CodedValue, ...]:
    """Return values with codes. The limits of each are sorted, lower ones first."""
    ordered = (replace(value, limits=tuple(sorted(value.limits, key=lambda each: each.upper))) for value in values)
    return tuple(coded for value in ordered if (coded := CodedValue.of(value)) is not None)


def _equal_bounds(join: Resolved, parts: Shape, ordered: Collection[Column]) -> list[BoundedValue]:
    """Return the bounds that equal keys imply for columns that an order reads."""
    pairs: list[tuple[Node, Node]] = [(key.left, key.right) for key in parts.keys if not key.null_safe]
    for left_name, right_name in zip(join.left_by, join.right_by, strict=True):
        one, other = column_of(join, "left", left_name), column_of(join, "right", right_name)
        if one is not None and other is not None:
            pairs.append((one, other))
    limiting = [pair for pair in pairs if any(column in ordered for node in pair for column in columns(node))]
    return [value for pair in limiting if (value := equal_bounds(*pair)) is not None]


class _SideReader:
    """Reads what a join compares from the rows of one side.

    ``guard`` has columns with limits: while all values are below them, the filter of the side holds.
    """

    def __init__(
        self,
        join: Resolved,
        condition: JoinCondition,
        values: Sequence[CodedValue],
        side: Side,
        guard: Mapping[str, int] | None,
    ) -> None:
        schema, is_left = join.schema(side), side == "left"
        self._side: Side = side
        self._by = join.left_by if is_left else join.right_by
        self._equalities = condition.equalities
        self._filter = condition.left_filter if is_left else condition.right_filter
        self._interval = condition.left_interval if is_left else condition.right_interval
        self._guard = guard
        self._values = values
        self._limits = [
            replace(coded, value=replace(coded.value, limits=(limit,)))
            for coded in values
            for limit in coded.value.limits
        ]
        self.key_types = [*(schema.field(name).type for name in self._by), *equal_types(self._equalities, side)]
        self._key_columns = self._plain_keys(schema)
        self._plain_lines: PlainLines | None = None
        if self._interval is None and (self._filter is None or guard is not None):
            self._plain_lines = plain_lines(self._limits, side, schema, guard or {})

    def __call__(self, batch: pa.RecordBatch) -> ComparedRows:
        plain = None if self._plain_lines is None else self._plain_lines.codes(batch)
        if plain is not None:
            codes, rising = plain
            return ComparedRows(self._keys(batch), codes, None, rising)
        passed = self._passed(batch)
        codes, valid = self._left_codes(batch) if self._side == "left" else self._right_codes(batch)
        return ComparedRows(self._keys(batch), codes, both(passed, valid))

    def _plain_keys(self, schema: pa.Schema) -> list[str] | None:
        """Return the key columns; None where a key is not a plain column."""
        names = list(self._by)
        for each in self._equalities:
            value = each.left if self._side == "left" else each.right
            name = None if each.type or each.null_safe else column_as_is(value, schema)
            if name is None:
                return None
            names.append(name)
        return names

    def _keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._key_columns is not None:
            return [batch.column(name) for name in self._key_columns]
        return [*(batch.column(name) for name in self._by), *equal_columns(self._equalities, self._side, batch)]

    def _passed(self, batch: pa.RecordBatch) -> Mask | None:
        """Return the rows that pass the conditions on their side alone; None for all."""
        passed: Mask | None = None
        if self._filter is not None and not self._is_harmless(batch):
            passed = matches(self._filter, **{self._side: batch}).to_numpy(zero_copy_only=False)
        return passed if self._interval is None else both(passed, points_of(self._interval, batch, self._side, 0))

    def _is_harmless(self, batch: pa.RecordBatch) -> bool:
        """Return whether the filter is an overflow guard that holds for all rows, because their values are small."""
        if self._guard is None:
            return False
        for name, most in self._guard.items():
            column = batch.column(name)
            values = raw_values(column, f"i{column.type.bit_width // 8}")
            if column.null_count or (len(values) and not -most < values.min() <= values.max() < most):
                return False
        return True

    def _left_codes(self, batch: pa.RecordBatch) -> tuple[IntTable, Mask | None]:
        """Return the code lines of left rows, and the rows that can satisfy all relations; None for all."""
        codes = np.empty((len(self._limits), batch.num_rows), np.int64)
        valid: Mask | None = None
        for number, coded in enumerate(self._limits):
            least, most, here = coded.ends(batch)
            valid = both(valid, here)
            if most is not None:
                codes[number] = most
            elif least is not None:
                np.invert(least, out=codes[number])
        for coded in self._values:
            valid = both(valid, coded.right_way_round(batch))
        return codes, valid

    def _right_codes(self, batch: pa.RecordBatch) -> tuple[IntTable, Mask | None]:
        """Return the code lines of right rows, and the rows that can satisfy all relations; None for all."""
        lines: list[Ints] = []
        valid: Mask | None = None
        for coded in self._values:
            values, here = coded.encode(batch)
            valid = both(valid, here)
            lines += [~values if limit.upper else values for limit in coded.value.limits]
        return np.array(lines, np.int64).reshape(len(lines), batch.num_rows), valid


def _guards(join: Resolved, parts: Shape) -> dict[Side, dict[str, int]]:
    """Return limits of the columns of filters that hold while their values are far from the limits of their types."""
    guards: dict[Side, dict[str, int]] = {}
    for side, node in zip(SIDES, (parts.left_filter, parts.right_filter), strict=True):
        read = () if node is None else columns(node)
        types = [join.schema(side).field(column.name).type for column in read]
        if node is None or not all(pat.is_signed_integer(each) for each in types):
            continue
        most = {column: 1 << (each.bit_width - 4) for column, each in zip(read, types, strict=True)}
        value = possible(node, {column: interval(column.type, -limit, limit) for column, limit in most.items()})
        if value.is_point and value.may_be_true:
            guards[side] = {column.name: limit for column, limit in most.items()}
    return guards


def _relation(join: Resolved, coded: CodedValue, limit: Limit) -> Relation:
    of_limit = replace(coded, value=replace(coded.value, limits=(limit,)))
    left_text, left = _text_and_node(join, "left", limit.value)
    right_text, right = _text_and_node(join, "right", coded.value.right)
    if limit.column is not None:
        left = _sum(left, column_of(join, "left", limit.column), coded.value.domain)
        left_text = f"{left_text} + {limit.column}" if left is None else bare_text(left)

    def left_code(values: pa.Array) -> int:
        least, most, _ = _of_one(of_limit, limit).ends(_left_row(join, coded.value, limit, values))
        if most is not None:
            return int(most[0])
        assert least is not None
        return ~int(least[0])

    def right_code(values: pa.Array) -> int:
        batch = pa.record_batch([_compared(join, "right", coded.value.right, coded.value, values)], names=[_ONE])
        codes, _ = _of_one(of_limit, limit).encode(batch)
        return ~int(codes[0]) if limit.upper else int(codes[0])

    if isinstance(limit.offset, float) and math.isinf(limit.offset):
        raise SpecError(
            f"A window of the join ends at an infinite distance ({limit.offset}), so nothing could match. Pass a "
            "finite distance, or None for no limit.",
            name="JN-DISTANCE-VALUE",
        )
    return Relation(
        left=left,
        right=right,
        left_text=left_text,
        right_text=right_text,
        upper=limit.upper,
        strict=limit.strict,
        offset=Fraction(limit.offset) * coded.value.domain.step,
        left_code=left_code,
        right_code=right_code,
    )


_ONE, _ADDED = "value", "added"


def _sum(value: Node | None, added: Node | None, domain: Domain) -> Node | None:
    """Return the limit of a value and a column as an expression; None where predicates calculate it differently."""
    if value is None or added is None:
        return None
    try:
        total = build.arithmetic("+", value, added)
    except SchemaError:
        return None
    if domain.floating and total.type != DOUBLE:
        # Sums are calculated as doubles, whatever the types of the columns.
        return build.arithmetic("+", Cast(DOUBLE, value), added)
    is_rounded = isinstance(total, Arithmetic) and total.type.is_discrete and rounds(total)
    return None if is_rounded else total


def _left_row(join: Resolved, bounded: BoundedValue, limit: Limit, values: pa.Array) -> pa.RecordBatch:
    """Return a row that sets a limit. A sum of two columns is represented as zero and the sum."""
    if limit.column is None:
        return pa.record_batch([_compared(join, "left", limit.value, bounded, values)], names=[_ONE])
    if pat.is_timestamp(values.type):
        added = values.cast(pa.int64()).cast(pa.duration(values.type.unit))
        return pa.record_batch([pa.array([0]).cast(values.type), added], names=[_ONE, _ADDED])
    zero = pa.array([Decimal(0) if pat.is_decimal(values.type) else 0])
    return pa.record_batch([zero, values], names=[_ONE, _ADDED])


def _of_one(coded: CodedValue, limit: Limit) -> CodedValue:
    """Return a coded value that reads a batch with the columns `_ONE` and `_ADDED`."""
    limit = replace(limit, value=_ONE, column=None if limit.column is None else _ADDED)
    value = replace(coded.value, right=_ONE, limits=(limit,))
    return replace(coded, value=value)


def _text_and_node(join: Resolved, side: Side, value: Value) -> tuple[str, Node | None]:
    if isinstance(value, str):
        return value, column_of(join, side, value)
    return bare_text(value), value


def _compared(join: Resolved, side: Side, compared: Value, bounded: BoundedValue, values: pa.Array) -> pa.Array:
    """Return values of a side in the type of the comparison; raises `pyarrow.ArrowInvalid` if they do not fit."""
    if isinstance(compared, str):
        return values.cast(join.schema(side).field(compared).type)
    return values if bounded.type is None else values.cast(bounded.type, safe=False)


def bare_text(node: Node) -> str:
    """Return an expression of one side as SQL, without the name of the side."""
    return to_sql(node, names=("", ""))


def column_of(join: Resolved, side: Side, name: str) -> Column | None:
    """Return a column as a node of a predicate; None if predicates do not support its type."""
    field = join.schema(side).field(name)
    data_type = from_arrow(field.type)
    return None if data_type is None else Column(data_type, side, name, field.nullable)
