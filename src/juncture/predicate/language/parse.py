"""Predicates in SQL, resolved against two schemas into typed nodes. Errors point to their place in the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import get_args
from zoneinfo import ZoneInfo

import pyarrow as pa

from juncture.columnar.schemas import check_columns, check_order, hint
from juncture.errors import JunctureError, SchemaError, SpecError, closest
from juncture.predicate.language import build, conversions, functions
from juncture.predicate.language.literals import interval_steps
from juncture.predicate.language.nodes import Column, Literal, Node, Side
from juncture.predicate.language.syntax import read_sql
from juncture.predicate.language.syntax_tree import Tree, pointer
from juncture.predicate.language.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    ArithmeticOperator,
    Type,
    Value,
    from_arrow,
    near_float,
)

_ORDERS = ("<", "<=", ">", ">=")
_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": Type("integer", bits=8),
    "BYTE": Type("integer", bits=8),
    "SMALLINT": Type("integer", bits=16),
    "SHORT": Type("integer", bits=16),
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "FLOAT": Type("float", bits=32),
    "REAL": Type("float", bits=32),
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "TIMESTAMP_NTZ": Type("timestamp", unit="us"),
    "TIMESTAMP_LTZ": Type("timestamp", unit="us", zoned=True),
    "TIMESTAMP": Type("timestamp", unit="us", zoned=True),
    "STRING": STRING,
    "BINARY": Type("binary"),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_SUFFIXES = {"Y": "TINYINT", "S": "SMALLINT", "L": "BIGINT", "F": "FLOAT", "D": "DOUBLE"}
"""The types that the suffix of a number selects."""


def parse(
    text: str,
    left: pa.Schema,
    right: pa.Schema,
    *,
    names: tuple[str, str] = ("l", "r"),
    time_zone: str | None = None,
) -> Node:
    """Return the typed predicate of a text over two tables called ``names``.

    Names match regardless of case, as in Spark, but exact matches take precedence. A column that only one table has
    needs no table name. ``time_zone`` is the zone of timestamps that are written without one and compared with
    instants; without it they are an error.
    """
    node = parse_expression(text, left, right, names=names, time_zone=time_zone)
    if node.type not in (BOOLEAN, NULL):
        raise SchemaError(
            f"The predicate is {node.type}, but must be a boolean. Compare it with a value.",
            name="JN-PREDICATE-BOOLEAN",
        )
    return build.conjunction([node])


def parse_expression(
    text: str,
    left: pa.Schema,
    right: pa.Schema,
    *,
    names: tuple[str, str] = ("l", "r"),
    time_zone: str | None = None,
) -> Node:
    """Return a typed expression over two tables, as `parse` does for predicates."""
    check_columns(left, (), argument="", side="left")
    check_columns(right, (), argument="", side="right")
    if names[0].lower() == names[1].lower():
        raise SpecError(
            f'names={names!r} gives both tables the same name. Pass two different names, such as names=("l", "r").',
            name="JN-ARGUMENT-VALUE",
        )
    zone = ZoneInfo(time_zone) if time_zone else None
    tables: dict[Side, _Table] = {"left": _Table(names[0], left), "right": _Table(names[1], right)}
    return _Reader(text, tables, zone).read(read_sql(text))


@dataclass(frozen=True)
class _Table:
    name: str
    schema: pa.Schema

    def find(self, name: str) -> list[str]:
        """Return the columns that a name can mean: the exact one, else all that differ in case only."""
        if name in self.schema.names:
            return [name]
        return [column for column in self.schema.names if column.lower() == name.lower()]


class _Reader:
    """Converts a syntax tree to nodes. An error is located once, at the smallest part that is wrong."""

    def __init__(self, text: str, tables: dict[Side, _Table], zone: ZoneInfo | None) -> None:
        self._text = text
        self._tables = tables
        self._zone = zone
        self._moment = partial(conversions.read_text, zone=zone)
        self._columns: dict[tuple[str, ...], Column] = {}
        self._fields: dict[tuple[str, ...], tuple[Side, pa.Field]] = {}
        self._located = False

    def read(self, tree: Tree) -> Node:
        """Return the node of a part of the tree."""
        try:
            return _READERS[tree.kind](self, tree)
        except RecursionError:
            raise SpecError(
                "The predicate is nested too deeply. Compute a part of it as a column before the join.",
                name="JN-PREDICATE-DEPTH",
            ) from None
        except JunctureError as error:
            raise self._at(error, tree.start, tree.end) from None

    def _at(self, error: JunctureError, start: int, end: int) -> JunctureError:
        """Return an error with its place in the text, unless it has one."""
        if self._located:
            return error
        self._located = True
        return type(error)(f"{error.message}\n{pointer(self._text, start, end)}", name=error.name)

    def _chain(self, tree: Tree) -> Node:
        """Return a sum or product, from left to right."""
        node = self.read(tree.parts[0])
        for operator, part in zip(tree.value, tree.parts[1:], strict=True):
            try:
                node = _OPERATORS[operator](*self._moments(node, self.read(part)))
            except JunctureError as error:
                raise self._at(error, tree.start, part.end) from None
        return node

    def _compare(self, tree: Tree) -> Node:
        left, right = (self.read(part) for part in tree.parts)
        if tree.value in _ORDERS:
            self._check_order(tree.parts, purpose=tree.value)
        return build.compare(tree.value, left, right, self._moment)

    def _call(self, tree: Tree) -> Node:
        operands = [self.read(part) for part in tree.parts]
        if tree.value.lower() in ("least", "greatest"):
            self._check_order(tree.parts, purpose=tree.value.lower())
        return functions.call(tree.value, operands)

    def _column(self, tree: Tree) -> Node:
        if tree.value not in self._columns:
            self._columns[tree.value] = self._resolved(tree)
        return self._columns[tree.value]

    def _check_order(self, operands: Sequence[Tree], *, purpose: str) -> None:
        """Raise SchemaError if an operand is a column of ordered categories; casts are allowed."""
        for operand in operands:
            if operand.kind == "column":
                side, field = self._field(operand)
                check_order(field, purpose=purpose, side=side)

    def _resolved(self, tree: Tree) -> Column:
        side, field = self._field(tree)
        data_type = from_arrow(field.type)
        if data_type is None:
            raise SchemaError(
                f"The {side} column {field.name!r} is of type {field.type}, which predicates do not support. Cast it "
                "to a number, string, binary, boolean, date, timestamp or duration first.",
                name="JN-TYPE-UNSUPPORTED",
            )
        return Column(data_type, side, field.name, field.nullable)

    def _field(self, tree: Tree) -> tuple[Side, pa.Field]:
        """Return the column that a name means, and its table."""
        if tree.value not in self._fields:
            self._fields[tree.value] = self._looked_up(tree)
        return self._fields[tree.value]

    def _looked_up(self, tree: Tree) -> tuple[Side, pa.Field]:
        if len(tree.value) > 2:
            written = self._text[tree.start : tree.end]
            raise SpecError(
                f"{written} is a field inside a column, which predicates do not support. Add it to the table as a "
                "column first.",
                name="JN-COLUMN-NESTED",
            )
        table, name = tree.value if len(tree.value) == 2 else ("", tree.value[0])
        chosen = {side: part for side, part in self._tables.items() if not table or table.lower() == part.name.lower()}
        names = " or ".join(f"{part.name}." for part in self._tables.values())
        if not chosen:
            raise SchemaError(
                f"{table!r} is not a table of the predicate. Expected {names} before a column.",
                name="JN-PREDICATE-TABLE",
            )
        candidates = [(side, column) for side, part in chosen.items() for column in part.find(name)]
        if not candidates:
            where = f"the table {table!r}" if table else "either table"
            advice = hint(name, *(part.schema for part in chosen.values()))
            raise SchemaError(f"{name!r} is not a column of {where}. {advice}", name="JN-COLUMN-MISSING")
        if len(candidates) > 1:
            if len({side for side, _ in candidates}) > 1:
                raise SchemaError(
                    f"{name!r} is a column of both tables. Write {names} before it.", name="JN-COLUMN-AMBIGUOUS"
                )
            spellings = " and ".join(repr(column) for _, column in candidates)
            raise SchemaError(
                f"{name!r} matches {spellings}, which differ in case only. Write one of them exactly.",
                name="JN-COLUMN-AMBIGUOUS",
            )
        side, column = candidates[0]
        return side, self._tables[side].schema.field(column)

    def _number(self, tree: Tree) -> Node:
        """Return a number with Spark's type: by its suffix, else by its size and decimal point."""
        if tree.value.isdecimal() and len(tree.value) < 19:
            return conversions.integer_literal(int(tree.value))
        written = tree.value.upper()
        suffix = "BD" if written.endswith("BD") else written[-1] if written[-1] in _SUFFIXES else ""
        digits = written.removesuffix(suffix)
        try:
            number = Decimal(digits)
        except ArithmeticError:
            raise SpecError(
                f"{tree.value} has an exponent that is out of range. Write a smaller number.", name="JN-LITERAL-RANGE"
            ) from None
        if suffix in ("Y", "S", "L"):
            target = _TYPES[_SUFFIXES[suffix]]
            if not digits.lstrip("-").isdigit() or not target.least <= number <= target.greatest:
                raise SpecError(
                    f"{tree.value} is not a {target}. Expected a whole number from {target.least} to "
                    f"{target.greatest}.",
                    name="JN-LITERAL-RANGE",
                )
            return Literal(target, int(number))
        if suffix in ("F", "D") or ("E" in digits and not suffix):
            target = _TYPES[_SUFFIXES.get(suffix, "DOUBLE")]
            value = near_float(float(number), target.bits)
            if math.isinf(value):
                raise SpecError(
                    f"{tree.value} is out of range for {target}. Write a smaller number.", name="JN-LITERAL-RANGE"
                )
            return Literal(target, value)
        if suffix or "." in digits or not BIGINT.least <= number <= BIGINT.greatest:
            return conversions.decimal_literal(number)
        return conversions.integer_literal(int(number))

    def _binary(self, tree: Tree) -> Node:
        digits = tree.value[2:-1]
        try:
            return Literal(Type("binary"), bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))
        except ValueError:
            raise SpecError(
                f"X'{digits}' is not a binary literal. Expected hexadecimal digits between the quotes, such as X'1F'.",
                name="JN-LITERAL-SYNTAX",
            ) from None

    def _constant(self, tree: Tree) -> Node:
        return Literal(NULL, None) if tree.value == "NULL" else Literal(BOOLEAN, tree.value == "TRUE")

    def _interval(self, tree: Tree) -> Node:
        steps, name = interval_steps(*tree.value)
        return Literal(Type("duration", unit=name), steps)

    def _text_as(self, text: str, target: Type) -> Node:
        """Return a date or timestamp; an instant without a zone stays a text until it is compared with a column."""
        try:
            return conversions.read_text(text, target)
        except SpecError:
            if not target.zoned:
                raise
            conversions.read_text(text, replace(target, zoned=False))
            return Literal(STRING, text)

    def _cast(self, tree: Tree) -> Node:
        target, operand = self._type(*tree.value), tree.parts[0]
        if operand.kind == "text" and target.kind in ("date", "timestamp"):
            return self._text_as(operand.value, target)
        return conversions.cast(self.read(operand), target, self._moment)

    def _type(self, name: str, sizes: tuple[str, ...]) -> Type:
        if name.upper() in _DECIMALS and len(sizes) <= 2:
            precision, scale = (*(int(size[:9]) for size in sizes), *(10, 0)[len(sizes) :])
            if not (1 <= precision <= 38 and scale <= precision):
                raise SpecError(
                    f"DECIMAL({precision}, {scale}) does not exist. Expected a precision from 1 to 38, and a scale "
                    "that is not greater.",
                    name="JN-CAST-TYPE",
                )
            return Type("decimal", precision=precision, scale=scale)
        if name.upper() not in _TYPES or sizes:
            close = closest(name, _TYPES) if name.upper() not in _TYPES else name.upper()
            advice = f"Did you mean {close!r}?" if close else "Expected a number, date, timestamp, string or boolean."
            raise SpecError(f"CAST to {name} is not supported. {advice}", name="JN-CAST-TYPE")
        return _TYPES[name.upper()]

    def _moments(self, left: Node, right: Node) -> tuple[Node, Node]:
        """Parse the texts that denote timestamps among two operands of arithmetic."""
        clock = Type("timestamp", unit="us", zoned=self._zone is not None)
        one, other = (clock if part.type.kind == "duration" else part.type for part in (left, right))
        return conversions.text_beside(left, other, self._moment), conversions.text_beside(right, one, self._moment)

    def _between(self, tree: Tree) -> Node:
        operand, low, high = (self.read(part) for part in tree.parts)
        self._check_order(tree.parts, purpose="BETWEEN")
        return build.conjunction(
            [build.compare(">=", operand, low, self._moment), build.compare("<=", operand, high, self._moment)]
        )

    def _in(self, tree: Tree) -> Node:
        operand = self.read(tree.parts[0])
        lists = [part.value for part in tree.parts[1:] if part.kind == "list"]
        options = [self.read(part) for part in tree.parts[1:] if part.kind != "list"]
        return build.is_in(operand, options, self._moment, steps=_constants(list(chain.from_iterable(lists))))

    def _like(self, tree: Tree) -> Node:
        operand, pattern = (self.read(part) for part in tree.parts)
        return functions.like(operand, pattern, tree.value or "\\")

    def _case(self, tree: Tree) -> Node:
        before, after = tree.value
        parts = [self.read(part) for part in tree.parts]
        end = len(parts) - after
        conditions, values = parts[before:end:2], parts[before + 1 : end : 2]
        if before:
            conditions = [build.compare("=", parts[0], each, self._moment) for each in conditions]
        return functions.case(conditions, values, parts[-1] if after else None)

    def _is(self, tree: Tree) -> Node:
        operand, truth = (self.read(part) for part in tree.parts)
        return build.compare("<=>", build.conjunction([operand]), truth)


