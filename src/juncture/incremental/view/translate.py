"""Translate sqlglot's tree into typed expressions, with the implicit casts of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SpecError
from juncture.incremental.view.coercion import (
    cast,
    common_type,
    float_type,
    in_common_type,
    is_number,
    is_text,
    numbers,
)
from juncture.incremental.view.expressions import FALSE, TRUE, Constant, Expression, all_of, call
from juncture.incremental.view.grammar import VALUES
from juncture.incremental.view.parse import unsupported, wrong

_COMPARISONS = {"EQ": "equal", "NEQ": "not_equal", "LT": "less", "LTE": "less_equal", "GT": "greater"} | {
    "GTE": "greater_equal"
}
_ARITHMETIC = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}
_OF_NUMBERS = {"Abs": "abs"}
_TO_WHOLE = {"Floor": "floor", "Ceil": "ceil"}
_OF_TEXT = {"Lower": "lower", "Upper": "upper", "Trim": "trim"}
_PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute"} | {
    "SECOND": "second", "DOY": "day_of_year", "DAYOFYEAR": "day_of_year", "WEEK": "iso_week"
}  # fmt: skip
_PART_CLASSES = {"Year": "YEAR", "Quarter": "QUARTER", "Month": "MONTH", "Day": "DAY", "Hour": "HOUR"} | {
    "Minute": "MINUTE", "Second": "SECOND", "DayOfMonth": "DAY", "DayOfYear": "DOY", "Week": "WEEK"
}  # fmt: skip
_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_SECONDS = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "TEXT": pa.string(),
    "CHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}

_OF_ANY_LENGTH = ("VARCHAR", "TEXT", "CHAR")
"""Types whose length DuckDB parses and ignores."""
_MOST_DIGITS = 38


def type_of(node: Any) -> pa.DataType | None:
    """Return the type that SQL names; None if views do not support it."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name == "DECIMAL":
        digits = [int(each.this.this) for each in node.expressions]
        precision, scale = (*digits, 0)[:2] if digits else (18, 3)
        return pa.decimal128(precision, scale) if 0 < precision <= _MOST_DIGITS and scale <= precision else None
    return _TYPES.get(name) if not node.expressions or name in _OF_ANY_LENGTH else None


