"""Semi, anti, mark, single and general outer joins, as inner and left joins with distinct rows.

L ⋉ R is L ⋈ δ(R's keys), and L ▷ R are the rows of L ⟕ δ(R's keys) without a match. So these joins need no delta rules
of their own, and share the indexes of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pat

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import (
    FALSE,
    TRUE,
    Call,
    Constant,
    Expression,
    InputColumn,
    all_of,
    call,
    conjuncts,
    is_comparison,
    key_pair,
    shifted,
)
from juncture.incremental.operators.group import GroupAggregate
from juncture.incremental.operators.order import is_ordered
from juncture.incremental.plan.nodes import FilterNode, PlanNode, ProjectNode, UnionNode
from juncture.incremental.plan.stateful_nodes import GroupNode, JoinHow, JoinNode
from juncture.incremental.sql.bound import COMPARED, UnreadableError

_BOOL = pa.bool_()
_UNKNOWN = Constant(_BOOL, None)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a left with a right value, each over the columns of its own side. ``sign`` is that of SQL."""

    sign: str
    left: Expression
    right: Expression

    @property
    def is_null_safe(self) -> bool:
        """Whether the comparison is never unknown."""
        return "DISTINCT" in self.sign


@dataclass(frozen=True)
class Sides:
    """Both sides of a join and its conditions. ``rest`` has conditions over the columns of both sides in sequence."""

    left: PlanNode
    right: PlanNode
    comparisons: tuple[Comparison, ...]
    rest: tuple[Expression, ...]

    @property
    def width(self) -> int:
        """Number of columns of the left side."""
        return len(self.left.types)

    @property
    def condition(self) -> Expression:
        """All conditions, over the columns of both sides in sequence."""
        compared = [
            part
            for each in self.comparisons
            for part in compared_in(each.sign, each.left, shifted(each.right, self.width), self._is_never_null(each))
        ]
        return all_of([*compared, *self.rest])

    def _is_never_null(self, comparison: Comparison) -> bool:
        return is_never_null(self.left, comparison.left) or is_never_null(self.right, comparison.right)

    @property
    def keys(self) -> list[tuple[Expression, Expression]]:
        """The left and right values that the conditions compare by equality."""
        pairs = [key_pair(each, frozenset(range(self.width))) for each in conjuncts(self.condition)]
        return [(pair[0], shifted(pair[1], -self.width)) for pair in pairs if pair is not None]

    @property
    def are_keys(self) -> bool:
        """Whether all conditions are equalities of a left with a right value."""
        return len(self.keys) == len(conjuncts(self.condition))


def compared_in(sign: str, one: Expression, other: Expression, is_never_null: bool = False) -> list[Expression]:
    """Return the conditions of a comparison. A null-safe equality becomes equalities, which joins use as keys."""
    if sign == "IS NOT DISTINCT FROM":
        if is_never_null:
            return [call("equal", one, other)]
        default = _default(one.type)
        if default is None or one.type != other.type:
            return [call("not", call("distinct_from", one, other))]
        filled = [call("coalesce", each, default, data_type=one.type) for each in (one, other)]
        nulls = [call("is_null", each) for each in (one, other)]
        return [call("equal", *filled), call("equal", *nulls)]
    if sign == "IS DISTINCT FROM":
        return [call("distinct_from", one, other)]
    return [call(COMPARED[sign], one, other)]


def _default(data_type: pa.DataType) -> Constant | None:
    """Return any value of a type; None for types without a simple one."""
    if not is_ordered(data_type):
        return None
    zeros = pa.py_buffer(bytes(16))
    buffers = [None, zeros, zeros] if pat.is_string(data_type) or pat.is_binary(data_type) else [None, zeros]
    return Constant(data_type, pa.Array.from_buffers(data_type, 1, buffers)[0].as_py())


def null_safe_keys(values: Sequence[Expression], node: PlanNode | None) -> tuple[Expression, ...]:
    """Return keys that are never NULL, and equal where some values of a relation are equal or both NULL."""
    keys = []
    for each in values:
        if node is not None and is_never_null(node, each):
            keys.append(each)
            continue
        default = _default(each.type)
        if default is None:
            raise UnreadableError(f"partitions by values of type {each.type}")
        keys.append(call("coalesce", each, default, data_type=each.type))
        keys.append(call("is_null", each))
    return tuple(keys)


