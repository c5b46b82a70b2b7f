"""Columns that a join computes from a table's own: expressions, conversions and tuples of columns.

They follow the table's own columns in the schemas of a resolved join, and never appear in the output; the metadata of
their fields says what they are computed from. A conversion makes two columns comparable and *stands for* its source
column: the output has the source, or the conversion if right rows fill it. A tuple is a struct of several columns, its
*parts*, compared one after the other.
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
    """An expression over the columns of one table, created with `juncture.expr`.

    Parameters
    ----------
    text
        The expression in SQL (Spark's dialect).

    Raises
    ------
    SpecError
        If the text is empty or not a string.

    Examples
    --------
    >>> import juncture as jn
    >>> jn.Expr("day * 24 + hour").text
    'day * 24 + hour'
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
"""A column name or an expression, as a join compares it."""

Keys: TypeAlias = Key | Sequence[Key]


def expr(text: str) -> Expr:
    """Return an expression over the columns of one table, for a join to compare in place of a column.

    Pass it as ``on``, ``by`` or an end of an interval, or for one table as ``left_on`` and so on. Its values are not
    part of the output.

    Parameters
    ----------
    text
        The expression in SQL (Spark's dialect). Names are columns of the table.

    Returns
    -------
    Expr
        The expression. The join parses it, since it knows the columns.

    Raises
    ------
    SpecError
        If the text is empty or not a string.

    Notes
    -----
    The join evaluates it once per row, and keeps the values in memory like those of a column.

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
    """Return whether a join has computed a column."""
    return not {_EXPRESSION, _STANDS_FOR, _PARTS}.isdisjoint(field.metadata or {})


def parts_of(field: pa.Field) -> tuple[str, ...]:
    """Return the columns of a tuple, the most significant first; empty for other columns."""
    return tuple(json.loads((field.metadata or {}).get(_PARTS, b"[]")))


def parts_stand_for(field: pa.Field) -> tuple[str | None, ...]:
    """Return the column that each part of a tuple stands for, as `stands_for`."""
    return tuple(json.loads((field.metadata or {}).get(_PARTS_STAND_FOR, b"[]")))


def expression_of(field: pa.Field) -> str | None:
    """Return the expression of a computed column; None for other columns."""
    value: bytes | None = (field.metadata or {}).get(_EXPRESSION)
    return None if value is None else value.decode()


def stands_for(field: pa.Field) -> str | None:
    """Return the table's own column whose values a column has; None for expressions and tuples."""
    if not is_computed(field):
        return str(field.name)
    value: bytes | None = field.metadata.get(_STANDS_FOR)
    return None if value is None else value.decode()


def display_name(schema: pa.Schema, name: str) -> str:
    """Return the name of a column in messages: an expression as its text, a conversion as its source."""
    field = schema.field(name)
    if parts := parts_of(field):
        return f"({', '.join(display_name(schema, part) for part in parts)})"
    own = stands_for(field)
    if own in (None, name):
        return label(field)
    # In a task, a conversion may lack its source.
    return display_name(schema, own) if own in schema.names else str(own)


def label(field: pa.Field) -> str:
    """Return the name in messages of an expression, a conversion or an own column."""
    return stands_for(field) or expression_of(field) or str(field.name)


def column_of(schema: pa.Schema, key: Key) -> str | None:
    """Return the column with the values of a key; None if the table has none."""
    if isinstance(key, Expr):
        return next((str(field.name) for field in schema if expression_of(field) == key.text), None)
    return key if key in schema.names else None


def same_values(schema: pa.Schema, name: str) -> list[str]:
    """Return a column, and those that are equal wherever it is: parts of a tuple, and sources of conversions."""
    field = schema.field(name)
    converted = stands_for(field) if expression_of(field) is None else None
    made_of = parts_of(field) or ([] if converted in (None, name) else [converted])
    there = [own for own in made_of if own in schema.names]
    return [name, *(same for own in there for same in same_values(schema, own))]


def own_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema without computed columns."""
    return pa.schema([field for field in schema if not is_computed(field)], schema.metadata)


def computed_columns(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns that a join has computed."""
    return [field for field in schema if is_computed(field)]


def parsed(text: str, schema: pa.Schema, side: Side) -> Node:
    """Return a typed expression over a table's own columns. Raises SpecError or SchemaError."""
    # The parser is slow to import, and few joins have expressions.
    from juncture.predicate.language.parse import parse_expression

    own, none = own_columns(schema), pa.schema([])
    return parse_expression(text, *((own, none) if side == "left" else (none, own)))


class ComputedColumns:
    """The schemas of two tables, to which a join appends the columns that it computes."""

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self.left, self.right = left, right

    def schema(self, side: Side) -> pa.Schema:
        """Return the schema of a side."""
        return self.left if side == "left" else self.right

    def name(self, key: Key, side: Side, argument: str) -> str:
        """Return the name of a column; an expression is appended first."""
        if not isinstance(key, Expr):
            return key
        try:
            return self.expression(key.text, side)
        except JunctureError as error:
            raise error.within(f"{argument}=, in an expression over the {side} table") from None

    def pairs(self, keys: Sequence[tuple[Key, Key]], argument: str) -> list[tuple[str, str]]:
        """Return pairs of names; expressions are appended first."""
        return [(self.name(left, "left", argument), self.name(right, "right", argument)) for left, right in keys]

    def expression(self, text: str, side: Side, of: str | None = None) -> str:
        """Append an expression, and return its name. ``of`` is the column that it stands for."""
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
        """Append a column converted to a type that represents all of its values, and return its name."""
        metadata = {_STANDS_FOR: column.encode()}
        name = self._free(
            f"{column} as {data_type}", lambda field: field.type == data_type and field.metadata == metadata
        )
        if name not in self.schema(side).names:
            self._add(pa.field(name, data_type, metadata=metadata), side)
        return name

    def tuple_of(self, names: Sequence[str], side: Side) -> str:
        """Append a tuple of several columns, and return its name."""
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
        """Return a name that neither table uses for anything else."""
        while any(name in schema.names and not is_same(schema.field(name)) for schema in (self.left, self.right)):
            name += "_"
        return name

    def _add(self, field: pa.Field, side: Side) -> None:
        schema = self.schema(side).append(field)
        if side == "left":
            self.left = schema
        else:
            self.right = schema