class Translator:
    """Translates nodes. ``known`` returns the expression of a node such as a column; None to translate its parts."""

    def __init__(self, sql: str, known: Callable[[Any], Expression | None]) -> None:
        self._sql = sql
        self._known = known
        self._exp = import_module("sqlglot").exp

    def __call__(self, node: Any) -> Expression:
        """Return a node as an expression; raises `SpecError` for unsuitable types and unsupported SQL."""
        expression = self._known(node)
        if expression is not None:
            return expression
        try:
            return self._made(node)
        except pa.ArrowException as error:
            reason = str(error).partition("\n")[0]
            raise self._ill_typed(node, f"has values of unsuitable types ({reason}). Cast one of them.") from None

    def _ill_typed(self, node: Any, why: str) -> SpecError:
        return wrong(self._sql, node, f"{node.sql('duckdb')} {why}", name="JN-SQL-TYPE")

    def _made(self, node: Any) -> Expression:
        name = type(node).__name__
        if name in _COMPARISONS:
            return self._compared(node, _COMPARISONS[name], node.this, node.expression)
        if name in _ARITHMETIC:
            return self._counted(node, _ARITHMETIC[name])
        if name in _OF_NUMBERS:
            return call(_OF_NUMBERS[name], self._number(node.this))
        if name in _TO_WHOLE:
            value = self._number(node.this)
            return call(_TO_WHOLE[name], cast(value, pa.float64()) if pat.is_integer(value.type) else value)
        if name in _OF_TEXT:
            return call(_OF_TEXT[name], self._text(node.this))
        if name in _PART_CLASSES:
            return self._part(node, _PART_CLASSES[name], node.this)
        method = getattr(self, f"_{name.lower()}", None)
        if method is None or name not in VALUES:
            raise unsupported(self._sql, node, _named(node))
        made: Expression = method(node)
        return made

    # Constants and types

    def _literal(self, node: Any) -> Expression:
        text = node.this
        if node.is_string:
            return Constant(pa.string(), text)
        if "e" in text.lower():
            return Constant(pa.float64(), float(text))
        if "." in text:
            value = Decimal(text)
            scale = -int(value.as_tuple().exponent)
            precision = max(sum(map(str.isdigit, text)), 1)
            if precision > _MOST_DIGITS:
                return Constant(pa.float64(), float(text))
            return Constant(pa.decimal128(precision, scale), value)
        whole = int(text)
        if whole >= 10**_MOST_DIGITS:
            raise unsupported(self._sql, node, f"integers of more than {_MOST_DIGITS} digits")
        return Constant(pa.int64(), whole) if whole < 2**63 else Constant(pa.decimal128(38, 0), Decimal(whole))

    def _boolean(self, node: Any) -> Expression:
        return TRUE if node.this else FALSE

    def _null(self, _node: Any) -> Expression:
        return Constant(pa.null(), None)

    def _paren(self, node: Any) -> Expression:
        return self(node.this)

    def _alias(self, node: Any) -> Expression:
        return self(node.this)

    def _cast(self, node: Any) -> Expression:
        target = type_of(node.to)
        if target is None:
            raise unsupported(self._sql, node, f"a cast to {node.to.sql('duckdb')}")
        value = self(node.this)
        if is_text(target) and (pat.is_floating(value.type) or pat.is_timestamp(value.type)):
            raise unsupported(self._sql, node, f"a cast of {value.type} to text", "Its format differs between engines.")
        return cast(value, target)

    def _neg(self, node: Any) -> Expression:
        value = self._number(node.this)
        return call("negate", cast(value, pa.int64()) if pat.is_integer(value.type) else value)

    # Logic

    def _condition(self, node: Any) -> Expression:
        value = self(node)
        if not (pat.is_boolean(value.type) or pat.is_null(value.type)):
            raise self._ill_typed(node, f"is of type {value.type}. Expected a condition, which is true or false.")
        return cast(value, pa.bool_())

    def condition(self, node: Any) -> Expression:
        """Return a node as a condition."""
        return self._condition(node)

    def _and(self, node: Any) -> Expression:
        return all_of([self._condition(each) for each in node.flatten()])

    def _or(self, node: Any) -> Expression:
        result: Expression = FALSE
        for each in node.flatten():
            condition = self._condition(each)
            result = condition if result == FALSE else call("or", result, condition)
        return result

    def _not(self, node: Any) -> Expression:
        return call("not", self._condition(node.this))

    def _compared(self, node: Any, function: str, *operands: Any) -> Expression:
        return call(function, *self._in_common_type(node, *operands))

    def _in_common_type(self, node: Any, *operands: Any, compared: bool = True) -> list[Expression]:
        own = [self(each) for each in operands]
        values = in_common_type(own, compared=compared)
        if values is None:
            types = " and ".join(dict.fromkeys(str(each.type) for each in own))
            raise self._ill_typed(node, f"has values of types {types}, which do not compare. Cast one of them.")
        return values

    def _is(self, node: Any) -> Expression:
        value = self(node.this)
        if isinstance(node.expression, self._exp.Null):
            return call("is_null", value)
        return call("not", call("distinct_from", cast(value, pa.bool_()), self(node.expression)))

    def _nullsafeeq(self, node: Any) -> Expression:
        return call("not", self._compared(node, "distinct_from", node.this, node.expression))

    def _nullsafeneq(self, node: Any) -> Expression:
        return self._compared(node, "distinct_from", node.this, node.expression)

    def _between(self, node: Any) -> Expression:
        value, low, high = self._in_common_type(node, node.this, node.args["low"], node.args["high"])
        return all_of([call("greater_equal", value, low), call("less_equal", value, high)])

    def _in(self, node: Any) -> Expression:
        if node.args.get("query") or node.args.get("unnest"):
            raise unsupported(self._sql, node, "IN of a subquery", "Use a join.")
        value, *among = self._in_common_type(node, node.this, *node.expressions)
        if not all(isinstance(each, Constant) for each in among):
            result: Expression = call("equal", value, among[0])
            for each in among[1:]:
                result = call("or", result, call("equal", value, each))
            return result
        constants = [each.value for each in among if isinstance(each, Constant)]
        known = tuple(each for each in constants if each is not None)
        return call("in", value, option=(known, len(known) < len(constants)), data_type=pa.bool_())

    def _case(self, node: Any) -> Expression:
        conditions, values = [], []
        for branch in node.args["ifs"]:
            asked = branch.this
            conditions.append(
                self._condition(asked) if node.this is None else self._compared(branch, "equal", node.this, asked)
            )
            values.append(self(branch.args["true"]))
        other = node.args.get("default")
        values.append(Constant(pa.null(), None) if other is None else self(other))
        return self._chosen(node, conditions, values)

    def _if(self, node: Any) -> Expression:
        other = node.args.get("false")
        values = [self(node.args["true"]), Constant(pa.null(), None) if other is None else self(other)]
        return self._chosen(node, [self._condition(node.this)], values)

    def _chosen(self, node: Any, conditions: list[Expression], values: list[Expression]) -> Expression:
        alike = in_common_type(values)
        if alike is None:
            types = " and ".join(dict.fromkeys(str(each.type) for each in values))
            raise self._ill_typed(node, f"has results of types {types}, which have no common type. Cast them.")
        *chosen, other = alike
        turns = [each for pair in zip(conditions, chosen, strict=True) for each in pair]
        return call("case", *turns, other, data_type=other.type)

    def _coalesce(self, node: Any) -> Expression:
        return self._alike(node, "coalesce")

    def _greatest(self, node: Any) -> Expression:
        return self._alike(node, "greatest")

    def _least(self, node: Any) -> Expression:
        return self._alike(node, "least")

    def _alike(self, node: Any, function: str) -> Expression:
        return call(function, *self._in_common_type(node, node.this, *node.expressions, compared=False))

    def _nullif(self, node: Any) -> Expression:
        value = self(node.this)
        same = self._compared(node, "equal", node.this, node.expression)
        return call("case", same, Constant(value.type, None), value, data_type=value.type)

    # Numbers

    def _number(self, node: Any) -> Expression:
        value = self(node)
        if pat.is_null(value.type):
            return cast(value, pa.int64())
        if not is_number(value.type):
            raise self._ill_typed(node, f"is of type {value.type}. Expected a number. Cast it.")
        return value

    def _counted(self, node: Any, function: str) -> Expression:
        in_time = self._in_time(node, function)
        if in_time is not None:
            return in_time
        types = [self(each).type for each in (node.this, node.expression)]
        if any(map(pat.is_null, types)) and any(map(pat.is_decimal, types)):
            # DuckDB gives this the type of its context, as for NULL.
            return Constant(pa.null(), None)
        return call(function, *numbers(self._number(node.this), self._number(node.expression)))

    def _div(self, node: Any) -> Expression:
        values = [self._number(each) for each in (node.this, node.expression)]
        quotient = float_type(each.type for each in values) or pa.float64()
        return call("divide", *(cast(each, quotient) for each in values))

    def _intdiv(self, node: Any) -> Expression:
        return call("int_divide", *self._integers(node, "//"))

    def _mod(self, node: Any) -> Expression:
        return call("remainder", *self._integers(node, "%"))

    def _integers(self, node: Any, operator: str) -> list[Expression]:
        values = [self._number(each) for each in (node.this, node.expression)]
        if not all(pat.is_integer(each.type) for each in values):
            raise unsupported(self._sql, node, f"{operator} of numbers other than integers", "Cast them to BIGINT.")
        return [cast(each, pa.int64()) for each in values]

    def _sqrt(self, node: Any) -> Expression:
        return call("sqrt", cast(self._number(node.this), pa.float64()))

    def _round(self, node: Any) -> Expression:
        digits = node.args.get("decimals")
        count = 0 if digits is None else self._constant_integer(digits, "ROUND to a number")
        value = self._number(node.this)
        if count is None:
            return Constant(value.type, None)
        if pat.is_decimal(value.type) and -count > value.type.precision - value.type.scale:
            # DuckDB returns zero for NULL in this case.
            raise unsupported(self._sql, node, f"ROUND of {value.type} to {count} digits")
        return call("round", value, option=count)

    def _constant_integer(self, node: Any, where: str) -> int | None:
        value = self(node)
        if not isinstance(value, Constant) or not (pat.is_integer(value.type) or pat.is_null(value.type)):
            raise unsupported(self._sql, node, f"{where} other than an integer constant")
        integer: int | None = value.value
        return integer

    # Time

    def _in_time(self, node: Any, function: str) -> Expression | None:
        """Return a sum or difference of dates and times; None for numbers."""
        one, other = node.this, node.expression
        if isinstance(other, self._exp.Interval):
            return self._moved(node, self(one), other, 1 if function == "add" else -1)
        if isinstance(one, self._exp.Interval) and function == "add":
            return self._moved(node, self(other), one, 1)
        left, right = self(one), self(other)
        if pat.is_date32(left.type) and pat.is_date32(right.type) and function == "subtract":
            return call("days_between", left, right)
        if pat.is_date32(left.type) and pat.is_integer(right.type) and function != "multiply":
            days = cast(right, pa.int64())
            return call("add_days", left, days if function == "add" else call("negate", days))
        return None

    def _moved(self, node: Any, value: Expression, interval: Any, sign: int) -> Expression:
        unit = interval.args["unit"].name.upper().rstrip("S") if interval.args.get("unit") else ""
        size = interval.this.this if isinstance(interval.this, self._exp.Literal) else ""
        is_plain = re.fullmatch(r"-?\d{1,9}", size) or (unit == "SECOND" and re.fullmatch(r"-?\d{1,9}\.\d{1,6}", size))
        if unit not in _SECONDS or not is_plain:
            raise unsupported(
                self._sql, node, f"a step of {interval.sql('duckdb')}", f"Use a constant of {_listed(_SECONDS)}."
            )
        if pat.is_date32(value.type):
            value = cast(value, pa.timestamp("us"))
        if not pat.is_timestamp(value.type):
            raise self._ill_typed(node, f"adds an interval to {value.type}. Expected a date or timestamp. Cast it.")
        per_second = 1_000 ** ("s", "ms", "us", "ns").index(value.type.unit)
        steps = Decimal(size) * _SECONDS[unit] * per_second * sign
        if steps != int(steps):
            raise self._ill_typed(node, f"is of type {value.type}, whose unit is too coarse. Cast it to TIMESTAMP.")
        return call("move", value, option=int(steps))

    def _part(self, node: Any, part: str, of: Any) -> Expression:
        function = _PARTS.get(part.upper())
        if function is None:
            raise unsupported(self._sql, node, f"EXTRACT of {part}", f"Use one of {_listed(_PARTS)}.")
        value = self(of)
        if part.upper() in ("HOUR", "MINUTE", "SECOND") and pat.is_date(value.type):
            value = cast(value, pa.timestamp("us"))
        return call(function, value)

    def _extract(self, node: Any) -> Expression:
        return self._part(node, node.this.name, node.expression)

    def _timestamptrunc(self, node: Any) -> Expression:
        unit = node.args["unit"].name.lower()
        if unit not in _TRUNCATED:
            raise unsupported(self._sql, node, f"DATE_TRUNC to {unit}", f"Use one of {_listed(_TRUNCATED)}.")
        value = self(node.this)
        return call("date_trunc", cast(value, pa.timestamp("us")) if pat.is_date(value.type) else value, option=unit)

    _datetrunc = _timestamptrunc

    # Text

    def _text(self, node: Any) -> Expression:
        value = self(node)
        if not (is_text(value.type) or pat.is_null(value.type)):
            raise self._ill_typed(node, f"is of type {value.type}. Expected text. Cast it.")
        return cast(value, pa.string()) if pat.is_null(value.type) else value

    def _length(self, node: Any) -> Expression:
        return call("length", self._text(node.this))

    def _substring(self, node: Any) -> Expression:
        text = self._text(node.this)
        places = [node.args[name] for name in ("start", "length") if node.args.get(name) is not None]
        option = tuple(self._constant_integer(each, "SUBSTRING with a position") for each in places)
        if None in option:
            return Constant(text.type, None)
        if any(each is not None and not 0 <= each < 2**32 for each in option):
            raise unsupported(self._sql, node, "SUBSTRING with a negative or huge position", "Count from the start.")
        return call("substring", text, option=(*option, None)[:2])

    def _dpipe(self, node: Any) -> Expression:
        return self._joined([node.this, node.expression], skip=False)

    def _concat(self, node: Any) -> Expression:
        return self._joined(node.expressions, skip=True)

    def _joined(self, nodes: list[Any], *, skip: bool) -> Expression:
        values = [self._text(each) for each in nodes]
        target = common_type(values) or pa.string()
        return call("concat", *(cast(each, target) for each in values), option=skip)

    def _like(self, node: Any) -> Expression:
        return self._matched(node, ignore_case=False)

    def _ilike(self, node: Any) -> Expression:
        return self._matched(node, ignore_case=True)

    def _matched(self, node: Any, *, ignore_case: bool) -> Expression:
        pattern = self(node.expression)
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            raise unsupported(self._sql, node, "LIKE with a pattern other than a constant")
        result = call("like", self._text(node.this), option=(pattern.value, ignore_case))
        return call("not", result) if node.args.get("negate") else result


def _listed(words: Any) -> str:
    return ", ".join(str(each) for each in words)


_NAMES = {
    "Window": "window functions",
    "Subquery": "subqueries within expressions",
    "Select": "subqueries within expressions",
    "Exists": "EXISTS",
    "Interval": "intervals on their own",
    "TryCast": "TRY_CAST",
    "Rollup": "ROLLUP",
    "Cube": "CUBE",
    "GroupingSets": "GROUPING SETS",
    "Escape": "LIKE with ESCAPE",
    "Order": "ORDER BY within an aggregate",
    "Var": "ORDER BY ALL",
}


def _named(node: Any) -> str:
    name = type(node).__name__
    if name in _NAMES:
        return _NAMES[name]
    if name == "Anonymous":
        return f"the function {node.name}"
    called = node.sql_name() if hasattr(node, "sql_name") else name
    return f"the function {called}"
