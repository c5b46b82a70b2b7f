"""Compilation of bound expressions: to Arrow's functions where views have them, and to queries of DuckDB elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import Call, Constant, Expression, InputColumn, call, evaluate
from juncture.incremental.sql.binder import ArrowTypes
from juncture.incremental.sql.bound import COMPARED, Bound, UnreadableError, decimal_text, text

_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply"}
_TEXT = {
    "lower": "lower", "upper": "upper", "lcase": "lower", "ucase": "upper", "length": "length", "len": "length",
    "||": "concat",
}  # fmt: skip
_LIKE = {"~~": (False, False), "!~~": (False, True), "~~*": (True, False), "!~~*": (True, True)}
_HUGE = ("HUGEINT", "UHUGEINT")


def compile_expression(bound: Bound, columns: Sequence[pa.DataType], types: ArrowTypes) -> Expression:
    """Return an expression that reads columns of some types; raises `UnreadableError`."""
    return _Compilation(types, columns).value(bound)


class _Compilation:
    def __init__(self, types: ArrowTypes, columns: Sequence[pa.DataType]) -> None:
        self._types = types
        self._columns = columns

    def value(self, bound: Bound) -> Expression:
        if bound.op == "ref":
            return InputColumn(self._columns[bound.value], bound.value)
        target = self._type(bound)
        compiled = None if self._is_opaque(bound) else self._compiled(bound, target)
        return self._by_duckdb(bound, target) if compiled is None else compiled

    def _type(self, bound: Bound) -> pa.DataType:
        target = self._types.of(bound.info)
        if target is None:
            raise UnreadableError(f"values of type {bound.type}", bound.source)
        return target

    def _is_opaque(self, bound: Bound) -> bool:
        """Return whether an operand has a type that only DuckDB has, or is a constant beyond its Arrow type."""
        return any(self._types.of(each.info) is None or _is_beyond(each) for each in bound.args)

    def _compiled(self, bound: Bound, target: pa.DataType) -> Expression | None:
        if bound.op == "const":
            return _constant(bound, target)
        rule = _RULES.get(bound.op)
        if rule is None or (bound.op == "-" and len(bound.args) == 1 and not are_numbers([target])):
            return None
        name_and_option = rule(bound, [self._type(each) for each in bound.args])
        if name_and_option is None:
            return None
        name, option, count = name_and_option
        operands = [self.value(each) for each in bound.args[:count]]
        try:
            if name.startswith("not "):
                return call("not", self._called(name.removeprefix("not "), operands, option, pa.bool_()))
            return self._called(name, operands, option, target)
        except pa.ArrowException:
            return None

    def _called(self, name: str, operands: Sequence[Expression], option: Any, target: pa.DataType) -> Expression:
        if name in ("and", "or"):
            result = operands[0]
            for each in operands[1:]:
                result = call(name, result, each)
            return result
        if name == "cast" and operands[0].type == target:
            return operands[0]
        result = call(name, *operands, option=option)
        return result if result.type == target else call("cast", result, option=target)

    # Evaluated by DuckDB

    def _by_duckdb(self, bound: Bound, target: pa.DataType) -> Expression:
        read = sorted({each.value for each in bound.walk() if each.op == "ref"})
        of_refs = {each.value: each for each in bound.walk() if each.op == "ref"}
        inputs = tuple(InputColumn(self._columns[index], index) for index in read)
        for index in read:
            self._type(of_refs[index])
        at = {index: number for number, index in enumerate(read)}
        value = text(bound, lambda index: f"CAST(c{at[index]} AS {of_refs[index].type})")
        sql = f"SELECT {stored(value, bound.info['id'], bound.type)} FROM slot"
        types = tuple(each.type for each in inputs) or (pa.int8(),)
        query = DuckQuery(sql, types, (target,), self._types.zone)
        if len(inputs) == 1 and _rises(bound, self._types.zone == "UTC"):
            query = replace(query, rises=True, inverse=self._inverse(bound, target))
        expression = Call(target, "duckdb", inputs, query)
        if inputs:
            return expression
        try:
            return _folded(evaluate(expression, [], 1), target) or expression
        except pa.ArrowException:
            # The error must occur only if there are rows.
            return expression

    def _inverse(self, bound: Bound, target: pa.DataType) -> DuckQuery | None:
        """Return the query that undoes the addition of a constant to a column; None for other expressions."""
        column = next((each for each in bound.args if each.op == "ref"), None)
        if bound.op not in ("+", "-") or column is None or column.type != bound.type:
            return None
        other = next(each for each in bound.args if each is not column)
        sign = "-" if bound.op == "+" else "+"
        value = text(Bound(sign, bound.info, (column, other)), lambda _index: f"CAST(c0 AS {column.type})")
        sql = f"SELECT {stored(value, bound.info['id'], bound.type)} FROM slot"
        return DuckQuery(sql, (target,), (target,), self._types.zone)


def stored(value: str, name: str, type_text: str) -> str:
    """Return the SQL of a value in the type in which views store it."""
    if name in _HUGE:
        return f"CAST({value} AS BIGINT)"
    if name in ("UUID", "CHAR"):
        return f"CAST({value} AS VARCHAR)"
    if name == "INTERVAL":
        months = f"datepart('year', {value}) <> 0 OR datepart('month', {value}) <> 0"
        return f"CASE WHEN {months} THEN error('an interval of months has no fixed length') ELSE epoch_us({value}) END"
    return value if type_text == '"NULL"' else f"CAST({value} AS {type_text})"


_PHYSICAL = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS")


def _folded(value: pa.Array, target: pa.DataType) -> Expression | None:
    try:
        content = value[0].as_py()
    except (ValueError, OverflowError):
        # Dates outside of Python's range.
        return None
    if isinstance(content, list | dict) or str(content) in ("-0.0", "nan") or pat.is_duration(target):
        return None
    if pat.is_timestamp(target) and target.unit == "ns":
        return None
    return Constant(target, content)


def _is_beyond(bound: Bound) -> bool:
    return bound.op == "const" and bound.info["id"] in _HUGE and not -(2**63) <= (bound.value or 0) < 2**63


def _constant(bound: Bound, target: pa.DataType) -> Expression | None:
    value, name = bound.value, bound.info["id"]
    if value is None:
        return Constant(target, None)
    if name == "DECIMAL":
        return Constant(target, Decimal(decimal_text(value, bound.info["type_info"]["scale"])))
    if pat.is_integer(target) and isinstance(value, int):
        return Constant(target, value)
    if name in ("DOUBLE", "FLOAT") and isinstance(value, float | int) and value == value:
        return None if str(float(value)) == "-0.0" else Constant(target, float(value))
    if name == "BOOLEAN":
        return Constant(target, bool(value))
    if name in _PHYSICAL and isinstance(value, int):
        number = pa.scalar(value, pa.int32() if name == "DATE" else pa.int64())
        return _folded(pa.array([number.as_py()], number.type).cast(target), target)
    if name == "VARCHAR" and isinstance(value, str):
        return Constant(target, value)
    return None


_RISING = {
    "time_bucket": 1, "date_trunc": 1, "datetrunc": 1, "floor": 0, "ceil": 0, "ceiling": 0, "year": 0, "epoch": 0,
    "epoch_ms": 0, "epoch_us": 0, "epoch_ns": 0, "last_day": 0, "+": None, "-": 0, "cast": 0, "ref": None,
}  # fmt: skip
"""Functions that rise with an argument, if the others are constant: its position, or None for any."""


def _rises(bound: Bound, is_utc: bool) -> bool:
    """Return whether a value rises or stays as its only column rises. In other zones than UTC, times are set back."""
    position = _RISING.get(bound.op, -1)
    others = [each for at, each in enumerate(bound.args) if (not _reads(each) if position is None else at != position)]
    if position == -1 or len(bound.args) - len(others) != int(bound.op != "ref") or any(map(_reads, others)):
        return False
    have_length = others and all(each.info["id"] != "INTERVAL" or _has_length(each) for each in others)
    if ("ZONE" in bound.type and not is_utc) or (bound.op in ("+", "-") and not have_length):
        return False
    if bound.op == "cast":
        kinds = [_kind(each) for each in (bound, bound.args[0])]
        if bound.value or kinds[0] != kinds[1] or not kinds[0]:
            return False
    return all(_rises(each, is_utc) for each in bound.args if each not in others)


def _has_length(bound: Bound) -> bool:
    """Return whether a value is an interval without months."""
    return bound.op == "const" and isinstance(bound.value, dict) and not bound.value.get("months")


def _kind(bound: Bound) -> str:
    """Return what the values of a type measure, if they have an order that casts keep."""
    if bound.type.startswith(("DATE", "TIMESTAMP")):
        return "time"
    return "number" if "INT" in bound.type or bound.type.startswith(("DECIMAL", "DOUBLE", "FLOAT")) else ""


# Rules return the name of a function, its option, and the number of operands that it reads, for a bound expression and
# the Arrow types of its operands; None for what DuckDB evaluates.

Rule = Callable[[Bound, list[pa.DataType]], tuple[str, Any, int] | None]


def are_numbers(types: Sequence[pa.DataType]) -> bool:
    """Return whether all types are numeric."""
    return all(pat.is_integer(each) or pat.is_floating(each) or pat.is_decimal(each) for each in types)


def _are_texts(bound: Bound) -> bool:
    return all(each.type == "VARCHAR" for each in bound.args)


def _same(types: Sequence[pa.DataType]) -> bool:
    return len(set(types)) == 1 and not (pat.is_nested(types[0]) or pat.is_duration(types[0]) or pat.is_null(types[0]))


def _comparison(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    kinds = {each.info["id"] for each in bound.args}
    return (COMPARED[bound.op], None, 2) if _same(types) and kinds.isdisjoint({"ENUM", "INTERVAL", "UUID"}) else None


def _distinct(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    negation = "not " if bound.op == "IS NOT DISTINCT FROM" else ""
    return (f"{negation}distinct_from", None, 2) if _same(types) else None


def _arithmetic(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    if not are_numbers(types):
        return None
    if len(types) == 1:
        return ("negate", None, 1) if bound.op == "-" else None
    if len({str(each) if not pat.is_decimal(each) else "decimal" for each in types}) > 1:
        return None
    return _ARITHMETIC[bound.op], None, 2


def _division(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    if bound.op == "/":
        return ("divide", None, 2) if _same(types) and pat.is_floating(types[0]) else None
    if not _same(types) or not pat.is_integer(types[0]) or "HUGEINT" in bound.type:
        return None
    return ("int_divide" if bound.op == "//" else "remainder"), None, 2


def _logic(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    return {"is_not_null": "not is_null"}.get(bound.op, bound.op), None, len(types)


def _branches(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    values = [*types[1:-1:2], types[-1]] if bound.op == "case" else types
    return (bound.op, None, len(types)) if len(set(values)) == 1 else None


def _extreme(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    is_supported = _same(types) and not pat.is_boolean(types[0]) and len(types) > 1
    return (bound.op, None, len(types)) if is_supported else None


def _membership(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    if not _same(types) or any(each.op not in ("const", "cast") for each in bound.args[1:]):
        return None
    others = [compile_expression(each, [], ArrowTypes("UTC")) for each in bound.args[1:] if not _reads(each)]
    values = [each.value for each in others if isinstance(each, Constant)]
    if len(values) < len(bound.args) - 1:
        return None
    option = tuple(each for each in values if each is not None), None in values
    return ("not " if bound.op == "not_in" else "") + "in", option, 1


def _reads(bound: Bound) -> bool:
    return any(each.op == "ref" for each in bound.walk())


def _cast(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    source, target = bound.args[0].info["id"], bound.info["id"]
    to = ArrowTypes("UTC").of(bound.info)
    if bound.value or to is None or "INTERVAL" in (source, target):
        return None
    is_same = source in ("NULL", "SQLNULL") or bound.args[0].type == bound.type
    are_compiled = are_numbers([types[0], to]) and not (pat.is_floating(types[0]) and pat.is_decimal(to))
    return ("cast", to, 1) if is_same or are_compiled else None


def _of_text(bound: Bound, types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    return (_TEXT[bound.op], None, len(types)) if _are_texts(bound) else None


def _pattern(bound: Bound, _types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    pattern = bound.args[1]
    if not _are_texts(bound) or pattern.op != "const" or not isinstance(pattern.value, str):
        return None
    ignore_case, negate = _LIKE[bound.op]
    return "not " * negate + "like", (pattern.value, ignore_case), 1


def _substring(bound: Bound, _types: list[pa.DataType]) -> tuple[str, Any, int] | None:
    bounds = [each.args[0] if each.op == "cast" else each for each in bound.args[1:]]
    if bound.args[0].type != "VARCHAR" or any(
        each.op != "const" or not isinstance(each.value, int) or not 0 < each.value < 2**31 for each in bounds
    ):
        return None
    return "substring", (*(each.value for each in bounds), None)[:2], 1


_RULES: dict[str, Rule] = {
    **dict.fromkeys(COMPARED, _comparison),
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _distinct),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(("/", "//", "%"), _division),
    **dict.fromkeys(("and", "or", "not", "is_null", "is_not_null"), _logic),
    **dict.fromkeys(("case", "coalesce"), _branches),
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys(("in", "not_in"), _membership),
    **dict.fromkeys(_TEXT, _of_text),
    **dict.fromkeys(_LIKE, _pattern),
    **dict.fromkeys(("substring", "substr"), _substring),
    "cast": _cast,
}
