"""Functions and operators of predicates beside arithmetic and comparisons, typed as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType

from juncture.errors import SchemaError, SpecError, closest
from juncture.predicate.language import build
from juncture.predicate.language.conversions import arithmetic_nulls, converted, same_numbers, typed
from juncture.predicate.language.literals import UNIT_S
from juncture.predicate.language.nodes import Call, Function, Literal, Node
from juncture.predicate.language.types import BIGINT, BOOLEAN, DOUBLE, MAX_DIGITS, NULL, STRING, Type

UNITS = ("year", "quarter", "month", *(unit for unit in UNIT_S if unit != "nanosecond"))
"""The units of ``date_trunc``."""

_OTHER_UNITS = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}


def remainder(left: Node, right: Node) -> Node:
    """Return the remainder of a division, with the sign of the dividend; null for a zero divisor."""
    left, right = arithmetic_nulls("*", left, right)
    if not (left.type.is_number and right.type.is_number):
        raise SchemaError(
            f"{left.type} % {right.type} is not defined. Expected numbers: cast the operands first.",
            name="JN-OPERAND-TYPE",
        )
    left, right = same_numbers(left, right, divide=False)
    one, other = left.type, right.type
    if one.kind == "integer":
        target = BIGINT
    elif one.kind == "float":
        target = one
    else:
        scale = max(one.scale, other.scale)
        target = Type(
            "decimal", precision=min(one.precision - one.scale, other.precision - other.scale) + scale, scale=scale
        )
    return Call(target, "%", (left, right))


def quotient(left: Node, right: Node) -> Node:
    """Return an integer quotient, rounded toward zero; null for a zero divisor."""
    left, right = typed(left, BIGINT), typed(right, BIGINT)
    if left.type.kind != "integer" or right.type.kind != "integer":
        raise SchemaError(
            f"{left.type} div {right.type} is not defined. Expected integers: cast the operands first.",
            name="JN-OPERAND-TYPE",
        )
    return Call(BIGINT, "div", (left, right))


def joined(left: Node, right: Node) -> Node:
    """Return the concatenation of two texts; null if either is null."""
    return Call(STRING, "||", tuple(_text(each, "||") for each in (left, right)))


def like(operand: Node, pattern: Node, escape: str = "\\") -> Node:
    """Return whether a text matches a pattern, in which ``%`` is any text and ``_`` any character."""
    operand = _text(operand, "LIKE")
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise SpecError(
            "LIKE needs a constant pattern, such as 'abc%'. For a prefix from a column, use startswith(text, prefix).",
            name="JN-LIKE-PATTERN",
        )
    if len(escape) != 1 or escape in "%_":
        raise SpecError(
            f"ESCAPE {escape!r} is not a single character other than % and _. Expected for example ESCAPE '!'.",
            name="JN-LIKE-PATTERN",
        )
    parts = pattern_parts(pattern.value, escape)
    return Call(BOOLEAN, "like", (operand,), "".join(_SHOWN.get(part, part) for part in parts))


_SHOWN = MappingProxyType({"any": "%", "one": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"})


def pattern_parts(pattern: str, escape: str = "\\") -> list[str]:
    """Return the characters of a pattern, with ``"any"`` for ``%`` and ``"one"`` for ``_``."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character != escape:
            parts.append({"%": "any", "_": "one"}.get(character, character))
            continue
        escaped = next(characters, "")
        if not escaped or escaped not in ("%", "_", escape):
            raise SpecError(
                f"The pattern {pattern!r} has {escape!r} before a character other than %, _ and {escape!r}. Write it "
                "twice to match it literally.",
                name="JN-LIKE-PATTERN",
            )
        parts.append(escaped)
    return parts


def case(conditions: Sequence[Node], values: Sequence[Node], otherwise: Node | None) -> Node:
    """Return the value of the first true condition, or another value if none is true."""
    conditions = [build.truth(each, "WHEN", "condition") for each in conditions]
    results = build.in_common_type([*values, Literal(NULL, None) if otherwise is None else otherwise], "CASE")
    parts = [part for pair in zip(conditions, results, strict=False) for part in pair]
    return Call(results[0].type, "case", (*parts, results[-1]))


def _coalesce(operands: Sequence[Node]) -> Node:
    alike = build.in_common_type(operands, "coalesce")
    return Call(alike[0].type, "coalesce", tuple(alike)) if len(alike) > 1 else alike[0]


