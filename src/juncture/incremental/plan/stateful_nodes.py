"""Nodes that store rows: joins, groups, first rows and queries by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar
from typing import Literal as OneOf

import pyarrow as pa

from juncture.incremental.expressions.expression import (
    Call,
    Expression,
    InputColumn,
    all_of,
    columns_of,
    conjuncts,
    shifted,
    text_of,
)
from juncture.incremental.operators.eviction import Future, Pairs, carry, joined, moved
from juncture.incremental.operators.group import GroupAggregate
from juncture.incremental.operators.partition import PartitionOrder
from juncture.incremental.operators.top import SortKey
from juncture.incremental.plan.nodes import (
    EmptyNode,
    InputColumns,
    InputConditions,
    NarrowedNode,
    NewIndices,
    OneInputNode,
    PlanNode,
    Positions,
    QueryNode,
    numbered,
)
from juncture.spec.base import Spec

JoinHow = OneOf["inner", "left", "right", "full"]

_ORDERS = ("less", "less_equal", "greater", "greater_equal")


@dataclass(frozen=True)
class AsofMatch:
    """The values that an as-of join compares."""

    left: Expression
    right: Expression
    backward: bool  # selects the last right row not after the left row; otherwise, the first one not before it
    strict: bool  # excludes equal values


@dataclass(frozen=True)
class _TwoInputNode(PlanNode):
    left: PlanNode
    right: PlanNode

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Both sides."""
        return self.left, self.right

    def with_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        """Return the join of other sides."""
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True)
class JoinNode(_TwoInputNode):
    """A join."""

    input_columns: ClassVar[InputColumns] = "exactly"

    how: JoinHow
    condition: Expression  # over the columns of both sides in sequence
    asof: AsofMatch | None = None  # selects one right row per left row
    output: tuple[int, ...] | None = None  # the positions of the columns to return; None for all

    @property
    def width(self) -> int:
        """Number of columns of the left side."""
        return len(self.left.types)

    @property
    def returned(self) -> tuple[int, ...]:
        """Positions of the returned columns among those of both sides."""
        return tuple(range(self.width + len(self.right.types))) if self.output is None else self.output

    def _types(self) -> tuple[pa.DataType, ...]:
        both = self.left.types + self.right.types
        return tuple(both[index] for index in self.returned)

    @property
    def both_names(self) -> tuple[str, ...]:
        """Names of the columns of both sides."""
        return self.left.names + self.right.names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the returned columns."""
        both = self.both_names
        return tuple(both[index] for index in self.returned)

    def origins(self, index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the column of a side, which unmatched rows may replace by NULL."""
        at = self.returned[index]
        return [(self.left, at) if at < self.width else (self.right, at - self.width)]

    def is_never_null(self, index: int) -> bool:
        """Return whether a column of a side whose rows all have a match is known not to have NULL."""
        is_padded = self.how in (("right", "full") if self.returned[index] < self.width else ("left", "full"))
        return not is_padded and super().is_never_null(index)

    @property
    def is_inner(self) -> bool:
        """Whether the join returns all pairs of rows for which the condition is true."""
        return self.how == "inner" and self.asof is None

    def side(self, condition: Expression) -> int | None:
        """Return the number of the only side that a condition reads; None for other conditions."""
        columns = condition.columns
        if not columns or min(columns) < self.width <= max(columns):
            return None
        return int(min(columns) >= self.width)

    def release(self) -> tuple[PlanNode, InputConditions]:
        """Return the conditions of the side whose unmatched rows are dropped: a row that fails has no match."""
        parts, optional = conjuncts(self.condition), {"left": 1, "right": 0}.get(self.how, -1)
        released = [each for each in parts if self.side(each) == optional]
        rest = all_of([each for each in parts if each not in released])
        return replace(self, condition=rest), [(optional, shifted(each, -self.width * optional)) for each in released]

    def carried(self, number: int) -> Pairs:
        """Return the columns of the side whose rows all appear."""
        if number != {"inner": 0, "left": 0, "right": 1}.get(self.how):
            return ()
        at = {each.index + number * self.width: each for each in self.inputs[number].every_column}
        return [(each, at[index]) for each, index in zip(self.every_column, self.returned, strict=True) if index in at]

    def future(self, inputs: Sequence[Future]) -> Future:
        """Return the changes of joined rows."""
        both = [*self.columns_of(0), *self.columns_of(1)]
        returned = [both[index] for index in self.returned]
        return carry(self.joined_future(inputs), list(zip(self.every_column, returned, strict=True)))

    def joined_future(self, inputs: Sequence[Future]) -> Future:
        """Return the changes of joined rows, with bounds over the columns of both sides in sequence."""
        conditions, match = conjuncts(self.condition), self.asof
        if self.is_inner:
            return joined(inputs, [0, self.width], conditions)
        # A right row changes later left rows in a backward join, and replaces other right rows there.
        after = [] if match is None or not match.backward else [(shifted(match.right, self.width), match.left)]
        future = []
        for number, changes in enumerate(inputs):
            for each in moved(changes, number * self.width):
                joined_rows = each.through(conditions, after if number else ())
                others = [one for one in joined_rows.bounds if self.side(one.value) == 1 - number]
                if match is not None and number:
                    future.append(replace(each, bounds=tuple(others)).through(conditions))
                else:
                    # Unmatched rows are only within the bounds of their own side.
                    future.append(replace(each, bounds=(*each.bounds, *others)))
        return tuple(future)

    def asof_future(self, inputs: Sequence[Future]) -> Future:
        """Return the changes of both sides, with bounds of the right value that an as-of join compares."""
        if self.asof is None or self.asof.left.type != self.asof.right.type:
            return ()
        right = self.asof.right
        future = (*carry(inputs[0], [(right, self.asof.left)]), *carry(inputs[1], [(right, right)]))
        return tuple(replace(each, bounds=tuple(one for one in each.bounds if one.value == right)) for each in future)

    def columns_of(self, side: int) -> list[InputColumn]:
        """Return the columns of a side, among those of both sides in sequence."""
        return [InputColumn(each.type, each.index + side * self.width) for each in self.inputs[side].every_column]

    def flattened(self) -> tuple[Sequence[PlanNode], Sequence[Expression]]:
        """Return the inputs and conditions of nested inner joins."""
        if not self.is_inner:
            return [self], []
        (left, left_conditions), (right, right_conditions) = self.left.flattened(), self.right.flattened()
        right_conditions = [shifted(each, self.width) for each in right_conditions]
        return [*left, *right], [*left_conditions, *right_conditions, *conjuncts(self.condition)]

    @property
    def shares_rows(self) -> bool:
        """Whether the join matches by equal keys only, so that other joins can use its arrangements of rows."""
        return self.is_inner and not any(self._is_bound(each) for each in conjuncts(self.condition))

    def _is_bound(self, condition: Expression) -> bool:
        """Return whether a condition compares a left with a right value by order."""
        operands = condition.operands if isinstance(condition, Call) and condition.function in _ORDERS else ()
        return {self.side(each) for each in operands} == {0, 1}

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns of each side, and those that the conditions read."""
        both = frozenset(self.returned[index] for index in wanted) | self.condition.columns
        left = frozenset(index for index in both if index < self.width)
        right = frozenset(index - self.width for index in both if index >= self.width)
        match = self.asof
        return [left, right] if match is None else [left | match.left.columns, right | match.right.columns]

    def narrowed(self, wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the join of other sides, with the wanted columns only."""
        (left, left_indices), (right, right_indices) = inputs
        at = {**left_indices, **{index + self.width: new + len(left.types) for index, new in right_indices.items()}}
        match = self.asof
        if match is not None:
            match = replace(match, left=shifted(match.left, left_indices), right=shifted(match.right, right_indices))
        indices = sorted(wanted)
        output = tuple(at[self.returned[index]] for index in indices)
        return JoinNode(left, right, self.how, shifted(self.condition, at), match, output), numbered(indices)

    def only(self, indices: Sequence[int]) -> PlanNode:
        """Return the join with fewer columns."""
        return replace(self, output=tuple(self.returned[index] for index in indices))


