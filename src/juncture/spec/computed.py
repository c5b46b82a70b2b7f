"""Columns that a join makes of a table's own: expressions that it was asked for, conversions, and tuples of columns.

They follow a table's own columns in the schemas of a resolved join, are called by what they are, and appear in no
output: a field's metadata says what it is made of. A conversion makes two columns compare, and *stands for* the column
that it is made of, so that the output has that column, or, where right rows fill it, the conversion in its place. A
tuple is a struct of several columns, its *parts*, which are compared one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from juncture.errors import JunctureError, SpecError

if TYPE_CHECKING:
    from juncture.predicate.language.nodes import Node
    from juncture.spec.schema import Side

_EXPRESSION = b"juncture.expression"
_STANDS_FOR = b"juncture.stands_for"
_PARTS = b"juncture.parts"
_PARTS_STAND_FOR = b"juncture.parts_stand_for"


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression of a table's columns, which `juncture.expr` makes.

    Attributes
    ----------
    text
        The expression, in the language of predicates.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise SpecError(
                f"expr({self.text!r}) has no SQL text. Expected an expression over the columns of one table, such as "
                'juncture.expr("date + open_time").',
                name="JN-EXPRESSION-EMPTY",
            )

    def __str__(self) -> str:
        return self.text


Key: TypeAlias = str | Expr
"""What a join compares: a column, by its name, or an expression."""

Keys: TypeAlias = Key | Sequence[Key]


def expr(text: str) -> Expr:
    """Return an expression of a table's columns, for a join to compare in place of a column.

    It may be passed as ``on``, ``by`` and the ends of an interval, and for one side as ``left_on`` and so on. What it
    gives is no column of the output.

    Parameters
    ----------
    text
        The expression, in the language of predicates (Spark's SQL). Names are those of the table's columns.

    Raises
    ------
    SpecError
        If it is no text. What the text says is looked at by the join, which knows the columns.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> shops = pa.table({"day": [20, 21], "hour": [9, 8]})
    >>> visits = pa.table({"at": [489, 520]})
    >>> jn.join_asof(visits, shops, left_on="at", right_on=jn.expr("day * 24 + hour")).to_pydict()
    {'at': [489, 520], 'day': [20, 21], 'hour': [9, 8]}
    """
    return Expr(text)


def is_computed(field: pa.Field) -> bool:
    """Tell a column that a join has made from a table's own."""
    return not {_EXPRESSION, _STANDS_FOR, _PARTS}.isdisjoint(field.metadata or {})


def parts_of(field: pa.Field) -> tuple[str, ...]:
    """Return the columns that a tuple is made of, the first to be compared first; none if a column is no tuple."""
    return tuple(json.loads((field.metadata or {}).get(_PARTS, b"[]")))


def parts_stand_for(field: pa.Field) -> tuple[str | None, ...]:
    """Return what each part of a tuple stands for, as `stands_for` does of the part itself."""
    return tuple(json.loads((field.metadata or {}).get(_PARTS_STAND_FOR, b"[]")))


def expression_of(field: pa.Field) -> str | None:
    """Return the expression that a computed column is; None if it is made of columns as they are."""
    found: bytes | None = (field.metadata or {}).get(_EXPRESSION)
    return None if found is None else found.decode()


def stands_for(field: pa.Field) -> str | None:
    """Return the name of the table's own column whose values a column has; None if it is an expression or a tuple."""
    if not is_computed(field):
        return str(field.name)
    found: bytes | None = field.metadata.get(_STANDS_FOR)
    return None if found is None else found.decode()


def display_name(schema: pa.Schema, name: str) -> str:
    """Return what users call a column: an expression by its text, and a conversion as the column it is made of."""
    field = schema.field(name)
    if parts := parts_of(field):
        return f"({', '.join(display_name(schema, part) for part in parts)})"
    own = stands_for(field)
    if own in (None, name):
        return label(field)
    # A task may be given the conversion without what it is made of.
    return display_name(schema, own) if own in schema.names else str(own)


def label(field: pa.Field) -> str:
    """Return what users call a column that is an expression of a table's own, or one of these."""
    return stands_for(field) or expression_of(field) or str(field.name)


def column_of(schema: pa.Schema, key: Key) -> str | None:
    """Return the column that has the values of what a caller named; None if a table has none."""
    if isinstance(key, Expr):
        return next((str(field.name) for field in schema if expression_of(field) == key.text), None)
    return key if key in schema.names else None


def same_values(schema: pa.Schema, name: str) -> list[str]:
    """Return a column and those that are equal in two rows where it is: parts of a tuple, and what is converted."""
    field = schema.field(name)
    converted = stands_for(field) if expression_of(field) is None else None
    made_of = parts_of(field) or ([] if converted in (None, name) else [converted])
    there = [own for own in made_of if own in schema.names]
    return [name, *(same for own in there for same in same_values(schema, own))]


def own_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table that are its own."""
    return pa.schema([field for field in schema if not is_computed(field)], schema.metadata)


def computed_columns(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns that a join makes of a table's own."""
    return [field for field in schema if is_computed(field)]


def parsed(text: str, schema: pa.Schema, side: Side) -> Node:
    """Return an expression of a table's own columns, with every type known.

    Raises
    ------
    SpecError, SchemaError
        If it cannot be read, or does not fit the columns.
    """
    # The parser is slow to import, and few joins have expressions.
    from juncture.predicate.language.parse import parse_expression

    own, none = own_columns(schema), pa.schema([])
    return parse_expression(text, *((own, none) if side == "left" else (none, own)))


class ComputedColumns:
    """The schemas of two tables, to which a join adds the columns that it makes.

    Attributes
    ----------
    left, right
        The schemas.
    """

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self.left, self.right = left, right

    def schema(self, side: Side) -> pa.Schema:
        """Return the schema of a side."""
        return self.left if side == "left" else self.right

    def name(self, key: Key, side: Side, argument: str) -> str:
        """Return the name of a column, which is added if it is an expression.

        Raises
        ------
        SpecError, SchemaError
            If the expression cannot be read, or does not fit the columns.
        """
        if not isinstance(key, Expr):
            return key
        try:
            return self.expression(key.text, side)
        except JunctureError as error:
            raise error.within(f"{argument}=, in an expression over the {side} table") from None

    def pairs(self, keys: Sequence[tuple[Key, Key]], argument: str) -> list[tuple[str, str]]:
        """Return pairs of names, of which those of expressions are added."""
        return [(self.name(ours, "left", argument), self.name(theirs, "right", argument)) for ours, theirs in keys]

    def expression(self, text: str, side: Side, of: str | None = None) -> str:
        """Add an expression, and return its name.

        Parameters
        ----------
        text, side
            The expression, and the table.
        of
            The column that it stands for, if it does.
        """
        from juncture.predicate.language.types import arrow_type

        name = self._free(text, lambda field: expression_of(field) == text)
        schema = self.schema(side)
        if name in schema.names:
            return name
        metadata = {_EXPRESSION: text} | ({} if of is None else {_STANDS_FOR: of})
        self._add(pa.field(name, arrow_type(parsed(text, schema, side).type), metadata=metadata), side)
        return name

    def sql(self, name: str, side: Side) -> str:
        """Return a column as a part of an expression."""
        field = self.schema(side).field(name)
        text = expression_of(field)
        return "`" + name.replace("`", "``") + "`" if text is None else f"({text})"

    def converted(self, column: str, data_type: pa.DataType, side: Side) -> str:
        """Add a column in another type that holds all of its values, and return its name."""
        metadata = {_STANDS_FOR: column.encode()}
        name = self._free(
            f"{column} as {data_type}", lambda field: field.type == data_type and field.metadata == metadata
        )
        if name not in self.schema(side).names:
            self._add(pa.field(name, data_type, metadata=metadata), side)
        return name

    def tuple_of(self, names: Sequence[str], side: Side) -> str:
        """Add a column of the values of several columns, and return its name."""
        from juncture.spec.schema import plain_type

        schema = self.schema(side)
        own = [stands_for(schema.field(each)) for each in names]
        metadata = {_PARTS: json.dumps(names).encode(), _PARTS_STAND_FOR: json.dumps(own).encode()}
        name = self._free(f"({', '.join(names)})", lambda field: field.metadata == metadata)
        if name not in schema.names:
            parts = [(f"part{place}", plain_type(schema.field(each).type)) for place, each in enumerate(names)]
            self._add(pa.field(name, pa.struct(parts), metadata=metadata), side)
        return name

    def _free(self, name: str, is_same: Callable[[pa.Field], bool]) -> str:
        """Return a name that neither table has for anything else."""
        while any(name in schema.names and not is_same(schema.field(name)) for schema in (self.left, self.right)):
            name += "_"
        return name

    def _add(self, field: pa.Field, side: Side) -> None:
        schema = self.schema(side).append(field)
        if side == "left":
            self.left = schema
        else:
            self.right = schema
