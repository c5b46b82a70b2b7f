"""Nodes as SQL in Spark's dialect."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from juncture.errors import PlanError
from juncture.predicate.language import nodes
from juncture.predicate.language.literals import date_text, duration_text, timestamp_text
from juncture.predicate.language.nodes import Call, Literal, Node, Options, depth
from juncture.predicate.language.types import DOUBLE, STRING, Type, Value, as_decimal

_Item = TypeVar("_Item")

_OR, _AND, _NOT, _RELATION, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_MOST_SHOWN = 400  # the most characters of the parts of an expression in `describe`
_MOST_NESTED = 200  # the nesting depth that Spark can parse without a stack overflow


def to_sql(node: Node, *, names: tuple[str, str] = ("l", "r"), guarded: bool = False) -> str:
    """Return an expression as SQL in Spark's dialect, which `juncture.predicate.language.parse.parse` parses.

    ``guarded`` writes it so that Spark computes what `evaluate` does, whatever its settings: integers in 64 bits,
    explicit conversions, and null in place of errors and wrapped numbers. `parse` does not know its functions. Raises
    PlanError if a guarded literal is finer than a microsecond, or operations nest deeper than Spark can parse.
    """
    if not guarded:
        return _Writer(names).write(node, _OR)
    if depth(node) > _MOST_NESTED:
        raise PlanError(
            f"The predicate nests operations {depth(node):,} deep, counting each term of a sum, but Spark supports "
            f"{_MOST_NESTED}. Compute a part of it as a column before the join.",
            name="JN-SQL-DEPTH",
        )
    return _GuardedWriter(names).write(node, _OR)


def describe(node: Node) -> str:
    """Return an expression for readers, as `to_sql`, but with long lists and chains shortened."""
    return _ShortWriter(("l", "r")).write(node, _OR)


class _Writer:
    """Writes nodes, with parentheses only where precedence needs them."""

    def __init__(self, names: tuple[str, str]) -> None:
        self._names = dict(zip(("left", "right"), names, strict=True))

    def write(self, node: Node, least: int) -> str:
        """Write a node, in parentheses if it binds less tightly than ``least``."""
        text, binding = self._write(node)
        return text if binding >= least else f"({text})"

    def _write(self, node: Node) -> tuple[str, int]:
        match node:
            case nodes.Column(side=side, name=name):
                table = self._names[side]
                return f"{_identifier(table)}.{_identifier(name)}" if table else _identifier(name), _ATOM
            case nodes.Literal():
                text = _literal(node)
                return text, _SIGN if text.startswith("-") else _ATOM
            case nodes.Arithmetic():
                return self._write_chain(node)
            case nodes.Call():
                return self._write_call(node)
            case nodes.Cast(type=target, operand=operand, implicit=implicit):
                if implicit:
                    return self._write(operand)
                return f"CAST({self.write(operand, _OR)} AS {target})", _ATOM
        return self._write_truth(node)

    def _write_chain(self, node: Node) -> tuple[str, int]:
        """Write a sum or a product from its end, since it is as deep as it is long."""
        parts: list[str] = []
        binding = _binding(node)
        while isinstance(node, nodes.Arithmetic) and _binding(node) == binding:
            parts.append(f" {node.operator} {self.write(node.right, binding + 1)}")
            node = node.left
        parts.append(self.write(node, binding))
        return "".join(reversed(parts)), binding

    def _write_call(self, node: Call) -> tuple[str, int]:
        match node:
            case Call(function="-", operands=(operand,)):
                return f"-{self.write(operand, _ATOM)}", _SIGN
            case Call(function="%" | "div" | "||" as function, operands=(left, right)):
                binding = _SUM if function == "||" else _PRODUCT
                return f"{self.write(left, binding)} {function} {self.write(right, binding + 1)}", binding
            case Call(function="like", operands=(operand,), detail=str(pattern)):
                return f"{self.write(operand, _SUM)} LIKE {self.write(Literal(STRING, pattern), _SUM)}", _RELATION
        operands = [self.write(each, _OR) for each in node.operands]
        match node.function:
            case "case":
                pairs = zip(operands[:-1:2], operands[1:-1:2], strict=True)
                whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
                return f"CASE {whens} ELSE {operands[-1]} END", _ATOM
            case "round":
                operands.append(str(node.detail))
            case "date_trunc":
                operands.insert(0, f"'{node.detail}'")
        return f"{node.function}({', '.join(operands)})", _ATOM

    def _write_truth(self, node: Node) -> tuple[str, int]:
        match node:
            case nodes.Compare(operator=operator, left=left, right=right):
                return f"{self.write(left, _SUM)} {operator} {self.write(right, _SUM)}", _RELATION
            case nodes.In(operand=operand, options=options):
                return f"{self.write(operand, _SUM)} IN ({self._listed(options)})", _RELATION
            case nodes.IsNull(operand=operand):
                return f"{self.write(operand, _SUM)} IS NULL", _RELATION
            case nodes.Not(operand=nodes.IsNull(operand=operand)):
                return f"{self.write(operand, _SUM)} IS NOT NULL", _RELATION
            case nodes.Not(operand=operand):
                return f"NOT {self.write(operand, _ATOM)}", _NOT
            case nodes.And(operands=operands):
                return self._joined(" AND ", operands, lambda each: self.write(each, _NOT)), _AND
            case nodes.Or(operands=operands):
                return self._joined(" OR ", operands, lambda each: self.write(each, _AND)), _OR
        raise AssertionError(f"{type(node).__name__} is not a node of a predicate")

    def _listed(self, options: Options) -> str:
        return self._joined(", ", options.values, lambda value: self._option(value, options.type))

    def _option(self, value: Value, data_type: Type) -> str:
        """Write a value so that it is found among those of a type, if not in that type itself."""
        if data_type.kind == "integer" and value is not None:
            return str(value)
        if data_type.kind == "decimal" and isinstance(value, int):
            integer, _, fraction = f"{as_decimal(Fraction(value, 10**data_type.scale), data_type):f}".partition(".")
            return f"{integer}.{fraction.rstrip('0')}" if fraction.strip("0") else f"{integer}BD"
        wide = DOUBLE if data_type.kind == "float" else data_type
        return self.write(Literal(wide, value), _SUM)

    def _joined(self, separator: str, items: Sequence[_Item], write: Callable[[_Item], str]) -> str:
        return separator.join(map(write, items))


class _ShortWriter(_Writer):
    """Writes nodes for readers: the first of many parts."""

    def _write_chain(self, node: Node) -> tuple[str, int]:
        text, binding = super()._write_chain(node)
        return (text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"), binding

    def _joined(self, separator: str, items: Sequence[_Item], write: Callable[[_Item], str]) -> str:
        texts: list[str] = []
        length = 0
        for item in items:
            if length > _MOST_SHOWN and len(items) - len(texts) > 1:
                texts.append(f"… {len(items) - len(texts):,} more")
                break
            texts.append(write(item))
            length += len(texts[-1])
        return separator.join(texts)


def _binding(node: Node) -> int:
    return _SUM if isinstance(node, nodes.Arithmetic) and node.operator in "+-" else _PRODUCT


class _GuardedWriter(_Writer):
    """Writes nodes for Spark, with null in place of every error."""

    def _write(self, node: Node) -> tuple[str, int]:
        match node:
            case nodes.Literal(type=data_type, value=int(value)) if data_type.unit == "ns" and value % 1_000:
                raise PlanError(
                    f"{_literal(node)} is finer than a microsecond, the precision of Spark. Round it to microseconds.",
                    name="JN-SQL-PRECISION",
                )
            case nodes.Literal(value=str(value)) if not set("\\'").isdisjoint(value):
                # The meaning of a backslash in a literal depends on the session.
                return f"CAST(X'{value.encode().hex().upper()}' AS STRING)", _ATOM
            case nodes.Arithmetic(operator=operator, left=left, right=right) if left.type.zoned or right.type.zoned:
                return self._moved_instant(operator, left, right), _ATOM
            case nodes.Arithmetic(operator=operator, left=left, right=right):
                kinds = (left.type.kind, right.type.kind)
                wanted = "BIGINT" if kinds == ("integer", "integer") else "INT" if "date" in kinds else ""
                one, other = self._operand(left, wanted), self._operand(right, wanted)
                return f"{_TRIED[operator]}({one}, {other})", _ATOM
            case nodes.In(operand=operand, options=options) if options.type.kind == "float" and 0.0 in options.values:
                # For many values, Spark compares -0.0 by its bits.
                text = self.write(operand, _SUM)
                return f"{text} IN ({self._listed(options)}) OR {text} = 0.0D", _OR
            case nodes.Cast(type=target, operand=operand):
                # Units are omitted, since all timestamps and durations of Spark have one.
                if operand.type.kind == target.kind and target.kind in ("timestamp", "duration"):
                    return self._write(operand)
                return f"try_cast({self.write(operand, _OR)} AS {target})", _ATOM
        return super()._write(node)

    def _write_call(self, node: Call) -> tuple[str, int]:
        operands = [self.write(each, _OR) for each in node.operands]
        match node.function:
            case "-" | "abs" as sign if node.operands[0].type.kind == "integer":
                text = self._operand(node.operands[0], "BIGINT")
                least, negative = "-9223372036854775808L", f"try_subtract(0L, {text})"
                return negative if sign == "-" else f"if({text} = {least}, NULL, abs({text}))", _ATOM
            case "%":
                one, other = (self._operand(each, "BIGINT") for each in node.operands)
                return f"(({one}) % nullif({other}, 0))", _ATOM
            case "div":
                one, other = (f"try_cast({each} AS BIGINT)" for each in operands)
                return f"(if({other} = -1L, try_subtract(0L, {one}), {one} div nullif({other}, 0L)))", _ATOM
            case "floor" | "ceil" if node.operands[0].type.kind == "float":
                # NaN is greater than all others.
                wide, limit = f"CAST({operands[0]} AS DOUBLE)", "9.223372036854775808E18D"
                return f"(if({wide} >= -{limit} AND {wide} < {limit}, {node.function}({wide}), NULL))", _ATOM
            case "like":
                return f"(({operands[0]}) LIKE {self.write(Literal(STRING, str(node.detail)), _OR)})", _ATOM
            case "date_trunc":
                return f"({_date_trunc(str(node.detail), f'({operands[0]})')})", _ATOM
            case "||":
                return f"concat({', '.join(operands)})", _ATOM
        return super()._write_call(node)

    def _moved_instant(self, operator: str, left: Node, right: Node) -> str:
        """Write arithmetic on instants in microseconds, since Spark's days depend on the session's zone."""
        parts = []
        for operand in (left, right):
            text = self.write(operand, _OR)
            parts.append(f"unix_micros({text})" if operand.type.zoned else f"(({text}) div {_MICROSECOND})")
        result = f"{_TRIED[operator]}({', '.join(parts)})"
        if left.type.zoned and right.type.zoned:
            return f"try_multiply({_MICROSECOND}, {result})"
        return f"timestamp_micros({result})"

    def _operand(self, node: Node, wanted: str) -> str:
        """Write an operand; an integer in the wanted type, since dates move by INT only."""
        text = self.write(node, _OR)
        fits = str(node.type) == wanted and not isinstance(node, Literal)
        return text if fits or not wanted or node.type.kind != "integer" else f"try_cast({text} AS {wanted})"


_MICROSECOND = "INTERVAL '0.000001 seconds'"
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide"}

_WORDS = """
AND ANY AS BETWEEN CASE CAST CROSS CURRENT_DATE CURRENT_TIMESTAMP DISTINCT ELSE FALSE FOR FROM HAVING INNER INTERVAL
INTO JOIN LATERAL LEFT LIKE NOT NULL ON OR OUTER RIGHT RLIKE SELECT SET THEN TRUE UNION USING VALUES WHEN WHERE WITH
"""
_KEYWORDS = frozenset(_WORDS.split())  # words that must be quoted as the name of a table or column


def _identifier(name: str) -> str:
    """Write a name, in backticks unless it is plain."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in _KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def _literal(literal: Literal) -> str:
    value, data_type = literal.value, literal.type
    if value is None:
        # SQL has no names for the units of times; NULL takes the type of what it is compared with.
        return "NULL" if data_type.kind in ("null", "timestamp", "duration") else f"CAST(NULL AS {data_type})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if data_type.kind == "decimal":
        return _decimal(Fraction(value), data_type)
    if isinstance(value, int):
        return _integer_text(value, data_type)
    assert isinstance(value, float)
    if not math.isfinite(value):
        return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS {data_type})"
    text = repr(value)
    return f"{text}F" if data_type.bits == 32 else text if "e" in text else f"{text}D"


