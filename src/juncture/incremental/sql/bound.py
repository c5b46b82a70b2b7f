"""Expressions as DuckDB bound them, and their SQL text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from juncture.incremental.expressions import functions
from juncture.incremental.sql.binder import Json, quoted, volatile_functions

COMPARISONS = {
    "COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<", "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM", "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}  # fmt: skip
COMPARED = {sign: name for name, sign in functions.COMPARISONS.items()}
"""The compiled function of each comparison."""

_OPERATORS = {
    "OPERATOR_NOT": "not", "OPERATOR_IS_NULL": "is_null", "OPERATOR_IS_NOT_NULL": "is_not_null", "COMPARE_IN": "in",
    "COMPARE_NOT_IN": "not_in", "OPERATOR_COALESCE": "coalesce", "OPERATOR_TRY": "try", "CONJUNCTION_AND": "and",
    "CONJUNCTION_OR": "or",
}  # fmt: skip
_INFIX = {
    "+", "-", "*", "/", "//", "%", "||", "&", "|", "<<", ">>", "^", "**", "~~", "!~~", "~~*", "!~~*", "~~~", "->",
    "->>", "@>", "<@", "&&", "^@", *COMPARISONS.values(),
}  # fmt: skip


class UnreadableError(Exception):
    """A part of a plan that the reader does not know, with the part."""

    def __init__(self, what: str, part: Json | None = None, instead: str = "") -> None:
        super().__init__(what)
        self.what, self.part, self.instead = what, part, instead


@dataclass(frozen=True)
class Order:
    """A sort key."""

    value: Bound
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Bound:
    """An expression of DuckDB's plan."""

    op: str  # a function, ``ref``, ``const``, ``cast``, ``case``, ``lambda``, or its ``parameter``
    info: Json
    args: tuple[Bound, ...] = ()
    value: Any = None  # of a constant; a position, names of parameters, or whether a cast may return NULL
    data: Json | None = None
    source: Json | None = None

    @property
    def type(self) -> str:
        """The type as text."""
        return type_text(self.info)

    def walk(self) -> Iterator[Bound]:
        """Yield the expression and its parts."""
        yield self
        for each in self.args:
            yield from each.walk()


def type_text(info: Json) -> str:
    """Return a type as SQL text."""
    name, more = info["id"], info.get("type_info") or {}
    if more.get("alias"):
        return str(more["alias"])
    if name == "DECIMAL":
        return f"DECIMAL({more['width']},{more['scale']})"
    if name == "LIST":
        return f"{type_text(more['child_type'])}[]"
    if name == "ARRAY":
        return f"{type_text(more['child_type'])}[{more['size']}]"
    if name == "MAP":
        key, value = (type_text(each["second"]) for each in more["child_type"]["type_info"]["child_types"])
        return f"MAP({key}, {value})"
    if name == "STRUCT":
        fields = (f"{quoted(each['first'])} {type_text(each['second'])}" for each in more["child_types"])
        return f"STRUCT({', '.join(fields)})"
    if name == "ENUM":
        return f"ENUM({', '.join(map(_text_literal, more['values']))})"
    return '"NULL"' if name in ("NULL", "SQLNULL") else str(name)


BOOLEAN: Json = {"id": "BOOLEAN", "type_info": None}


def read(part: Json, scope: Sequence[Bound] | None = None) -> Bound:
    """Return an expression of a plan; raises `UnreadableError`. ``scope`` has parameters and captures of lambdas."""
    kind, operator = part["expression_class"], part["type"]
    info = part.get("return_type") or BOOLEAN
    name = function_name(part)
    if kind == "BOUND_REF":
        index = part.get("index", 0)
        if scope is None:
            return Bound("ref", info, value=index, source=part)
        return replace(scope[index], info=info)
    if kind == "BOUND_CONSTANT":
        return _constant(part)
    children = part.get("children") or []
    if any(each["expression_class"] == "BOUND_LAMBDA" for each in children):
        return Bound(name, info, _with_lambda(children, len(part["arguments"]), scope), source=part)
    args = tuple(read(each, scope) for each in children)
    if name == "__cast":
        return Bound("cast", info, args, bool(part["function_data"].get("try_cast")), source=part)
    if operator in COMPARISONS:
        return Bound(COMPARISONS[operator], BOOLEAN, args, source=part)
    if kind == "BOUND_CASE":
        branches = [read(each[name], scope) for each in part["case_checks"] for name in ("when_expr", "then_expr")]
        return Bound("case", info, (*branches, read(part["else_expr"], scope)), source=part)
    if operator in _OPERATORS:
        return Bound(_OPERATORS[operator], info, args, source=part)
    if kind == "BOUND_FUNCTION" and name:
        return Bound(name, info, args, data=part.get("function_data"), source=part)
    raise UnreadableError(f"the expression {kind.removeprefix('BOUND_').replace('_', ' ')}", part)


def _with_lambda(children: Sequence[Json], count: int, scope: Sequence[Bound] | None) -> tuple[Bound, ...]:
    """Return the arguments of a function of a lambda. Children after ``count`` are the values that it captures."""
    captures = [read(each, scope) for each in children[count:]]
    args = []
    for each in children[:count]:
        if each["expression_class"] != "BOUND_LAMBDA":
            args.append(read(each, scope))
            continue
        # Names differ from those of parameters of outer lambdas that are captured.
        first = max((int(value.value[1:]) + 1 for value in captures if value.op == "parameter"), default=0)
        names = [f"x{first + number}" for number in range(each["parameter_count"])]
        # The body numbers the parameters from the last to the first, and then the captured values.
        inner = [*(Bound("parameter", BOOLEAN, value=name) for name in reversed(names)), *captures]
        body = read(each["lambda_expr"], inner)
        args.append(Bound("lambda", body.info, (body,), names))
    return tuple(args)