def is_never_null(node: PlanNode, value: Expression) -> bool:
    """Return whether a value of a relation is known not to be NULL."""
    if isinstance(value, InputColumn):
        return node.is_never_null(value.index)
    return isinstance(value, Constant) and value.value is not None


def _with_mark(node: PlanNode, mark: Expression, width: int) -> PlanNode:
    return ProjectNode(node, (*node.every_column[:width], mark))


def _equal(left: PlanNode, values: Sequence[Expression], keys: PlanNode, sign: str) -> Expression:
    """Return the condition that values of a left side equal the first columns of a right side."""
    pairs = zip(values, keys.every_column, strict=False)
    return Sides(left, keys, tuple(Comparison(sign, value, key) for value, key in pairs), ()).condition


def _matched_keys(sides: Sides) -> tuple[PlanNode, Expression]:
    """Return the distinct keys of left rows that have a match, and the condition that a left row has them."""
    if not sides.are_keys:
        left, domain, at = _domain(sides)
        pairs = JoinNode(domain, sides.right, "inner", shifted(sides.condition, at))
        matched = GroupNode(pairs, pairs.every_column[: len(left)], ())
        return matched, _equal(sides.left, left, matched, "IS NOT DISTINCT FROM")
    keys = sides.keys
    if not keys:
        count = GroupAggregate("count", None, False, pa.int64())
        some = call("greater", InputColumn(pa.int64(), 0), Constant(pa.int64(), 0))
        return FilterNode(GroupNode(sides.right, (), (count,)), some), TRUE
    groups = GroupNode(sides.right, tuple(right for _, right in keys), ())
    return groups, _equal(sides.left, [left for left, _ in keys], groups, "=")


def _domain(sides: Sides) -> tuple[list[InputColumn], PlanNode, dict[int, int]]:
    """Return the left columns that conditions read, their distinct rows, and where columns are in a join of these."""
    indices = sorted(index for index in sides.condition.columns if index < sides.width)
    left = [sides.left.every_column[index] for index in indices]
    at = {index: number for number, index in enumerate(indices)}
    at |= {sides.width + index: len(indices) + index for index in range(len(sides.right.types))}
    return left, GroupNode(sides.left, tuple(left), ()), at


def semi(sides: Sides) -> PlanNode:
    """Return the left rows that have a match."""
    keys, condition = _matched_keys(sides)
    joined = JoinNode(sides.left, keys, "inner", condition)
    return joined.select(range(sides.width))


def _marked(sides: Sides) -> tuple[PlanNode, Expression]:
    """Return the left rows with another column, and whether they have a match."""
    keys, condition = _matched_keys(sides)
    joined = JoinNode(sides.left, ProjectNode(keys, (*keys.every_column, TRUE)), "left", condition)
    has_match = call("not", call("is_null", joined.every_column[-1]))
    return joined, has_match


def anti(sides: Sides) -> PlanNode:
    """Return the left rows without a match."""
    joined, has_match = _marked(sides)
    return FilterNode(joined, call("not", has_match)).select(range(sides.width))


def is_two_valued(sides: Sides) -> bool:
    """Return whether a mark join has no unknown marks."""
    return not sides.rest and all(each.is_null_safe for each in sides.comparisons)


def mark(sides: Sides) -> PlanNode:
    """Return the left rows with a mark: whether a match exists, or NULL if only unknown comparisons prevent one."""
    if is_two_valued(sides):
        return _with_mark(*_marked(sides), sides.width)
    unsafe = [each for each in sides.comparisons if not each.is_null_safe]
    if len(unsafe) == 1 and unsafe[0].sign == "=" and not sides.rest:
        return _mark_of_equality(sides, unsafe[0])
    return _mark_of_pairs(sides)