def _constants(words: Sequence[str]) -> dict[Type, Sequence[Value]]:
    """Return plain constants by their type, in whole steps of it."""
    by_type: dict[Type, Sequence[Value]] = {STRING: [word[1:-1] for word in words if word[0] == "'"]}
    numbers = [word for word in words if word[0] != "'"]
    wholes = [int(word) for word in numbers if "." not in word]
    by_type[INT] = [number for number in wholes if -(2**31) <= number < 2**31]
    by_type[BIGINT] = [number for number in wholes if not -(2**31) <= number < 2**31]
    scaled: dict[int, list[int]] = {}
    for word in numbers:
        integer, _, fraction = word.partition(".")
        if fraction:
            scaled.setdefault(len(fraction), []).append(int(integer + fraction))
    for scale, steps in scaled.items():
        digits = len(str(max(map(abs, steps))))
        by_type[Type("decimal", precision=max(digits, scale), scale=scale)] = steps
    return {data_type: values for data_type, values in by_type.items() if values}


_OPERATORS: dict[str, Callable[[Node, Node], Node]] = {
    **{sign: partial(build.arithmetic, sign) for sign in get_args(ArithmeticOperator)},
    "%": functions.remainder,
    "DIV": functions.quotient,
    "||": functions.joined,
}

_READERS: dict[str, Callable[[_Reader, Tree], Node]] = {
    "and": lambda reader, tree: build.conjunction([reader.read(part) for part in tree.parts]),
    "between": _Reader._between,
    "binary": _Reader._binary,
    "call": _Reader._call,
    "case": _Reader._case,
    "cast": _Reader._cast,
    "column": _Reader._column,
    "compare": _Reader._compare,
    "constant": _Reader._constant,
    "in": _Reader._in,
    "interval": _Reader._interval,
    "is": _Reader._is,
    "is null": lambda reader, tree: build.is_null(reader.read(tree.parts[0])),
    "like": _Reader._like,
    "moment": lambda reader, tree: reader._text_as(tree.value[1], _TYPES[tree.value[0]]),
    "neg": lambda reader, tree: build.negate(reader.read(tree.parts[0])),
    "not": lambda reader, tree: build.negation(reader.read(tree.parts[0])),
    "number": _Reader._number,
    "or": lambda reader, tree: build.disjunction([reader.read(part) for part in tree.parts]),
    "product": _Reader._chain,
    "sum": _Reader._chain,
    "text": lambda _, tree: Literal(STRING, tree.value),
}