def read_orders(parts: Sequence[Json] | None) -> list[Order]:
    """Return the sort keys of a plan."""
    return [
        Order(read(each["expression"]), each["type"] == "DESCENDING", each["null_order"] == "NULLS FIRST")
        for each in parts or ()
    ]


def function_name(part: Json) -> str:
    """Return the name of the function of an expression; empty for others."""
    path = (part.get("qname") or {}).get("path") or [part.get("name") or ""]
    return str(path[-1])


def _constant(part: Json) -> Bound:
    value = part["value"]
    info = value["type"]
    content = None if value.get("is_null") else value.get("value")
    if isinstance(content, dict) and "upper" in content:
        content = (content["upper"] << 64) + content["lower"]
    return Bound("const", info, value=content, source=part)


def decimal_text(units: int, scale: int) -> str:
    """Return an integer in units of the last digit as a decimal number."""
    digits = str(abs(units)).rjust(scale + 1, "0")
    return "-" * (units < 0) + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def called(name: str, arguments: Sequence[str], source: Json | None) -> str:
    """Return a call in SQL without its end; raises `UnreadableError` if it depends on more than its arguments."""
    known_as = "age of one argument" if name == "age" and len(arguments) == 1 else name
    if known_as in volatile_functions():
        raise UnreadableError(f"the function {known_as}, whose value depends on more than its arguments", source)
    return f"{name if name in ('coalesce', 'try') else quoted(name)}({', '.join(arguments)}"


def _text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text(bound: Bound, column: Callable[[int], str]) -> str:
    """Return the SQL of an expression, with ``column`` for references."""
    args = [text(each, column) for each in bound.args]
    name = bound.op
    if name == "ref":
        return column(bound.value)
    if name == "const":
        return _constant_text(bound)
    if name == "parameter":
        return str(bound.value)
    if name == "lambda":
        return f"lambda {', '.join(bound.value)}: {args[0]}"
    if name == "cast":
        return f"{'TRY_' if bound.value else ''}CAST({args[0]} AS {bound.type})"
    if name == "case":
        branches = " ".join(f"WHEN {one} THEN {two}" for one, two in zip(args[:-1:2], args[1:-1:2], strict=True))
        return f"CASE {branches} ELSE {args[-1]} END"
    if name in ("and", "or"):
        return f"({f' {name.upper()} '.join(args)})"
    if name in ("in", "not_in"):
        return f"({args[0]} {'NOT ' * (name == 'not_in')}IN ({', '.join(args[1:])}))"
    if name in ("is_null", "is_not_null"):
        return f"({args[0]} IS {'NOT ' * (name == 'is_not_null')}NULL)"
    if name == "not":
        return f"(NOT {args[0]})"
    if name in _INFIX and len(args) == 2:
        # Decimals that are bound again would become wider.
        both = f"({args[0]} {name} {args[1]})"
        return f"CAST({both} AS {bound.type})" if bound.type.startswith("DECIMAL") else both
    if name in ("-", "+", "~") and len(args) == 1:
        return f"({name}{args[0]})"
    if name == "struct_pack":
        fields = bound.info["type_info"]["child_types"]
        return "{" + ", ".join(f"{_text_literal(f['first'])}: {a}" for f, a in zip(fields, args, strict=True)) + "}"
    return f"{called(name, args, bound.source)})"


def _constant_text(bound: Bound) -> str:
    value, name = bound.value, bound.info["id"]
    if value is None:
        return "NULL" if bound.type == '"NULL"' else f"CAST(NULL AS {bound.type})"
    if name == "DECIMAL":
        value = decimal_text(value, bound.info["type_info"]["scale"])
    if name in _PHYSICAL and isinstance(value, int):
        if (name == "DATE" and abs(value) == 2**31 - 1) or abs(value) == 2**63 - 1:
            value = "infinity" if value > 0 else "-infinity"
            return f"CAST('{value}' AS {bound.type})"
        return f"CAST({_PHYSICAL[name].format(value)} AS {bound.type})"
    if name == "INTERVAL" and isinstance(value, dict):
        months, days, micros = (value.get(each, 0) for each in ("months", "days", "micros"))
        seconds = f"to_microseconds({micros})" if micros % 10**6 else f"to_seconds({micros // 10**6})"
        parts = [f"to_months({months})" * bool(months), f"to_days({days})" * bool(days), seconds * bool(micros)]
        text = " + ".join(filter(None, parts)) or "to_days(0)"
        return f"({text})" if "+" in text else text
    if name == "LIST" and isinstance(value, dict):
        child = bound.info["type_info"]["child_type"]
        values = [each if "type" in each else {"type": child} | each for each in value.get("children", [])]
        texts = [_constant_text(_constant({"value": each})) for each in values]
        return f"CAST([{', '.join(texts)}] AS {bound.type})"
    if isinstance(value, dict | list):
        raise UnreadableError(f"a constant of type {bound.type}", bound.source)
    return f"CAST({_text_literal(str(value))} AS {bound.type})"


_PHYSICAL = {
    "DATE": "(DATE '1970-01-01' + {})",
    "TIME": "(TIME '00:00:00' + to_microseconds({}))",
    "TIMESTAMP": "make_timestamp({})",
    "TIMESTAMP_NS": "make_timestamp_ns({})",
    "TIMESTAMP_MS": "make_timestamp_ms({})",
    "TIMESTAMP_S": "make_timestamp({} * 1000000)",
    "TIMESTAMP WITH TIME ZONE": "timezone('UTC', make_timestamp({}))",
}
"""The SQL of constants that DuckDB computed, from the number that it stores."""