def _integer_text(value: int, data_type: Type) -> str:
    if data_type.kind == "date":
        return f"DATE '{date_text(value)}'"
    if data_type.kind == "timestamp":
        return f"TIMESTAMP{'' if data_type.zoned else '_NTZ'} '{timestamp_text(value, data_type)}'"
    if data_type.kind == "duration":
        return f"INTERVAL '{duration_text(value, data_type.unit)}'"
    narrow = -(2**31) <= value < 2**31
    suffix = {8: "Y", 16: "S", 32: "", 64: "L" if narrow else ""}[data_type.bits]
    return f"{value}{suffix}"


def _decimal(value: Fraction, data_type: Type) -> str:
    """Write a decimal with the digits of its type, in a cast if it has fewer."""
    text = f"{as_decimal(value, data_type):f}"
    integer, _, fraction = text.removeprefix("-").partition(".")
    written = len(fraction) if integer == "0" and fraction else len(integer) + len(fraction)
    text = text if fraction else f"{text}BD"
    return text if written == data_type.precision else f"CAST({text} AS {data_type})"


def _date_trunc(unit: str, time: str) -> str:
    """Write a time without a zone, truncated to a unit. Spark's own function uses the zone of the session."""
    if unit in ("year", "quarter", "month", "week"):
        return f"CAST(trunc(CAST({time} AS DATE), '{unit}') AS TIMESTAMP_NTZ)"
    day = f"CAST(CAST({time} AS DATE) AS TIMESTAMP_NTZ)"
    if unit == "day":
        return day
    parts = ["0", f"hour({time})"]
    if unit != "hour":
        parts.append(f"minute({time})")
    if unit not in ("hour", "minute"):
        digits = {"second": 0, "millisecond": 3, "microsecond": 6}[unit]
        second = f"extract(SECOND FROM {time})"
        parts.append(f"CAST(floor({second} * {10**digits}) / {10**digits} AS DECIMAL(18, 6))")
    return f"{day} + make_dt_interval({', '.join(parts)})"
