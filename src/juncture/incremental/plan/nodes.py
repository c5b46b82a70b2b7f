"""The logical plan of a query: relational nodes as frozen values, so that equal parts compare equal.

Columns are identified by position, and table names are not part of a node: two uses of a subquery are the same node.
A node implements what rules need to know about it, and rules are functions over these methods. A new kind of node needs
a class here and a builder in `juncture.incremental.plan.physical`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar
from typing import Literal as OneOf

import pyarrow as pa

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import (
    TRUE,
    Call,
    Constant,
    Expression,
    InputColumn,
    columns_of,
    conjuncts,
    is_never,
    shifted,
    substituted,
    text_of,
)
from juncture.incremental.operators.eviction import Bound, Future, FutureChanges, Pairs, carry

InputColumns = OneOf["more", "exactly", "in order"]
"""What remains of inputs without unused columns: more than the needed ones, exactly these, or these in order."""

Positions = frozenset[int]
"""Some columns of a node."""

NewIndices = Mapping[int, int]
"""From column indices of a node to those of its replacement."""

NarrowedNode = tuple["PlanNode", NewIndices]
"""A node, and the new indices of columns in it."""

InputConditions = Sequence[tuple[int, Expression]]
"""Conditions, each with the number of an input and over its columns."""


@dataclass(frozen=True)
class PlanNode(ABC):
    """A relation."""

    input_columns: ClassVar[InputColumns] = "more"  # see `InputColumns`
    is_empty: ClassVar[bool] = False
    is_one_node: ClassVar[bool] = False  # whether uses with other conditions share it

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:
        """Types of the columns."""
        return self._types()

    @abstractmethod
    def _types(self) -> tuple[pa.DataType, ...]: ...

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Input relations."""
        return ()

    def with_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        """Return the node with other inputs of the same types."""
        assert not inputs
        return self

    def simplified(self) -> PlanNode:
        """Return an equal relation with fewer nodes, if the inputs allow it."""
        return self

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources that the relation is computed from."""
        return frozenset(source for node in self.inputs for source in node.sources)

    # Columns

    @property
    def every_column(self) -> tuple[InputColumn, ...]:
        """All columns, in order."""
        return tuple(InputColumn(data_type, index) for index, data_type in enumerate(self.types))

    @property
    def names(self) -> tuple[str, ...]:
        """Display names of the columns."""
        return tuple(f"column {index}" for index in range(len(self.types)))

    def select(self, indices: Sequence[int]) -> PlanNode:
        """Return some columns, in this order."""
        if list(indices) == list(range(len(self.types))):
            return self
        return ProjectNode(self, tuple(self.every_column[index] for index in indices))

    def origins(self, _index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the columns of inputs whose values a column has; none for other values."""
        return ()

    def is_never_null(self, index: int) -> bool:
        """Return whether a column is known not to have NULL."""
        origins = self.origins(index)
        return bool(origins) and all(node.is_never_null(at) for node, at in origins)

    # Conditions and changes

    def carried(self, _number: int) -> Pairs:
        """Return values of rows, each with the equal value of the rows of an input.

        Rows with some of these values depend only on rows of the input that have them, so that a condition on them can
        be that of the input, and a bound of the input's changes is one of the changes.
        """
        return ()

    def future(self, inputs: Sequence[Future]) -> Future:
        """Return all changes that are possible, with bounds over the columns, given those of the inputs."""
        return tuple(
            each
            for number, (node, future) in enumerate(zip(self.inputs, inputs, strict=True))
            for each in carry(future, self.carried(number), node.is_never_null)
        )

    @property
    def is_filtered(self) -> bool:
        """Whether the relation has some rows of another one."""
        return False

    def release(self) -> tuple[PlanNode, InputConditions]:
        """Return the node without the conditions that its inputs can apply, and these conditions."""
        return self, ()

    def push(self, condition: Expression) -> InputConditions:
        """Return the conditions of inputs that replace a condition of the result; none if it has to stay above."""
        pushed = []
        for number in range(len(self.inputs) if condition.columns else 0):
            at = {column.index: value for column, value in self.carried(number) if isinstance(column, InputColumn)}
            if condition.columns <= at.keys():
                pushed.append((number, substituted(condition, at)))
        return pushed

    def limited(self, _conditions: Sequence[Expression]) -> PlanNode:
        """Return a node that may lack rows for which conditions above are not true."""
        return self

    def flattened(self) -> tuple[Sequence[PlanNode], Sequence[Expression]]:
        """Return the inputs of nested inner joins, and the conditions over the columns of all inputs in sequence."""
        return [self], []

    # Unused columns

    def needed(self, _wanted: Positions) -> Sequence[Positions]:
        """Return the columns that are needed of each input to return some columns."""
        return ()

    @abstractmethod
    def narrowed(self, wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the node with the wanted columns, over inputs that have the needed ones."""

    def only(self, indices: Sequence[int]) -> PlanNode:
        """Return some columns, in this order, without a projection if the node can select columns itself."""
        return self.select(indices)


@dataclass(frozen=True)
class ScanNode(PlanNode):
    """Some columns of a source, with that of its ``order``, which is never NULL."""

    source: str
    columns: tuple[tuple[str, pa.DataType], ...]
    order: str | None = None

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(data_type for _, data_type in self.columns)

    @cached_property
    def sources(self) -> frozenset[str]:
        """The source."""
        return frozenset([self.source])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)

    def narrowed(self, wanted: Positions, _inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return fewer columns of the source."""
        indices = sorted({*wanted, *(index for index, name in enumerate(self.names) if name == self.order)})
        return replace(self, columns=tuple(self.columns[index] for index in indices)), numbered(indices)

    def is_never_null(self, index: int) -> bool:
        """Return whether a column is the order."""
        return self.names[index] == self.order

    def future(self, _inputs: Sequence[Future]) -> Future:
        """Return any changes, which are at least at the frontier."""
        ordered = [each for each in self.every_column if self.is_never_null(each.index)]
        return (FutureChanges(self.source, tuple(Bound(each, InputColumn(each.type, 0)) for each in ordered)),)


@dataclass(frozen=True)
class EmptyNode(PlanNode):
    """A relation without rows."""

    is_empty: ClassVar[bool] = True

    of: tuple[pa.DataType, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.of

    def narrowed(self, wanted: Positions, _inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return fewer columns without rows."""
        indices = sorted(wanted)
        return EmptyNode(tuple(self.of[index] for index in indices)), numbered(indices)


@dataclass(frozen=True)
class OneInputNode(PlanNode):
    """A node with one input. Unless a node says otherwise, its first columns are those of the input."""

    input: PlanNode

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.input.types

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """The input."""
        return (self.input,)

    def with_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        """Return the node with another input."""
        return replace(self, input=inputs[0])

    @property
    def width(self) -> int:
        """Number of columns of the input that the result starts with."""
        return len(self.input.types)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the input, and numbers of further ones."""
        return (*self.input.names[: self.width], *super().names[self.width :])

    def origins(self, index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the column of the input."""
        return [(self.input, index)] if index < self.width else ()

    def carried(self, _number: int) -> Pairs:
        """Return the columns of the input."""
        return [(each, each) for each in self.every_column[: self.width]]


@dataclass(frozen=True)
class FilterNode(OneInputNode):
    """The rows for which a condition is true."""

    condition: Expression

    def simplified(self) -> PlanNode:
        """Return the input if the condition is always true, and no rows if it never is."""
        if self.condition == TRUE:
            return self.input
        return EmptyNode(self.types) if is_never(self.condition) or self.input.is_empty else self

    def is_never_null(self, index: int) -> bool:
        """Return whether the condition excludes NULL."""
        is_null = Call(pa.bool_(), "is_null", (self.every_column[index],))
        return Call(pa.bool_(), "not", (is_null,)) in conjuncts(self.condition) or super().is_never_null(index)

    @property
    def is_filtered(self) -> bool:
        """True."""
        return True

    def release(self) -> tuple[PlanNode, InputConditions]:
        """Return all conditions."""
        return replace(self, condition=TRUE), [(0, each) for each in conjuncts(self.condition)]

    def flattened(self) -> tuple[Sequence[PlanNode], Sequence[Expression]]:
        """Return the inputs of the join below, if it is one."""
        parts, conditions = self.input.flattened()
        # Keep the order: an earlier condition may protect a later one from failing.
        return (parts, [*conditions, *conjuncts(self.condition)]) if len(parts) > 1 else ([self], [])

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns, and those that the condition reads."""
        return [wanted | self.condition.columns]

    def narrowed(self, _wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the filter over the columns of the input."""
        ((node, new_indices),) = inputs
        return FilterNode(node, shifted(self.condition, new_indices)), new_indices


@dataclass(frozen=True)
class ProjectNode(OneInputNode):
    """Expressions computed for each row."""

    columns: tuple[Expression, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(each.type for each in self.columns)

    def simplified(self) -> PlanNode:
        """Return one projection in place of two, and the input if its columns are unchanged."""
        if self.input.is_empty:
            return EmptyNode(self.types)
        inner = self.input
        if isinstance(inner, ProjectNode):
            columns = tuple(substituted(each, inner.columns) for each in self.columns)
            return ProjectNode(inner.input, columns)
        return inner if self.columns == inner.every_column else self

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the expressions."""
        return tuple(text_of(each, self.input.names) for each in self.columns)

    def origins(self, index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the column that an expression is."""
        value = self.columns[index]
        return [(self.input, value.index)] if isinstance(value, InputColumn) else ()

    def is_never_null(self, index: int) -> bool:
        """Return whether an expression is known not to be NULL."""
        value = self.columns[index]
        return value.value is not None if isinstance(value, Constant) else super().is_never_null(index)

    @property
    def is_filtered(self) -> bool:
        """Whether the input has some rows of another relation."""
        return self.input.is_filtered

    def carried(self, _number: int) -> Pairs:
        """Return the expressions."""
        return list(zip(self.every_column, self.columns, strict=True))

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the columns that the wanted expressions read."""
        return [columns_of([self.columns[index] for index in wanted])]

    def narrowed(self, wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return fewer expressions, or the input if they are columns of it."""
        ((node, new_indices),) = inputs
        indices = sorted(wanted)
        values = tuple(shifted(self.columns[index], new_indices) for index in indices)
        pairs = zip(indices, values, strict=True)
        chosen = {index: value.index for index, value in pairs if isinstance(value, InputColumn)}
        return (node, chosen) if len(chosen) == len(indices) else (ProjectNode(node, values), numbered(indices))


@dataclass(frozen=True)
class UnionNode(PlanNode):
    """The rows of all inputs, with duplicates."""

    input_columns: ClassVar[InputColumns] = "in order"

    parts: tuple[PlanNode, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.parts[0].types

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """The parts."""
        return self.parts

    def with_inputs(self, inputs: Sequence[PlanNode]) -> PlanNode:
        """Return the union of other parts."""
        return UnionNode(tuple(inputs))

    def simplified(self) -> PlanNode:
        """Return the union of the parts that may have rows, and of the parts of these."""
        united = [each for part in self.parts for each in (part.parts if isinstance(part, UnionNode) else [part])]
        parts = [part for part in united if not part.is_empty]
        if len(parts) < 2:
            return parts[0] if parts else EmptyNode(self.types)
        return UnionNode(tuple(parts))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the first part."""
        return self.parts[0].names

    def origins(self, index: int) -> Sequence[tuple[PlanNode, int]]:
        """Return the column of each part."""
        return [(part, index) for part in self.parts]

    def carried(self, _number: int) -> Pairs:
        """Return all columns."""
        return [(each, each) for each in self.every_column]

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns of each part."""
        return [wanted] * len(self.parts)

    def narrowed(self, _wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the union of parts with fewer columns."""
        return UnionNode(tuple(node for node, _ in inputs)), inputs[0][1]


@dataclass(frozen=True)
class QueryNode(OneInputNode):
    """Further columns, by a query of DuckDB that reads row numbers and ``reads``, and returns rows by number."""

    input_columns: ClassVar[InputColumns] = "exactly"

    reads: tuple[int, ...]
    query: DuckQuery

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*self.input.types, *self.query.outputs[1:])

    def text(self, *numbers: str) -> str:
        """Return the query as text, given the names of the numbers that it reads."""
        return self.query.text([*numbers, *(self.input.names[index] for index in self.reads)])

    def needed(self, wanted: Positions) -> Sequence[Positions]:
        """Return the wanted columns of the input, and those that the query reads."""
        return [frozenset(index for index in wanted if index < self.width) | frozenset(self.reads)]

    def narrowed(self, _wanted: Positions, inputs: Sequence[NarrowedNode]) -> NarrowedNode:
        """Return the query over other columns of the input."""
        ((input_node, new_indices),) = inputs
        node = self._over(input_node, new_indices)
        of_input = {index: new for index, new in new_indices.items() if index < self.width}
        return node, of_input | {index: index - self.width + node.width for index in range(self.width, len(self.types))}

    def _over(self, node: PlanNode, new_indices: NewIndices) -> QueryNode:
        return replace(self, input=node, reads=tuple(new_indices[each] for each in self.reads))


@dataclass(frozen=True)
class ExpandNode(QueryNode):
    """Any number of rows for each row."""


def numbered(indices: Sequence[int]) -> NewIndices:
    """Return the new indices of columns that are selected."""
    return {index: number for number, index in enumerate(indices)}


def answer_types(node: PlanNode, sources: Mapping[str, pa.Schema]) -> list[pa.DataType]:
    """Return the types of a result. Columns of a source keep its types, which may differ from those of DuckDB."""
    by_name = {name.lower(): schema for name, schema in sources.items()}

    def original(node: PlanNode, index: int) -> pa.DataType:
        if isinstance(node, ScanNode):
            return by_name[node.source].field(node.columns[index][0]).type
        types = {original(origin, at) for origin, at in node.origins(index)}
        return types.pop() if len(types) == 1 else node.types[index]

    return [original(node, index) for index in range(len(node.types))]