def _mark_of_equality(sides: Sides, equality: Comparison) -> PlanNode:
    """Return marks of ``IN``: rows of a group without an equal value are unknown if the group has a NULL."""
    joined, has_match = _marked(sides)
    safe = [each for each in sides.comparisons if each is not equality]
    rows, values = (GroupAggregate("count", value, False, pa.int64()) for value in (None, equality.right))
    groups = GroupNode(sides.right, tuple(each.right for each in safe), (rows, values))
    compared = [replace(each, right=key) for each, key in zip(safe, groups.every_column, strict=False)]
    condition = Sides(joined, groups, tuple(compared), ()).condition
    both = JoinNode(joined, groups, "left" if safe else "inner", condition)
    count, count_of_values = both.every_column[-2:]
    is_empty = call("equal", call("coalesce", count, Constant(pa.int64(), 0)), Constant(pa.int64(), 0))
    has_null = call("greater", count, count_of_values)
    is_unknown = call("or", call("is_null", equality.left), has_null)
    value = call("case", has_match, TRUE, is_empty, FALSE, is_unknown, _UNKNOWN, FALSE, data_type=_BOOL)
    return _with_mark(both, value, sides.width)


def _mark_of_pairs(sides: Sides) -> PlanNode:
    """Return marks of any comparisons, from all pairs of distinct left values and right rows."""
    left, domain, at = _domain(sides)
    safe = replace(sides, comparisons=tuple(each for each in sides.comparisons if each.is_null_safe), rest=())
    unsafe = replace(sides, comparisons=tuple(each for each in sides.comparisons if not each.is_null_safe))
    pairs = JoinNode(domain, sides.right, "inner", shifted(safe.condition, at))
    condition = shifted(unsafe.condition, at)
    number = pa.int64()
    two, one, zero = (Constant(number, each) for each in (2, 1, 0))
    state = call("case", condition, two, call("is_null", condition), one, zero, data_type=number)
    states = GroupNode(pairs, pairs.every_column[: len(left)], (GroupAggregate("max", state, False, number),))
    by_domain = _equal(sides.left, left, states, "IS NOT DISTINCT FROM")
    both = JoinNode(sides.left, states, "left" if left else "inner", by_domain)
    last = call("coalesce", both.every_column[-1], zero, data_type=number)
    is_true, is_unknown = (call("equal", last, each) for each in (two, one))
    value = call("case", is_true, TRUE, is_unknown, _UNKNOWN, FALSE, data_type=_BOOL)
    return _with_mark(both, value, sides.width)


def single(sides: Sides) -> PlanNode | None:
    """Return left rows with the one match of each, or NULL. Several matches fail. Return None without keys alone."""
    if not sides.are_keys:
        return None
    keys = sides.keys
    # A group of one row has this row's value as its greatest.
    values = [GroupAggregate("max", each, False, each.type) for each in sides.right.every_column]
    count = GroupAggregate("count", None, False, pa.int64())
    groups = GroupNode(sides.right, tuple(right for _, right in keys), (*values, count))
    joined = JoinNode(sides.left, groups, "left", _equal(sides.left, [left for left, _ in keys], groups, "="))
    first = sides.width + len(keys)
    several = call("greater", joined.every_column[-1], Constant(pa.int64(), 1))
    right_values = [
        Call(each.type, "case", (several, _several_rows(each.type), each)) for each in joined.every_column[first:-1]
    ]
    return ProjectNode(joined, (*joined.every_column[: sides.width], *right_values))


def _several_rows(data_type: pa.DataType) -> Expression:
    """Return an expression that fails."""
    sql = "SELECT error('more than one row returned by a subquery used as an expression') FROM slot"
    return Call(data_type, "duckdb", (), DuckQuery(sql, (pa.int8(),), (data_type,)))


def outer(sides: Sides, how: JoinHow) -> PlanNode:
    """Return a left, right or full join. Conditions may read both sides in one value."""
    parts = conjuncts(sides.condition)
    if all(is_comparison(each, sides.width) for each in parts):
        return JoinNode(sides.left, sides.right, how, sides.condition)
    pairs = JoinNode(sides.left, sides.right, "inner", sides.condition)
    left, right = anti(sides), anti(_flipped(sides))
    no_left, no_right = ([Constant(each, None) for each in side.types] for side in (sides.left, sides.right))
    padded = {
        "left": ProjectNode(left, (*left.every_column, *no_right)),
        "right": ProjectNode(right, (*no_left, *right.every_column)),
    }
    return UnionNode((pairs, *(unmatched for side, unmatched in padded.items() if how in (side, "full"))))


def _flipped(sides: Sides) -> Sides:
    left, right = sides.width, len(sides.right.types)
    at = {index: index + right for index in range(left)} | {left + index: index for index in range(right)}
    return Sides(sides.right, sides.left, (), tuple(shifted(each, at) for each in conjuncts(sides.condition)))
