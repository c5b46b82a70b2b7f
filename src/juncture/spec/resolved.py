"""The base class of validated joins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

from juncture.columnar.schemas import LEFT_OUT
from juncture.columnar.types import is_null_type
from juncture.errors import PlanError
from juncture.ordered.domain import Domain
from juncture.spec.aggregate import CHOSEN, Aggregate
from juncture.spec.compared import Column, Compared, ComparedColumns, Expression, value_named
from juncture.spec.expression import Expr, Key
from juncture.spec.schema import SIDES, How, OutputColumn, Side

if TYPE_CHECKING:
    from juncture.predicate.decompose.shape import Shape
    from juncture.predicate.language.nodes import Node

# Names that cannot clash with those of users.
ROW_NUMBERS: dict[Side, str] = {"left": "juncture:left", "right": "juncture:right"}
"""The output columns with row numbers."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A spec that has been validated against two schemas.

    Columns named by ``spec`` are in the fields below under the names of the values that are compared in their place:
    an expression, a conversion or a tuple. In ``left_schema`` and ``right_schema``, these values follow the columns of
    the inputs, and compared and aggregated columns of the null type have the type that the join uses.
    """

    spec: Any
    how: How
    left_schema: pa.Schema
    right_schema: pa.Schema
    left_by: tuple[str, ...]
    right_by: tuple[str, ...]
    output: tuple[OutputColumn, ...]  # the columns of the inputs, in order
    # Last in the output, in place of right columns; empty for a join that returns matches.
    aggregates: tuple[Aggregate, ...] = ()
    # Follow the output: row numbers of these sides, null for a missing row; the left one for semi and anti.
    numbered: tuple[Side, ...] = ()
    tie_columns: tuple[str, ...] = ()  # right columns that order the matches of a left row
    nulls_equal: bool = False  # whether null equals null in ``left_by`` and ``right_by``
    domain: Domain | None = None  # that of values that are compared by their order
    predicate: Node | None = None  # a condition in SQL, with its parts in ``shape``
    shape: Shape | None = None
    left_computed: tuple[Compared, ...] = ()
    right_computed: tuple[Compared, ...] = ()

    def schema(self, side: Side) -> pa.Schema:
        """Return the schema of a side."""
        return self.left_schema if side == "left" else self.right_schema

    def computed(self, side: Side) -> list[Compared]:
        """Return the values that are computed from the columns of a side, in the order of its schema."""
        values, schema = (
            (self.left_computed, self.left_schema) if side == "left" else (self.right_computed, self.right_schema)
        )
        return [value for value in values if value.name in schema.names]

    def value(self, side: Side, name: str) -> Compared:
        """Return the value of a side with a name."""
        return value_named(self.left_computed if side == "left" else self.right_computed, name)

    def name_of(self, side: Side, key: Key) -> str | None:
        """Return the name of the value that is a column or an expression of the spec; None if there is none."""
        if not isinstance(key, Expr):
            return key
        values = self.computed(side)
        return next((each.name for each in values if isinstance(each, Expression) and each.text == key.text), None)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The schema of the output: columns of the inputs with their types, row numbers, then the aggregates."""
        schemas = {"left": self.left_schema, "right": self.right_schema}
        fields = [(c.name, schemas[c.side].field(c.source).type) for c in self.output]
        return pa.schema([*fields, *self._number_fields, *((each.name, each.type) for each in self.aggregates)])

    @cached_property
    def output_names(self) -> dict[Side, list[str]]:
        """The columns of each side that the output shows."""
        return {side: [column.source for column in self.output if column.side == side] for side in SIDES}

    @cached_property
    def key_types(self) -> tuple[list[pa.DataType], list[pa.DataType]]:
        """The types of the left and of the right key columns."""
        sides = (self.left_schema, self.left_by), (self.right_schema, self.right_by)
        left, right = ([schema.field(name).type for name in names] for schema, names in sides)
        return left, right

    @cached_property
    def type_ids(self) -> frozenset[int]:
        """Arrow's numbers of the types of all columns."""
        return frozenset(data_type.id for schema in (self.left_schema, self.right_schema) for data_type in schema.types)

    @property
    def _number_fields(self) -> list[pa.Field]:
        return [pa.field(ROW_NUMBERS[side], pa.int64()) for side in self.numbered]

    def user_schema(self, left: pa.Schema, right: pa.Schema) -> pa.Schema:
        """Return the schema of the output with the nullability and metadata of the input fields.

        Columns of the null type are restored, unless they are filled. A filled left column keeps the metadata on which
        both sides agree. A column is nullable only if it was, or the join adds nulls.
        """
        lacking = {"left": self.how in ("right", "full"), "right": self.how != "inner"}
        fields = []
        for column, output_field in zip(self.output, self.output_schema, strict=False):
            field = self._input_field(column.side, column.source, left, right)
            filling = (
                field if column.filled_from is None else self._input_field("right", column.filled_from, left, right)
            )
            data_type = field.type if is_null_type(field.type) and is_null_type(filling.type) else output_field.type
            both = {
                key: value
                for key, value in (field.metadata or {}).items()
                if (filling.metadata or {}).get(key) == value
            }
            is_nullable = field.nullable or lacking[column.side]
            fields.append(pa.field(column.name, data_type, is_nullable, both or None))
        fields += self._number_fields
        for aggregate in self.aggregates:
            data_type = aggregate.type
            if aggregate.column is not None and aggregate.function in CHOSEN:
                own_type = right.field(aggregate.column).type
                data_type = own_type if is_null_type(own_type) else data_type
            fields.append(pa.field(aggregate.name, data_type))
        metadata = {key: value for key, value in (left.metadata or {}).items() if key != LEFT_OUT}
        return pa.schema(fields, metadata or None)

    def _input_field(self, side: Side, name: str, left: pa.Schema, right: pa.Schema) -> pa.Field:
        """Return the input field of a column; of a conversion, in its target type."""
        schema, value = left if side == "left" else right, self.value(side, name)
        if isinstance(value, Column) or value.input_column is None:
            return schema.field(name)
        data_type = self.schema(side).field(name).type
        # In a task, a conversion may lack its source.
        field = (
            schema.field(value.input_column)
            if value.input_column in schema.names
            else pa.field(value.input_column, data_type)
        )
        return field.with_type(data_type)

    def over(self, left: pa.Schema, right: pa.Schema) -> Self:
        """Return the same join over fewer columns or other encodings of them; both have all that it compares."""
        names = {"left": set(left.names), "right": set(right.names)}
        return replace(
            self,
            left_schema=left,
            right_schema=right,
            output=tuple(column for column in self.output if column.source in names[column.side]),
            tie_columns=tuple(name for name in self.tie_columns if name in names["right"]),
        )

    def retyped(self, left: pa.Schema, right: pa.Schema) -> Self:
        """Return the same join over the same columns in other types."""
        columns = ComparedColumns(left, right, self.left_computed, self.right_computed)
        join: Self = self.spec._retyped(self, columns)
        return join

    def row_pairs(self) -> Self:
        """Return the same join with row numbers as its only output."""
        numbered: tuple[Side, ...] = ("left",) if self.how in ("semi", "anti") else SIDES
        return replace(self, output=(), aggregates=(), numbered=numbered)

    @property
    def goes_by_table_order(self) -> bool:
        """Whether the order of the rows in the right table decides which of them match."""
        return False

    def position(self, _side: Side, /) -> tuple[str | None, ...]:
        """Return the columns that order the rows of a side: none, one, or a start and an end (None where unbounded)."""
        return ()

    def swapped(self) -> Self | None:
        """Return the join with its sides swapped and without output columns; None if the sides are not alike."""
        return None

    def for_tasks(self) -> Self:
        """Return the join for tasks, which see only the needed right columns, with rows in any order."""
        return self

    @property
    def by_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns that must be equal."""
        return tuple(zip(self.left_by, self.right_by, strict=True))

    @property
    def is_computed(self) -> bool:
        """Whether the join compares columns computed from those of the inputs."""
        return bool(self.computed("left") or self.computed("right"))

    @property
    def right_payload(self) -> tuple[str, ...]:
        """The right columns that the output shows, by their names in the right table."""
        fills = {c.filled_from for c in self.output if c.filled_from}
        return tuple(name for name in self.right_schema.names if name in fills or name in self.output_names["right"])

    def compared(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match."""
        return self._compared(side, self.left_by if side == "left" else self.right_by, self.predicate)

    def _compared(self, side: Side, names: Iterable[str | None], condition: Node | None) -> tuple[str, ...]:
        """Return the columns that place a row of a side, some more, and those that a condition reads, each once."""
        read: Iterable[str] = ()
        if condition is not None:
            from juncture.predicate.language.nodes import columns

            read = (column.name for column in columns(condition) if column.side == side)
        return tuple(dict.fromkeys([name for name in (*self.position(side), *names, *read) if name is not None]))

    def needed(self, side: Side) -> tuple[str, ...]:
        """Return the columns of a side that decide which rows match, or that the output shows."""
        filling = self.right_payload if side == "right" else ()
        return tuple(dict.fromkeys((*self.compared(side), *self.output_names[side], *filling)))