@dataclass(frozen=True)
class SpecJoinNode(_TwoInputNode):
    """A join by a spec, which reads all columns of both sides by their names."""

    input_columns: ClassVar[InputColumns] = "in order"

    left_names: tuple[str, ...]
    right_names: tuple[str, ...]
    # Specs may have lists.
    spec: Spec = field(hash=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        left = pa.schema(list(zip(self.left_names, self.left.types, strict=True)))
        right = pa.schema(list(zip(self.right_names, self.right.types, strict=True)))
        return self.spec.resolve(left, right).user_schema(left, right)

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(self.schema.types)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the result."""
        return tuple(self.schema.names)

    def needed(self, _wanted: Positions) -> Sequence[Positions]:
        """Return all columns, because further columns of the right side break ties."""
        return [frozenset(range(len(node.types))) for node in self.inputs]

    def narrowed(self, _wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the join with all columns."""
        return self.with_inputs([node for node, _ in inputs]), numbered(range(len(self.types)))


@dataclass(frozen=True)
class GroupNode(OneInputNode):
    """One row per distinct key, with aggregates. Without keys, exactly one row. Without aggregates, DISTINCT."""

    is_one_node: ClassVar[bool] = True

    keys: tuple[Expression, ...]
    aggregates: tuple[GroupAggregate, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*(each.type for each in self.keys), *(each.type for each in self.aggregates))

    def simplified(self) -> PlanNode:
        """Return no rows if the input has none, unless there is one row without keys."""
        return EmptyNode(self.types) if self.input.is_empty and self.keys else self

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the keys and aggregates."""
        names = self.input.names
        return (*(text_of(each, names) for each in self.keys), *(each.text(names) for each in self.aggregates))

    def origins(self, index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the column that a key is."""
        key = self.keys[index] if index < len(self.keys) else None
        return [(self.input, key.index)] if isinstance(key, InputColumn) else ()

    def is_never_null(self, index: int) -> bool:
        """Return whether a column is a count, or a key that is known not to be NULL."""
        if index >= len(self.keys):
            return self.aggregates[index - len(self.keys)].function == "count"
        return super().is_never_null(index)

    def carried(self, _number: int) -> Pairs:
        """Return the keys, which whole groups share."""
        return list(zip(self.every_column, self.keys, strict=False))

    def _wanted_aggregates(self, wanted: Positions) -> list[int]:
        """Return the positions of the wanted aggregates. Without keys, one is needed for the one row."""
        indices = [index for index in range(len(self.aggregates)) if index + len(self.keys) in wanted]
        return indices if indices or self.keys else [0]

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the columns that the keys and wanted aggregates read."""
        read = [each for index in self._wanted_aggregates(wanted) for each in self.aggregates[index].read]
        return [columns_of([*self.keys, *read])]

    def narrowed(self, wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the groups with fewer aggregates."""
        ((node, new_indices),) = inputs
        indices, count = self._wanted_aggregates(wanted), len(self.keys)
        keys = tuple(shifted(each, new_indices) for each in self.keys)
        aggregates = tuple(self.aggregates[index].shifted(new_indices) for index in indices)
        return GroupNode(node, keys, aggregates), numbered([*range(count), *(index + count for index in indices)])


@dataclass(frozen=True)
class TopNode(OneInputNode):
    """The first rows in an order, after an offset. Ties are broken by all columns. Conditions above must stay there."""

    input_columns: ClassVar[InputColumns] = "in order"

    order: tuple[SortKey, ...]
    limit: int | None
    offset: int

    def carried(self, _number: int) -> Pairs:
        """Return nothing: other rows follow when one of the first rows is deleted."""
        return ()

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns, and those of the order."""
        return [wanted | {key.column for key in self.order}]

    def narrowed(self, _wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the first rows over the columns of the input."""
        ((node, new_indices),) = inputs
        order = tuple(replace(key, column=new_indices[key.column]) for key in self.order)
        return replace(self, input=node, order=order), new_indices


@dataclass(frozen=True)
class PartitionNode(QueryNode):
    """The result of a query of DuckDB for the rows of each partition by ``keys``, which are not NULL.

    The query also reads the number of each partition. A query of windows (``adds_columns``) returns the number of a row
    and values for it; other queries return rows. ``result_keys`` are the keys of a row of the result. Without
    ``order``, all rows of a partition depend on each other.
    """

    keys: tuple[Expression, ...]
    result_keys: tuple[Expression, ...]
    adds_columns: bool
    order: PartitionOrder | None = None

    def limited(self, conditions: Sequence[Expression]) -> PlanNode:
        """Return the rows up to the greatest rank for which some conditions may be true."""
        return self if self.order is None else replace(self, order=self.order.limited(conditions, self.width))

    @property
    def width(self) -> int:
        """Number of columns of the input that the result has."""
        return super().width if self.adds_columns else 0

    def _types(self) -> tuple[pa.DataType, ...]:
        return super()._types() if self.adds_columns else self.query.outputs

    def carried(self, _number: int) -> Pairs:
        """Return the keys, which whole partitions share."""
        return list(zip(self.result_keys, self.keys, strict=True))

    def push(self, condition: Expression) -> InputConditions:
        """Push conditions that keep or exclude whole partitions. Keys of values that may be NULL are not columns."""
        by = [each.operands[0] if isinstance(each, Call) and each.function == "is_null" else each for each in self.keys]
        columns = {each.index for each in by if isinstance(each, InputColumn)}
        read = condition.columns
        return [(0, condition)] if self.adds_columns and read and read <= columns else ()

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns of the input, and those that the query and the keys read."""
        by = [] if self.order is None else [self.order.by.value]
        return [super().needed(wanted)[0] | columns_of([*self.keys, *by])]

    def _over(self, node: PlanNode, new_indices: NewIndices) -> QueryNode:
        keys = tuple(shifted(each, new_indices) for each in self.keys)
        order = self.order
        if order is not None:
            order = replace(order, by=replace(order.by, value=shifted(order.by.value, new_indices)))
        over = replace(self, keys=keys, result_keys=keys if self.adds_columns else self.result_keys, order=order)
        return super(PartitionNode, over)._over(node, new_indices)
