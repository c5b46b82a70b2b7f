"""What a query does, as a tree of relational nodes: frozen values, so that parts that do the same are equal.

Columns are told by their place, and names of tables play no part: two uses of one subquery are the same node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal as OneOf

import pyarrow as pa

from juncture.incremental.view.expressions import Expression, InputColumn

JoinHow = OneOf["inner", "left", "right", "full"]


@dataclass(frozen=True)
class PlanNode:
    """Rows that change."""

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns."""
        return self._types()

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """What the rows are made of."""
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
    """The rows of a source: some of its columns."""

    source: str
    columns: tuple[tuple[str, pa.DataType], ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(data_type for _, data_type in self.columns)


@dataclass(frozen=True)
class EmptyNode(PlanNode):
    """No rows, ever."""

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
    """Values worked out of each row."""

    input: PlanNode
    columns: tuple[Expression, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(each.type for each in self.columns)

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class AsofMatch:
    """Which right row of equal keys a left row takes.

    Attributes
    ----------
    left, right
        The values that are compared.
    backward
        Whether it is the last one that is not after the left row, rather than the first that is not before it.
    strict
        Whether one that is equal is left out.
    """

    left: Expression
    right: Expression
    backward: bool
    strict: bool


@dataclass(frozen=True)
class JoinNode(PlanNode):
    """Left rows beside right rows.

    Attributes
    ----------
    left, right, how
        The sides, and which rows without a match are kept.
    condition
        What has to be true, of the columns of both sides one after the other.
    asof
        Which of the right rows to take; None for all.
    output
        Which columns of both sides come out.
    """

    left: PlanNode
    right: PlanNode
    how: JoinHow
    condition: Expression
    asof: AsofMatch | None = None
    output: tuple[int, ...] | None = None

    @cached_property
    def both(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of both sides."""
        return self.left.types + self.right.types

    @property
    def shown(self) -> tuple[int, ...]:
        """The columns of both sides that come out."""
        return tuple(range(len(self.both))) if self.output is None else self.output

    def _types(self) -> tuple[pa.DataType, ...]:
        return tuple(self.both[place] for place in self.shown)

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class GroupAggregate:
    """A value of a group.

    Attributes
    ----------
    function
        ``count``, ``sum``, ``avg``, ``min`` or ``max``.
    value
        What it is of; None for ``count(*)``.
    distinct
        Whether equal values count once.
    type
        Of the result.
    """

    function: OneOf["count", "sum", "avg", "min", "max"]
    value: Expression | None
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True)
class GroupNode(PlanNode):
    """A row for each distinct key, with aggregates; without keys, one row. Without aggregates, it is DISTINCT."""

    input: PlanNode
    keys: tuple[Expression, ...]
    aggregates: tuple[GroupAggregate, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return (*(each.type for each in self.keys), *(each.type for each in self.aggregates))

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)


@dataclass(frozen=True)
class UnionNode(PlanNode):
    """The rows of all inputs, one after the other, equal ones as often as they come."""

    parts: tuple[PlanNode, ...]

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.parts[0].types

    def _inputs(self) -> tuple[PlanNode, ...]:
        return self.parts


@dataclass(frozen=True)
class SortKey:
    """What rows are in order of."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopNode(PlanNode):
    """The first rows in an order, after some that are left out. What is equal is in the order of all columns."""

    input: PlanNode
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int

    def _types(self) -> tuple[pa.DataType, ...]:
        return self.input.types

    def _inputs(self) -> tuple[PlanNode, ...]:
        return (self.input,)
