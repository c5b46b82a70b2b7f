"""Values that a join compares: columns of a table, and expressions, conversions and tuples computed from them.

In the schemas of a resolved join, computed values follow the table's own columns. They never appear in the output: a
conversion is shown as its source column, or fills it from right rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa

from juncture.columnar.schemas import check_columns
from juncture.columnar.types import is_null_type, key_kind, plain_type
from juncture.errors import JunctureError, SchemaError
from juncture.spec.expression import Expr, Key
from juncture.spec.schema import (
    SIDES,
    How,
    OutputColumn,
    Side,
    first_type,
    free_name,
    incomparable,
    left_columns,
    typed,
)

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node


@dataclass(frozen=True)
class Compared:
    """A value per row of a table. ``name`` is that of its column in the schema of the resolved join."""

    name: str
    of: tuple[Compared, ...] = ()  # the values from which it is computed, except the columns in an expression

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.of[0].label if self.of else self.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's own columns from which the value is computed."""
        return tuple(name for value in self.of for name in value.columns) if self.of else (self.name,)

    @property
    def input_column(self) -> str | None:
        """The table's own column with the same value, possibly in another type; None for expressions and tuples."""
        return self.of[0].input_column if self.of else self.name

    @property
    def parts(self) -> tuple[Compared, ...]:
        """The values that are compared one after the other, the most significant first."""
        return (self,)

    @property
    def equal_names(self) -> tuple[str, ...]:
        """The names of all values that are equal in two rows if this one is."""
        return (self.name, *(name for value in self.of for name in value.equal_names))


class Column(Compared):
    """A table's own column."""


class Conversion(Compared):
    """A value in a type that represents all of its values."""


class TupleOf(Compared):
    """A struct of several values."""

    @property
    def label(self) -> str:
        """The name in messages."""
        return f"({', '.join(value.label for value in self.of)})"

    @property
    def input_column(self) -> None:
        """None, since no column has this value."""

    @property
    def parts(self) -> tuple[Compared, ...]:
        """The values that are compared one after the other, the most significant first."""
        return self.of


@dataclass(frozen=True, kw_only=True)
class Expression(Compared):
    """An expression over a table's own columns. It may convert the value ``of``, if not exactly."""

    text: str
    node: Node = field(compare=False, repr=False)

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.of[0].label if self.of else self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's own columns from which the value is computed."""
        from juncture.predicate.language.nodes import columns

        return tuple(column.name for column in columns(self.node))

    @property
    def input_column(self) -> str | None:
        """The column that the expression converts."""
        return self.of[0].input_column if self.of else None

    @property
    def equal_names(self) -> tuple[str, ...]:
        """The name, since an expression may have one value for several values of its columns."""
        return (self.name,)


def value_named(computed: Iterable[Compared], name: str) -> Compared:
    """Return the computed value of a name, or the table's own column."""
    for value in computed:
        if value.name == name:
            return value
    return Column(name)


def parsed(text: str, schema: pa.Schema, side: Side) -> Node:
    """Return a typed expression over the columns of a table. Raises SpecError or SchemaError."""
    # The parser is slow to import, and few joins have expressions.
    from juncture.predicate.language.parse import parse_expression

    none = pa.schema([])
    return parse_expression(text, *((schema, none) if side == "left" else (none, schema)))


class ResolvedSides(TypedDict):
    """What both sides contribute to a resolved join."""

    left_schema: pa.Schema
    right_schema: pa.Schema
    left_computed: tuple[Compared, ...]
    right_computed: tuple[Compared, ...]
    left_by: tuple[str, ...]
    right_by: tuple[str, ...]


