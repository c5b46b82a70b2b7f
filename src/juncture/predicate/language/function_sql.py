"""Functions of predicates as SQL: as `parse` reads them, and as Spark must compute them."""

from __future__ import annotations

from collections.abc import Callable

from juncture.predicate.language.nodes import Call, Literal, Node
from juncture.predicate.language.types import STRING

Write = Callable[[Node], str]
"""A function that writes an operand without its context."""


def call_sql(node: Call, write: Write) -> str:
    """Write a function that is not an operator."""
    operands = [write(each) for each in node.operands]
    match node.function:
        case "case":
            pairs = zip(operands[:-1:2], operands[1:-1:2], strict=True)
            whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {whens} ELSE {operands[-1]} END"
        case "round":
            operands.append(str(node.detail))
        case "date_trunc":
            operands.insert(0, f"'{node.detail}'")
    return f"{node.function}({', '.join(operands)})"


def guarded_sql(node: Call, write: Write) -> str | None:
    """Write a function for Spark with null in place of errors; None if the plain form suffices."""
    operands = [write(each) for each in node.operands]
    match node.function:
        case "%":
            return f"({_wide(node.operands[0], operands[0])}) % nullif({_wide(node.operands[1], operands[1])}, 0)"
        case "div":
            one, other = (f"try_cast({each} AS BIGINT)" for each in operands)
            return f"if({other} = -1L, try_subtract(0L, {one}), {one} div nullif({other}, 0L))"
        case "floor" | "ceil" if node.operands[0].type.kind == "float":
            # NaN is greater than all others.
            wide, limit = f"CAST({operands[0]} AS DOUBLE)", "9.223372036854775808E18D"
            return f"if({wide} >= -{limit} AND {wide} < {limit}, {node.function}({wide}), NULL)"
        case "like":
            pattern = write(Literal(STRING, node.detail if isinstance(node.detail, str) else ""))
            return f"({operands[0]}) LIKE {pattern}"
        case "date_trunc":
            return _date_trunc(str(node.detail), f"({operands[0]})")
        case "||":
            return f"concat({', '.join(operands)})"
    return None


def _wide(node: Node, text: str) -> str:
    return f"try_cast({text} AS BIGINT)" if node.type.kind == "integer" else text


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