def refuse_computed(join: Resolved, what: str) -> None:
    """Raise PlanError for joins by computed columns, and types that only as-of joins of tables support."""
    for side in () if _orders_by_tuple(join) else SIDES:
        for value in join.computed(side):
            _refuse(value, join.schema(side).field(value.name).type, side, what)
    refuse_orders(join, what)


def refuse_orders(join: Resolved, what: str) -> None:
    """Raise PlanError for a join by an order that only as-of joins of tables support; ``what`` as above."""
    on = join.spec.on_names()[0] if _orders_by_tuple(join) else ""
    refusal = None if join.domain is None else join.domain.refusal(on, what)
    if refusal is not None:
        raise PlanError(refusal, name="JN-ON-UNSUPPORTED")


def _orders_by_tuple(join: Resolved) -> bool:
    return join.domain is not None and len(join.domain.parts) > 1


def _refuse(value: Compared, data_type: pa.DataType, side: Side, what: str) -> NoReturn:
    if value.input_column is None:
        raise PlanError(
            f"{value.label!r} is an expression over the {side} table, but {what} can compare columns only. Add it "
            "to the table as a column first.",
            name="JN-KEY-EXPRESSION",
        )
    raise PlanError(
        f"{value.label!r} of the {side} table would be converted to {data_type} to compare with the other table, but "
        f"{what} can compare columns of equal types only. Cast both columns to one type first.",
        name="JN-KEY-CONVERSION",
    )