class ComparedColumns:
    """The schemas of two tables, to which a join appends the values that it computes.

    The schemas include values that were computed before, which are ``left_computed`` and ``right_computed``.
    """

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        left_computed: tuple[Compared, ...] = (),
        right_computed: tuple[Compared, ...] = (),
    ) -> None:
        self.left, self.right = left, right
        self.computed: dict[Side, tuple[Compared, ...]] = {"left": left_computed, "right": right_computed}

    def schema(self, side: Side) -> pa.Schema:
        """Return the schema of a side."""
        return self.left if side == "left" else self.right

    def input_schema(self, side: Side) -> pa.Schema:
        """Return the schema of a side without computed values."""
        schema, computed = self.schema(side), self.computed[side]
        if not computed:
            return schema
        names = {value.name for value in computed}
        return pa.schema([field for field in schema if field.name not in names], schema.metadata)

    def value(self, side: Side, name: str) -> Compared:
        """Return the value of a name."""
        return value_named(self.computed[side], name)

    def sides(self, by: Sequence[tuple[str, str]]) -> ResolvedSides:
        """Return what both sides contribute to the resolved join, given the pairs of values that must be equal."""
        return {
            "left_schema": self.left,
            "right_schema": self.right,
            "left_computed": self.computed["left"],
            "right_computed": self.computed["right"],
            "left_by": tuple([left for left, _ in by]),
            "right_by": tuple([right for _, right in by]),
        }

    def input_name(self, side: Side, name: str) -> str | None:
        """Return the table's own column with the same value, possibly in another type, or None."""
        computed = self.computed[side]
        return value_named(computed, name).input_column if computed else name

    def part_names(self, side: Side, name: str) -> list[str]:
        """Return the names of the parts of a value."""
        return [part.name for part in self.value(side, name).parts] if self.computed[side] else [name]

    def type(self, side: Side, name: str) -> pa.DataType:
        """Return the type of a value."""
        return (self.left if side == "left" else self.right).field(name).type

    def parts(self, side: Side, name: str) -> list[pa.Field]:
        """Return the parts of a value, as they are named in messages."""
        parts = self.value(side, name).parts if self.computed[side] else ()
        if len(parts) < 2:
            return [self.field(side, name)]
        types = self.type(side, name)
        return [pa.field(part.label, each.type) for part, each in zip(parts, types, strict=True)]

    def field(self, side: Side, name: str) -> pa.Field:
        """Return a value as it is named in messages."""
        input_field, computed = (self.left if side == "left" else self.right).field(name), self.computed[side]
        return input_field.with_name(value_named(computed, name).label) if computed else input_field

    def is_null(self, pair: tuple[str, str]) -> bool:
        """Return whether both values of a pair have the null type."""
        return is_null_type(self.left.field(pair[0]).type) and is_null_type(self.right.field(pair[1]).type)

    def type_nulls(self, pairs: Sequence[tuple[str, str]], default: pa.DataType | None = None) -> None:
        """Give values of the null type the type of their partner, or the default if both have it."""
        for left, right in pairs:
            fields = self.left.field(left), self.right.field(right)
            if is_null_type(fields[0].type) or is_null_type(fields[1].type):
                data_type = first_type(fields, default)
                self.left, self.right = typed(self.left, {left: data_type}), typed(self.right, {right: data_type})

    def predicate(self, text: str, names: tuple[str, str] = ("l", "r")) -> Node:
        """Return a typed condition over the own columns of both tables. Raises SpecError or SchemaError."""
        from juncture.predicate.language.parse import parse

        return parse(text, self.input_schema("left"), self.input_schema("right"), names=names)

    def name(self, key: Key, side: Side, argument: str) -> str:
        """Return the name of a column; an expression is appended first."""
        if not isinstance(key, Expr):
            return key
        try:
            return self.expression(key.text, side)
        except JunctureError as error:
            raise error.within(f"{argument}=, in an expression over the {side} table") from None

    def pairs(self, keys: Sequence[tuple[Key, Key]], argument: str, *, shared: bool) -> list[tuple[str, str]]:
        """Return the names of pairs of existing columns and new expressions; if ``shared``, ``argument`` names both."""
        pairs = [(self.name(left, "left", argument), self.name(right, "right", argument)) for left, right in keys]
        left_argument, right_argument = (argument if shared else f"{side}_{argument}" for side in SIDES)
        check_columns(self.left, [left for left, _ in pairs], argument=left_argument, side="left")
        check_columns(self.right, [right for _, right in pairs], argument=right_argument, side="right")
        return pairs

    def expression(self, text: str, side: Side, of: str | None = None) -> str:
        """Append an expression, and return its name. ``of`` is the value that it converts."""
        from juncture.predicate.language.types import arrow_type

        node = parsed(text, self.input_schema(side), side)
        source = () if of is None else (self.value(side, of),)
        return self._add(side, text, arrow_type(node.type), lambda name: Expression(name, source, text=text, node=node))

    def sql(self, name: str, side: Side) -> str:
        """Return a value as a part of an expression."""
        value = self.value(side, name)
        return f"({value.text})" if isinstance(value, Expression) else "`" + name.replace("`", "``") + "`"

    def converted(self, name: str, data_type: pa.DataType, side: Side) -> str:
        """Append a value converted to a type that represents all of its values, and return its name."""
        source = (self.value(side, name),)
        return self._add(side, f"{name} as {data_type}", data_type, lambda free: Conversion(free, source))

    def tuple_of(self, names: Sequence[str], side: Side) -> str:
        """Append a tuple of several values, and return its name."""
        parts = [(f"part{index}", plain_type(self.type(side, each))) for index, each in enumerate(names)]
        values = tuple(self.value(side, each) for each in names)
        return self._add(side, f"({', '.join(names)})", pa.struct(parts), lambda name: TupleOf(name, values))

    def _add(self, side: Side, name: str, data_type: pa.DataType, value_of: Callable[[str], Compared]) -> str:
        """Append a value unless it exists, under a name that neither table uses for anything else."""
        while any(
            name in self.schema(each).names
            and (self.value(each, name), self.type(each, name)) != (value_of(name), data_type)
            for each in SIDES
        ):
            name += "_"
        schema, value = self.schema(side), value_of(name)
        if name in schema.names:
            return name
        schema = schema.append(pa.field(name, data_type))
        self.computed[side] += (value,)
        if side == "left":
            self.left = schema
        else:
            self.right = schema
        return name


