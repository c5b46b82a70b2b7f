"""The logical plan of a query: relational nodes as frozen values, so that equal parts compare equal.

Columns are identified by position, and table names are not part of a node: two uses of a subquery are the same node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal as OneOf

import pyarrow as pa

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import Expression, InputColumn
from juncture.incremental.operators.group import GroupAggregate
from juncture.incremental.operators.top import SortKey

JoinHow = OneOf["inner", "left", "right", "full"]


@dataclass(frozen=True)
class PlanNode:
    """A relation."""

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:
        """Types of the columns."""
        return self._types()

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Input relations."""
        return self._inputs()

    def _types(self) -> tuple[pa.DataType, ...]:
        raise NotImplementedError

    def _inputs(self) -> tuple[PlanNode, ...]:
        return ()

    @property
    def every_column(self) -> tuple[InputColumn, ...]:
        """All columns, in order."""
        return tuple(InputColumn(data_type, place) for place, data_type in enumerate(self.types))


@dataclass(frozen=True)
class ScanNode(PlanNode):
    """Some columns of a source."""

    source: str
    columns: tuple[tuple[str, pa.DataType], ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(data_type for _, data_type in self.columns)


@dataclass(frozen=True)
class EmptyNode(PlanNode):
    """A relation without rows."""

    of: tuple[pa.DataType, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.of


@dataclass(frozen=True)
class FilterNode(PlanNode):
    """The rows for which a condition is true."""

    input: PlanNode
    condition: Expression

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.input.types

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class ProjectNode(PlanNode):
    """Expressions computed for each row."""

    input: PlanNode
    columns: tuple[Expression, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(each.type for each in self.columns)

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class AsofMatch:
    """The values that an as-of join compares.

    ``backward`` selects the last right row that is not after the left row; otherwise, the first that is not before it.
    ``strict`` excludes equal values.
    """

    left: Expression
    right: Expression
    backward: bool
    strict: bool


@dataclass(frozen=True)
class JoinNode(PlanNode):
    """A join. The condition reads the columns of both sides in sequence.

    ``asof`` selects one right row per left row. ``output`` has the positions of the columns to return; None for all.
    """

    left: PlanNode
    right: PlanNode
    how: JoinHow
    condition: Expression
    asof: AsofMatch | None = None
    output: tuple[int, ...] | None = None

    @cached_property
    def both(self) -> tuple[pa.DataType, ...]:
        """Types of the columns of both sides."""
        return self.left.types + self.right.types

    @property
    def shown(self) -> tuple[int, ...]:
        """Positions of the returned columns among both sides."""
        return tuple(range(len(self.both))) if self.output is None else self.output

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(self.both[place] for place in self.shown)

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class GroupNode(PlanNode):
    """One row per distinct key, with aggregates. Without keys, exactly one row. Without aggregates, DISTINCT."""

    input: PlanNode
    keys: tuple[Expression, ...]
    aggregates: tuple[GroupAggregate, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*(each.type for each in self.keys), *(each.type for each in self.aggregates))

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class UnionNode(PlanNode):
    """The rows of all inputs, with duplicates."""

    parts: tuple[PlanNode, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.parts[0].types

    def _inputs(self) -> tuple[PlanNode, ...]:
        return self.parts


@dataclass(frozen=True)
class TopNode(PlanNode):
    """The first rows in an order, after an offset. Ties are broken by all columns."""

    input: PlanNode
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.input.types

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class PartitionNode(PlanNode):
    """The result of a query of DuckDB for the rows of each partition by ``keys``, which are not NULL.

    The query reads the columns ``reads``, and the number of each row. A query of windows (``adds_columns``) returns the
    number of a row and values for it; other queries return rows. ``result_keys`` are the keys of a row of the result.
    """

    input: PlanNode
    keys: tuple[Expression, ...]
    result_keys: tuple[Expression, ...]
    reads: tuple[int, ...]
    query: DuckQuery
    adds_columns: bool

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*self.input.types, *self.query.outputs[1:]) if self.adds_columns else self.query.outputs

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class ExpandNode(PlanNode):
    """Any number of rows for each row. A query reads ``reads`` and row numbers, and returns a row number and values."""

    input: PlanNode
    reads: tuple[int, ...]
    query: DuckQuery

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*self.input.types, *self.query.outputs[1:])

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)
