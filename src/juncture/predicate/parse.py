"""SQL text, in Spark's dialect, read into nodes: columns found, types checked, every error pointing at its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as OneOf
from zoneinfo import ZoneInfo

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from juncture.errors import JunctureError, SchemaError, SpecError
from juncture.predicate import build
from juncture.predicate.literals import interval_steps, read_date, read_timestamp
from juncture.predicate.nodes import Column, CompareOperator, Literal, Node
from juncture.predicate.types import BOOLEAN, DOUBLE, NULL, STRING, ArithmeticOperator, Type, from_arrow
from juncture.spec.schema import Side, check_columns, check_order, hint

__all__ = ["FUNCTIONS", "parse", "parse_expression", "read_sql"]

FUNCTIONS = ("abs", "cast", "greatest", "least", "try_cast")
"""The functions that a predicate may call."""

_ARITHMETIC: dict[type[exp.Expr], ArithmeticOperator] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
}
_COMPARISONS: dict[type[exp.Expr], CompareOperator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ORDERS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_RELATIONS = (*_COMPARISONS, exp.NullSafeNEQ, exp.Between, exp.In, exp.Is)
_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": Type("integer", bits=8),
    "SMALLINT": Type("integer", bits=16),
    "INT": Type("integer", bits=32),
    "BIGINT": Type("integer", bits=64),
    "FLOAT": Type("float", bits=32),
    "DOUBLE": DOUBLE,
    "DATE": Type("date"),
    "TIMESTAMPNTZ": Type("timestamp", unit="us"),
    "TIMESTAMPTZ": Type("timestamp", unit="us", zoned=True),
    "TIMESTAMPLTZ": Type("timestamp", unit="us", zoned=True),
    "TIMESTAMP": Type("timestamp", unit="us", zoned=True),
    "TEXT": STRING,
    "VARCHAR": STRING,
}


def parse(
    text: str,
    left: pa.Schema,
    right: pa.Schema,
    *,
    names: tuple[str, str] = ("l", "r"),
    time_zone: str | None = None,
) -> Node:
    """Read a predicate over two tables.

    Parameters
    ----------
    text
        The predicate, in Spark's dialect: columns, numbers, strings, dates, timestamps, day-time intervals,
        ``+ - * /``, comparisons, BETWEEN, IN, IS NULL, AND, OR, NOT, and the functions in `FUNCTIONS`.
    left, right
        The schemas of the two tables.
    names
        What the text calls the tables. A column that only one of them has needs no name in front. Names match
        whatever their case, as in Spark, but an exact match goes first.
    time_zone
        The zone of timestamps that are written without one and meet instants, such as Spark's session time zone.
        Without it they are an error.

    Returns
    -------
    Node
        The predicate with every type known: ``juncture.predicate.sql.to_sql`` writes it back.

    Raises
    ------
    SpecError
        If the text cannot be read, with the place where reading stopped, or calls an unknown function.
    SchemaError
        If a column is missing or ambiguous, or types do not fit.

    Examples
    --------
    >>> from juncture.predicate.sql import to_sql
    >>> events = pa.schema({"at": pa.timestamp("us"), "kind": pa.string()})
    >>> outages = pa.schema({"start": pa.timestamp("us"), "kind": pa.string()})
    >>> to_sql(parse("L.at >= start - interval 12 minutes and l.kind = r.kind", events, outages))
    "l.at >= r.start - INTERVAL '12 minutes' AND l.kind = r.kind"
    >>> parse("l.at > 5", events, outages)
    Traceback (most recent call last):
    juncture.errors.SchemaError: TIMESTAMP_NTZ and INT do not compare. Cast one of them to the type of the other first.
        l.at > 5
        ^^^^^^^^
    """
    reader = _reader(text, left, right, names, time_zone)
    tree = read_sql(text)
    node = reader.read(tree)
    if node.type == NULL:
        return Literal(BOOLEAN, None)
    if node.type != BOOLEAN:
        raise SchemaError(f"The predicate is {node.type} and not a truth value. Compare it to something.")
    return node


def parse_expression(
    text: str,
    left: pa.Schema,
    right: pa.Schema,
    *,
    names: tuple[str, str] = ("l", "r"),
    time_zone: str | None = None,
) -> Node:
    """Read an expression of any type over two tables, as `parse` reads a predicate.

    Examples
    --------
    >>> schema = pa.schema({"a": pa.int32()})
    >>> print(parse_expression("l.a + 1.5", schema, schema).type)
    DECIMAL(12, 1)
    """
    return _reader(text, left, right, names, time_zone).read(read_sql(text))


def _reader(text: str, left: pa.Schema, right: pa.Schema, names: tuple[str, str], time_zone: str | None) -> _Reader:
    check_columns(left, (), argument="", side="left")
    check_columns(right, (), argument="", side="right")
    if names[0].lower() == names[1].lower():
        raise SpecError(f"names={names!r} gives both tables one name, so that no column could be told apart.")
    zone = ZoneInfo(time_zone) if time_zone else None
    tables: dict[Side, _Table] = {"left": _Table(names[0], left), "right": _Table(names[1], right)}
    return _Reader(text, tables, zone)


def read_sql(text: str) -> exp.Expr:
    """Return the syntax tree of a text.

    Raises
    ------
    SpecError
        If it is not SQL, with the place where reading stopped.
    """
    if not isinstance(text, str):
        raise SpecError(f"The predicate is a {type(text).__name__}. Expected SQL as a string.")
    if not text.strip():
        raise SpecError('The predicate is empty. Expected a condition such as "l.a > r.b - 3".')
    try:
        return sqlglot.parse_one(text, read="spark")
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        description = str(details.get("description") or "It does not read as SQL").rstrip(".")
        if "missing for" in description:
            description = "An operand is missing"
        end = _offset(text, int(details.get("line") or 1), int(details.get("col") or len(text)))
        start = end - max(0, len(str(details.get("highlight") or "")) - 1)
        raise SpecError(f"The predicate cannot be read: {description}.\n{pointer(text, start, end)}") from None
    except TokenError:
        end = len(text.rstrip()) - 1
        raise SpecError(
            f"The predicate cannot be read: a quote or comment is not closed.\n{pointer(text, end, end)}"
        ) from None
    except RecursionError:
        raise SpecError("The predicate is nested too deeply to be read.") from None


def _offset(text: str, line: int, column: int) -> int:
    """Return the offset of the last character of a token from its line and column, which count from one."""
    lines = text.split("\n")
    return min(sum(len(before) + 1 for before in lines[: line - 1]) + column, len(text)) - 1


def pointer(text: str, start: int, end: int) -> str:
    """Return the line of a text that holds a place, and a line of carets below the place.

    Examples
    --------
    >>> print(pointer("a > b", 2, 2))
        a > b
          ^
    """
    start = max(0, start)
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0]
    shown = line.replace("\t", " ")
    carets = max(1, min(end + 1 - line_start, len(line)) - (start - line_start))
    return f"    {shown}\n    {' ' * (start - line_start)}{'^' * carets}"


@dataclass(frozen=True)
class _Table:
    """One of the tables: what the text calls it, and its columns."""

    name: str
    schema: pa.Schema

    def find(self, name: str) -> list[str]:
        """Return the columns that a name can mean: the one with exactly that name, else all that differ in case."""
        if name in self.schema.names:
            return [name]
        return [column for column in self.schema.names if column.lower() == name.lower()]


class _Reader:
    """Turns a syntax tree into nodes. An error is raised once, with the place of the part that is wrong."""

    def __init__(self, text: str, tables: dict[Side, _Table], zone: ZoneInfo | None) -> None:
        self._text = text
        self._tables = tables
        self._zone = zone
        self._located = False

    def read(self, tree: exp.Expr) -> Node:
        """Return the node of a part of the tree."""
        try:
            return self._read(tree)
        except RecursionError:
            raise SpecError("The predicate is nested too deeply to be read.") from None
        except JunctureError as error:
            span = _place(tree)
            if self._located or span is None:
                raise
            self._located = True
            raise type(error)(f"{error}\n{pointer(self._text, *span)}") from None

    def _read(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        if kind in _READERS:
            return _READERS[kind](self, tree)
        if kind in _ARITHMETIC:
            left, right = self._moments(self.read(tree.this), self.read(tree.expression))
            return build.arithmetic(_ARITHMETIC[kind], left, right)
        if kind in _COMPARISONS:
            left, right = self._operand(tree.this), self._operand(tree.expression)
            if kind in _ORDERS:
                self._check_order(tree.this, tree.expression, asked=_COMPARISONS[kind])
            return build.compare(_COMPARISONS[kind], left, right, self._moment)
        raise self._unknown(tree)

    def _unknown(self, tree: exp.Expr) -> SpecError:
        """Return the error about something that is SQL, but no part of a predicate."""
        if isinstance(tree, exp.Func) and "start" in tree.meta:
            name = self._text[tree.meta["start"] : tree.meta["end"] + 1]
            known = ", ".join(FUNCTIONS)
            return SpecError(f"The function {name!r} is not known. Expected one of {known}.")
        if isinstance(tree, exp.Alias):
            return SpecError(f"{tree.alias!r} stands where an operator such as AND was expected.")
        if isinstance(tree, exp.Query | exp.Block):
            return SpecError("A predicate is one condition, without SELECT, subqueries or semicolons.")
        return SpecError(
            f"{tree.key.upper()} is not known in a predicate. Expected columns, literals, + - * /, comparisons, "
            f"BETWEEN, IN, IS NULL, AND, OR, NOT, or one of the functions {', '.join(FUNCTIONS)}."
        )

    def _operand(self, tree: exp.Expr) -> Node:
        """Return an operand of a comparison, which is no comparison itself unless it stands in brackets."""
        if isinstance(tree, _RELATIONS):
            raise SpecError("Comparisons cannot be chained. Join them by AND, or put one of them in brackets.")
        return self.read(tree)

    def _all(self, tree: exp.Expr) -> Node:
        assert isinstance(tree, exp.Connector)
        operands = [self.read(part) for part in tree.flatten()]
        return build.conjunction(operands) if isinstance(tree, exp.And) else build.disjunction(operands)

    def _check_order(self, *operands: exp.Expr, asked: str) -> None:
        """Refuse to order columns of ordered categories; one that is cast is not what it was."""
        for operand in operands:
            bare = operand.unnest()
            if isinstance(bare, exp.Column):
                side, field = self._field(bare)
                check_order(field, asked=asked, side=side)

    def _column(self, tree: exp.Expr) -> Node:
        assert isinstance(tree, exp.Column)
        side, field = self._field(tree)
        data_type = from_arrow(field.type)
        if data_type is None:
            raise SchemaError(
                f"The {side} column {field.name!r} is of type {field.type}, which a predicate cannot compare. Expected "
                "a number, string, binary, boolean, date, timestamp or duration: cast it first."
            )
        return Column(data_type, side, field.name, field.nullable)

    def _field(self, tree: exp.Column) -> tuple[Side, pa.Field]:
        """Return the column that a name means, and its table."""
        if not isinstance(tree.this, exp.Identifier):
            raise SpecError("'*' is not a column.")
        name, table = tree.name, tree.table
        if tree.args.get("db"):
            raise SpecError(f"{tree.sql('spark')} is a field inside a column. Select it as a column of its own first.")
        chosen = {side: part for side, part in self._tables.items() if not table or table.lower() == part.name.lower()}
        names = " or ".join(f"{part.name}." for part in self._tables.values())
        if not chosen:
            raise SchemaError(f"{table!r} is none of the tables. Expected {names} in front of a column.")
        found = [(side, column) for side, part in chosen.items() for column in part.find(name)]
        if not found:
            where = f"the table {table!r}" if table else "either table"
            advice = hint(name, *(part.schema for part in chosen.values()))
            raise SchemaError(f"There is no column {name!r} in {where}. {advice}")
        if len(found) > 1:
            if len({side for side, _ in found}) > 1:
                raise SchemaError(f"Both tables have a column {name!r}. Write {names} in front of it.")
            spellings = " and ".join(repr(column) for _, column in found)
            raise SchemaError(f"{name!r} could be {spellings}, which differ in case only. Spell it as one of them.")
        side, column = found[0]
        return side, self._tables[side].schema.field(column)

    def _literal(self, tree: exp.Expr) -> Node:
        assert isinstance(tree, exp.Literal)
        text = str(tree.this)
        if tree.is_string:
            return Literal(STRING, text)
        if "e" in text.lower():
            return Literal(DOUBLE, float(text))
        return build.decimal_literal(Decimal(text)) if "." in text else build.integer_literal(int(text))

    def _interval(self, tree: exp.Expr) -> Node:
        unit = tree.args.get("unit")
        if not isinstance(tree.this, exp.Literal):
            raise SpecError("The length of an INTERVAL has to be a constant: multiply it by a column instead.")
        steps, name = interval_steps(str(tree.this.this), unit.sql() if unit is not None else None)
        return Literal(Type("duration", unit=name), steps)

    def _cast(self, tree: exp.Expr) -> Node:
        assert isinstance(tree, exp.Cast)
        target = self._type(tree.to)
        text = str(tree.this.this) if isinstance(tree.this, exp.Literal) and tree.this.is_string else None
        if text is not None and target.kind == "date":
            return Literal(target, read_date(text))
        if text is not None and target.kind == "timestamp":
            return self._timestamp(text, target)
        return build.cast(self.read(tree.this), target, self._moment)

    def _type(self, tree: exp.DataType) -> Type:
        name = tree.this.value if isinstance(tree.this, exp.DataType.Type) else str(tree.this)
        if name == "DECIMAL":
            sizes = [int(size.name) for size in tree.expressions] or [10]
            precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
            if not (1 <= precision <= 38 and scale <= precision):
                raise SpecError(f"DECIMAL({precision}, {scale}) does not exist: it has 1 to 38 digits in all.")
            return Type("decimal", precision=precision, scale=scale)
        if name not in _TYPES:
            raise SpecError(f"CAST to {tree.sql('spark')} is not known. Expected a number, date, timestamp or boolean.")
        return _TYPES[name]

    def _timestamp(self, text: str, target: Type) -> Node:
        """Return a written timestamp; one without a zone stays a text until it meets a column that has one or not."""
        if not target.zoned:
            steps, unit = read_timestamp(text, zoned=False, zone=None)
            return Literal(Type("timestamp", unit=unit), steps)
        try:
            steps, unit = read_timestamp(text, zoned=True, zone=None)
        except SpecError:
            read_timestamp(text, zoned=False, zone=None)
            return Literal(STRING, text)
        return Literal(Type("timestamp", unit=unit, zoned=True), steps)

    def _moment(self, text: str, like: Type) -> Literal:
        """Return the date or timestamp that a text stands for beside a value of a type."""
        if like.kind == "date":
            return Literal(like, read_date(text))
        steps, unit = read_timestamp(text, zoned=like.zoned, zone=self._zone)
        return Literal(Type("timestamp", unit=unit, zoned=like.zoned), steps)

    def _moments(self, left: Node, right: Node) -> tuple[Node, Node]:
        """Read the texts among two operands of arithmetic that stand for timestamps."""
        clock = Type("timestamp", unit="us", zoned=self._zone is not None)
        pair = [left, right]
        for place, other in ((0, right), (1, left)):
            part = pair[place]
            if isinstance(part, Literal) and isinstance(part.value, str):
                if other.type.kind in ("timestamp", "date"):
                    pair[place] = self._moment(part.value, other.type)
                elif other.type.kind == "duration":
                    pair[place] = self._moment(part.value, clock)
        return pair[0], pair[1]

    def _between(self, tree: exp.Expr) -> Node:
        if tree.args.get("symmetric"):
            raise SpecError("BETWEEN SYMMETRIC is not known in Spark. Order the bounds, or use least and greatest.")
        operand = self._operand(tree.this)
        low, high = self._operand(tree.args["low"]), self._operand(tree.args["high"])
        self._check_order(tree.this, tree.args["low"], tree.args["high"], asked="BETWEEN")
        return build.conjunction(
            [build.compare(">=", operand, low, self._moment), build.compare("<=", operand, high, self._moment)]
        )

    def _in(self, tree: exp.Expr) -> Node:
        if tree.args.get("query") or not tree.expressions:
            raise SpecError("IN needs a list of values, such as IN (1, 2).")
        options = [self._operand(option) for option in tree.expressions]
        return build.is_in(self._operand(tree.this), options, self._moment)

    def _is(self, tree: exp.Expr) -> Node:
        operand = self._operand(tree.this)
        if isinstance(tree.expression, exp.Null):
            return build.is_null(operand)
        if isinstance(tree.expression, exp.Boolean):
            return build.compare("<=>", build.conjunction([operand]), Literal(BOOLEAN, bool(tree.expression.this)))
        raise SpecError("IS is followed by NULL, TRUE or FALSE. Use = or <=> to compare values.")

    def _extreme(self, tree: exp.Expr) -> Node:
        function: OneOf["least", "greatest"] = "least" if isinstance(tree, exp.Least) else "greatest"
        operands = [self.read(part) for part in (tree.this, *tree.expressions)]
        self._check_order(tree.this, *tree.expressions, asked=function)
        return build.extreme(function, operands)


_READERS: dict[type[exp.Expr], Callable[[_Reader, exp.Expr], Node]] = {
    exp.Abs: lambda reader, tree: build.absolute(reader.read(tree.this)),
    exp.And: _Reader._all,
    exp.Between: _Reader._between,
    exp.Boolean: lambda _, tree: Literal(BOOLEAN, bool(tree.this)),
    exp.Cast: _Reader._cast,
    exp.Column: _Reader._column,
    exp.Greatest: _Reader._extreme,
    exp.HexString: lambda _, tree: Literal(Type("binary"), bytes.fromhex(str(tree.this))),
    exp.In: _Reader._in,
    exp.Interval: _Reader._interval,
    exp.Is: _Reader._is,
    exp.Least: _Reader._extreme,
    exp.Literal: _Reader._literal,
    exp.Neg: lambda reader, tree: build.negate(reader.read(tree.this)),
    exp.Not: lambda reader, tree: build.negation(reader.read(tree.this)),
    exp.Null: lambda *_: Literal(NULL, None),
    exp.NullSafeNEQ: lambda reader, tree: build.negation(
        build.compare("<=>", reader._operand(tree.this), reader._operand(tree.expression), reader._moment)
    ),
    exp.Or: _Reader._all,
    exp.Paren: lambda reader, tree: reader.read(tree.this),
    exp.TryCast: _Reader._cast,
}


def _place(tree: exp.Expr) -> tuple[int, int] | None:
    """Return the first and last offset of a part of the text, or None where the tree does not tell."""
    metas = [part.meta for part in tree.walk() if "start" in part.meta]
    if not metas:
        return None
    return min(meta["start"] for meta in metas), max(meta["end"] for meta in metas)