def check_keys(columns: ComparedColumns, pairs: Sequence[tuple[str, str]], *, role: str = "by") -> None:
    """Raise SchemaError for pairs of columns whose types have no equality or no common values. Null matches all."""
    for left_name, right_name in pairs:
        left_field, right_field = columns.field("left", left_name), columns.field("right", right_name)
        kinds = key_kind(left_field.type), key_kind(right_field.type)
        for each, kind, side in ((left_field, kinds[0], "left"), (right_field, kinds[1], "right")):
            if "map" in kind:
                raise SchemaError(
                    f"The {side} {role} column {each.name!r} is of type {each.type}, and maps have no equality. "
                    "Join by its sorted entries, or by a string made from them.",
                    name="JN-TYPE-UNSUPPORTED",
                )
            if "interval" in kind or "union" in kind:
                raise SchemaError(
                    f"The {side} {role} column {each.name!r} is of type {each.type}, which has no equality. Cast "
                    "it first, for example to string.",
                    name="JN-TYPE-UNSUPPORTED",
                )
        if kinds[0] != kinds[1] and "null" not in kinds:
            zoned = all(kind.startswith("timestamp") for kind in kinds)
            raise incomparable(role, ("left", left_field), ("right", right_field), differ_in_zone=zoned)


def can_be_key(data_type: pa.DataType) -> bool:
    """Return whether values of a type have equality, which maps lack."""
    return not any(kind in key_kind(data_type) for kind in ("map", "interval", "union"))


def output_columns(
    columns: ComparedColumns, *, how: How, equal: Sequence[tuple[str, str]], suffix: str, has_right: bool = True
) -> tuple[OutputColumn, ...]:
    """Return the columns of a join's output: the left ones, then the right ones that do not repeat a left one.

    ``equal`` has pairs of left and right columns that agree in every match: the output omits the right one, which fills
    the left one in unmatched right rows. Without ``has_right``, the output has the left columns only. Raises
    SchemaError if a name is taken even with the suffix, or types differ.
    """
    if not has_right or how in ("semi", "anti"):
        return left_columns(columns.input_schema("left"))
    repeated = [
        (left, right, columns.input_name("left", left), columns.input_name("right", right)) for left, right in equal
    ]
    fills: dict[str, tuple[str, str]] = {}
    for left_key, right_key, left_name, right_name in repeated:
        if left_name is None or right_name is None or how not in ("right", "full"):
            continue
        one, other = columns.type("left", left_key), columns.type("right", right_key)
        if plain_type(one) != plain_type(other):
            raise SchemaError(
                f"how={how!r} writes {right_name!r} ({other}) of unmatched right rows into the left column "
                f"{left_name!r} ({one}), but the types differ. Cast one of them first.",
                name="JN-FILL-TYPE",
            )
        fills[left_name] = left_key, right_key
    left_names = columns.input_schema("left").names
    output = [OutputColumn(name, "left", *fills.get(name, (name,))) for name in left_names]
    taken = set(left_names)
    dropped = {right_name for _, _, left_name, right_name in repeated if left_name is not None}
    for name in columns.input_schema("right").names:
        if name in dropped:
            continue
        output_name = free_name(name, suffix, taken, f"Right column {name!r}")
        output.append(OutputColumn(output_name, "right", name))
    return tuple(output)