def _rounding(function: Function) -> Callable[[Sequence[Node]], Node]:
    """Return the maker of ``floor`` or ``ceil`` nodes."""

    def make(operands: Sequence[Node]) -> Node:
        operand = typed(operands[0], DOUBLE)
        kind = operand.type
        if kind.kind == "integer":
            return converted(operand, BIGINT)
        if kind.kind == "decimal":
            target = kind if kind.scale == 0 else Type("decimal", precision=kind.precision - kind.scale + 1)
            return Call(target, function, (operand,))
        if kind.kind != "float":
            raise build.undefined(function, kind, "a number")
        return Call(BIGINT, function, (operand,))

    return make


def _round(operands: Sequence[Node]) -> Node:
    operand, last = typed(operands[0], DOUBLE), operands[1]
    digits = last.value if isinstance(last, Literal) else None
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= MAX_DIGITS:
        raise SpecError(
            f"round needs a constant from 0 to {MAX_DIGITS} as its second operand, the digits after the point. Write "
            "for example round(x, 2).",
            name="JN-FUNCTION-CONSTANT",
        )
    kind = operand.type
    if kind.kind == "integer":
        return operand
    if kind.kind == "decimal":
        scale = min(kind.scale, digits)
        precision = min(kind.precision - kind.scale + 1 + scale, MAX_DIGITS)
        return Call(Type("decimal", precision=precision, scale=scale), "round", (operand,), digits)
    if kind.kind != "float":
        raise build.undefined("round", kind, "a number")
    return Call(kind, "round", (operand,), digits)


def _date_trunc(operands: Sequence[Node]) -> Node:
    unit, operand = operands[0], typed(operands[1], Type("timestamp", unit="us"))
    name = unit.value.lower() if isinstance(unit, Literal) and isinstance(unit.value, str) else None
    name = None if name is None else _OTHER_UNITS.get(name, name)
    if name not in UNITS:
        raise SpecError(
            f"date_trunc needs a constant unit as its first operand. Expected one of {', '.join(map(repr, UNITS))}.",
            name="JN-FUNCTION-CONSTANT",
        )
    if operand.type.kind != "timestamp" or operand.type.zoned:
        expected = "a timestamp without a time zone, because the start of a day depends on the zone"
        raise build.undefined("date_trunc", operand.type, f"{expected}. Cast a date to TIMESTAMP_NTZ")
    return Call(operand.type, "date_trunc", (operand,), name)


def _text(operand: Node, function: str) -> Node:
    operand = typed(operand, STRING)
    if operand.type != STRING:
        raise build.undefined(function, operand.type, "text: cast the column before the join")
    return operand


def _texts(function: Function, target: Type) -> Callable[[Sequence[Node]], Node]:
    return lambda operands: Call(target, function, tuple(_text(each, function) for each in operands))


_MAKERS: dict[str, tuple[int, int, Callable[[Sequence[Node]], Node]]] = {
    "abs": (1, 1, lambda operands: build.absolute(operands[0])),
    "ceil": (1, 1, _rounding("ceil")),
    "ceiling": (1, 1, _rounding("ceil")),
    "coalesce": (1, 1_000, _coalesce),
    "date_trunc": (2, 2, _date_trunc),
    "floor": (1, 1, _rounding("floor")),
    "greatest": (0, 1_000, partial(build.extreme, "greatest")),
    "if": (3, 3, lambda operands: case(operands[:1], operands[1:2], operands[2])),
    "least": (0, 1_000, partial(build.extreme, "least")),
    "lower": (1, 1, _texts("lower", STRING)),
    "mod": (2, 2, lambda operands: remainder(*operands)),
    "round": (1, 2, lambda operands: _round(operands if len(operands) == 2 else [*operands, Literal(BIGINT, 0)])),
    "startswith": (2, 2, _texts("startswith", BOOLEAN)),
    "upper": (1, 1, _texts("upper", STRING)),
}
FUNCTIONS = tuple(sorted([*_MAKERS, "cast", "try_cast"]))
"""The names of the functions of predicates."""


def call(name: str, operands: Sequence[Node]) -> Node:
    """Return the node of a function; raise SpecError for an unknown one, or a wrong number of operands."""
    if name.lower() not in _MAKERS:
        close = closest(name.lower(), FUNCTIONS)
        advice = f"Did you mean {close!r}?" if close else f"Expected one of {', '.join(FUNCTIONS)}."
        raise SpecError(f"Function {name!r} is unknown. {advice}", name="JN-FUNCTION-UNKNOWN")
    name = name.lower()
    least, most, make = _MAKERS[name]
    if not least <= len(operands) <= most:
        wanted = str(least) if least == most else f"{least} or more" if most > 2 else f"{least} or {most}"
        raise SpecError(
            f"{name} has {len(operands)} operand{'' if len(operands) == 1 else 's'}, but takes {wanted}.",
            name="JN-FUNCTION-OPERANDS",
        )
    return make(operands)
