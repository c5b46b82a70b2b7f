"""The types of values in predicates, the result types of operations, as in Spark, and rounding to values of a type.

Every type except floats, strings and binary counts whole *steps*: an integer is its own step, a decimal counts units of
its last digit, a date counts days, timestamps and durations count their unit. Arithmetic on steps is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import DAY_MS, DAY_S, TIME_UNITS, key_kind, plain_type
from juncture.errors import SchemaError

Real = int | Fraction | float
"""An exact number. Floats are infinities only."""

Value = bool | int | Fraction | float | str | bytes | None
"""A value of a predicate: integers, dates, timestamps and durations as whole steps, decimals as fractions."""

TypeKind = Literal[
    "null", "boolean", "integer", "float", "decimal", "string", "binary", "date", "timestamp", "duration"
]
ArithmeticOperator = Literal["+", "-", "*", "/"]

MAX_DIGITS = 38
"""The most digits of a decimal in Spark."""

_MIN_DIVISION_SCALE = 6
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_SQL_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}

TIME_STEPS: dict[str, int] = {unit: int(1_000**power) for power, unit in enumerate(TIME_UNITS)}
"""Steps per second of the units of timestamps and durations."""


@dataclass(frozen=True)
class Type:
    """The type of a value."""

    kind: TypeKind  # ``null`` is the type of a bare NULL
    bits: int = 0  # 8 to 64 of integers; 32 or 64 of floats and dates, whose days 64 bits can count in milliseconds
    precision: int = 0  # digits of decimals, in total
    scale: int = 0  # digits after the point
    unit: str = ""  # of times: s, ms, us or ns
    zoned: bool = False  # whether a timestamp is an instant, and not a reading of a clock

    @cached_property
    def is_number(self) -> bool:
        """Whether values take part in arithmetic with numbers."""
        return self.kind in ("integer", "float", "decimal")

    @cached_property
    def is_discrete(self) -> bool:
        """Whether values are whole steps, so that an open end can be closed."""
        return self.kind in ("boolean", "integer", "decimal", "date", "timestamp", "duration")

    @cached_property
    def has_arithmetic(self) -> bool:
        """Whether values have a place on the number line."""
        return self.is_discrete or self.kind == "float"

    @cached_property
    def step(self) -> Fraction | int:
        """The distance between two adjacent values of a discrete type."""
        return Fraction(1, int(10**self.scale)) if self.scale > 0 else 1

    @cached_property
    def greatest(self) -> Fraction | int:
        """The greatest value of a discrete type."""
        if self.kind == "boolean":
            return 1
        if self.kind == "decimal":
            return (int(10**self.precision) - 1) * self.step
        greatest = (1 << ((self.bits or 64) - 1)) - 1
        return greatest // DAY_MS if self.kind == "date" and self.bits == 64 else greatest

    @cached_property
    def least(self) -> Fraction | int:
        """The least value of a discrete type."""
        if self.kind in ("boolean", "decimal"):
            return 0 if self.kind == "boolean" else -self.greatest
        return -self.greatest - 1

    def __str__(self) -> str:
        if self.kind == "integer":
            return _SQL_INTEGERS[self.bits]
        if self.kind == "float":
            return "FLOAT" if self.bits == 32 else "DOUBLE"
        if self.kind == "decimal":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind == "timestamp":
            return "TIMESTAMP" if self.zoned else "TIMESTAMP_NTZ"
        if self.kind == "duration":
            return "INTERVAL DAY TO SECOND"
        return {"null": "VOID"}.get(self.kind, self.kind.upper())


NULL = Type("null")
BOOLEAN = Type("boolean")
INT = Type("integer", bits=32)
BIGINT = Type("integer", bits=64)
DOUBLE = Type("float", bits=64)
DATE = Type("date", bits=32)
STRING = Type("string")


def from_arrow(data_type: pa.DataType) -> Type | None:
    """Return the type that Spark reads from an Arrow column, unsigned integers as the next wider type; or None."""
    data_type = plain_type(data_type)
    if pat.is_unsigned_integer(data_type):
        return Type("decimal", precision=20) if data_type.bit_width == 64 else Type("integer", data_type.bit_width * 2)
    match key_kind(data_type):
        case "integer":
            return Type("integer", bits=data_type.bit_width)
        case "float":
            return Type("float", bits=max(32, data_type.bit_width))
        case "decimal" if data_type.precision <= MAX_DIGITS and 0 <= data_type.scale <= data_type.precision:
            return Type("decimal", precision=data_type.precision, scale=data_type.scale)
        case "timestamp" | "timestamp with time zone":
            return Type("timestamp", unit=data_type.unit, zoned=data_type.tz is not None)
        case "date":
            return Type("date", bits=data_type.bit_width)
        case "string" | "binary" as kind:
            return Type(kind)
    if pat.is_duration(data_type):
        return Type("duration", unit=data_type.unit)
    if pat.is_null(data_type):
        return NULL
    return BOOLEAN if pat.is_boolean(data_type) else None


def arrow_type(data_type: Type) -> pa.DataType:
    """Return the Arrow type of values of a type."""
    if data_type.kind == "integer":
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[data_type.bits]
    if data_type.kind == "float":
        return pa.float32() if data_type.bits == 32 else pa.float64()
    if data_type.kind == "decimal":
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.kind == "date":
        return pa.date32() if data_type.bits == 32 else pa.date64()
    if data_type.kind == "timestamp":
        return pa.timestamp(data_type.unit, tz="UTC" if data_type.zoned else None)
    if data_type.kind == "duration":
        return pa.duration(data_type.unit)
    plain = {"null": pa.null(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary()}
    return plain[data_type.kind]


def vector_type(data_type: Type) -> pa.DataType:
    """Return the Arrow type of the vectors of a type."""
    return pa.int64() if data_type.kind in ("integer", "date", "timestamp", "duration") else arrow_type(data_type)


def as_vector(steps: Sequence[Value], data_type: Type) -> pa.Array:
    """Return values in whole steps of their type as a vector."""
    if data_type.kind != "decimal":
        return pa.array(steps, vector_type(data_type))
    decimals = pa.array(steps, pa.decimal128(38, 0))
    return pa.Array.from_buffers(vector_type(data_type), len(decimals), decimals.buffers())


def scale_between(source: Type, target: Type) -> Fraction | int:
    """Return the number of steps of one type in a step of another, for dates, timestamps and durations."""
    times = ("date", "timestamp", "duration")
    if source.kind not in times or target.kind not in times:
        return 1
    return Fraction(_steps_per_day(target), _steps_per_day(source))


def _steps_per_day(data_type: Type) -> int:
    return 1 if data_type.kind == "date" else DAY_S * TIME_STEPS[data_type.unit]


def in_steps(value: Value, data_type: Type) -> Any:
    """Return a value in whole steps of its type, including decimals; values without steps are unchanged."""
    if data_type.kind != "decimal" or value is None:
        return value
    assert isinstance(value, int | Fraction)
    return int(value * 10**data_type.scale)


def from_steps(value: Any, data_type: Type) -> Value:
    """Return the value that `in_steps` converted."""
    return value if data_type.kind != "decimal" or value is None else Fraction(value, 10**data_type.scale)


def as_decimal(value: int | Fraction, data_type: Type) -> Decimal:
    """Return a value of a decimal type with all digits of its scale."""
    with localcontext(prec=80):
        return Decimal(int(value * 10**data_type.scale)).scaleb(-data_type.scale)


def finer(one: Type, other: Type) -> str:
    """Return the finer unit of two timestamps or durations."""
    return max(one.unit, other.unit, key=TIME_UNITS.index)


def integer_decimal(bits: int) -> Type:
    """Return the decimal that represents every integer of a width."""
    return Type("decimal", precision=_INTEGER_DIGITS[bits])


def common_decimal(one: Type, other: Type) -> Type:
    """Return the decimal that two decimals widen to."""
    scale = max(one.scale, other.scale)
    integer_digits = max(one.precision - one.scale, other.precision - other.scale)
    return _bounded(integer_digits + scale, scale)


def arithmetic_type(operator: ArithmeticOperator, left: Type, right: Type) -> Type:
    """Return the type of a sum, difference, product or quotient: 64-bit integers, and decimals by Spark's rules."""
    kinds = (left.kind, right.kind)
    if kinds == ("integer", "integer") and operator != "/":
        return BIGINT
    if kinds == ("float", "float"):
        return Type("float", bits=left.bits if operator != "/" else 64)
    if kinds == ("decimal", "decimal"):
        return _decimal_result(operator, left, right)
    if operator in ("+", "-"):
        if kinds == ("date", "integer") or (kinds == ("integer", "date") and operator == "+"):
            return left if left.kind == "date" else right
        if kinds == ("date", "date") and operator == "-":
            return Type("duration", unit="s")
        if kinds == ("timestamp", "timestamp") and operator == "-" and left.zoned == right.zoned:
            return Type("duration", unit=finer(left, right))
        if kinds == ("duration", "duration"):
            return Type("duration", unit=finer(left, right))
        if kinds == ("timestamp", "duration"):
            return Type("timestamp", unit=finer(left, right), zoned=left.zoned)
        if kinds == ("duration", "timestamp") and operator == "+":
            return Type("timestamp", unit=finer(left, right), zoned=right.zoned)
    if operator == "*" and sorted(kinds) == ["duration", "integer"]:
        return left if left.kind == "duration" else right
    raise SchemaError(
        f"{left} {operator} {right} is not defined. {_arithmetic_hint(operator, left, right)}", name="JN-OPERAND-TYPE"
    )


def _decimal_result(operator: ArithmeticOperator, left: Type, right: Type) -> Type:
    if operator == "*":
        return _bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(_MIN_DIVISION_SCALE, left.scale + right.precision + 1)
        return _bounded(left.precision - left.scale + right.scale + scale, scale)
    scale = max(left.scale, right.scale)
    integer_digits = max(left.precision - left.scale, right.precision - right.scale)
    return _bounded(integer_digits + scale + 1, scale)


def _bounded(precision: int, scale: int) -> Type:
    """Return a decimal of at most 38 digits, dropping digits after the point before those in front of it."""
    if precision <= MAX_DIGITS:
        return Type("decimal", precision=precision, scale=scale)
    new_scale = max(MAX_DIGITS - (precision - scale), min(scale, _MIN_DIVISION_SCALE))
    return Type("decimal", precision=MAX_DIGITS, scale=new_scale)


def _arithmetic_hint(operator: str, left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if kinds == {"date", "duration"}:
        return "Add whole days, such as INTERVAL 1 DAY or a number of days, or cast the date to TIMESTAMP_NTZ."
    if kinds == {"timestamp"}:
        if operator == "-":
            return "Only one of the timestamps has a time zone. Add a time zone to the other, or drop it from both."
        return "Subtract them to get the time between, or add an INTERVAL to one of them."
    if "timestamp" in kinds and kinds & {"integer", "float", "decimal"}:
        return "A number has no unit. Write an interval, such as INTERVAL 10 SECONDS."
    if "duration" in kinds and operator in ("*", "/"):
        return "A duration can be multiplied by an integer only."
    if kinds & {"string", "binary", "boolean"}:
        return "Expected numbers, dates, timestamps or durations: cast the operand first."
    return "Cast one of the operands to the type of the other first."


def exact(value: int | Fraction | float) -> Real:
    """Return a number as an exact one; infinities stay floats."""
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else Fraction(value)
    return int(value) if isinstance(value, bool) else value


def near_float(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number; infinite beyond the greatest."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if bits == 64 or not math.isfinite(number):
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def float_below(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number and not above it."""
    near = near_float(value, bits)
    return near if exact(near) <= value else next_float(near, -1, bits)


def float_above(value: Real, bits: int) -> float:
    """Return a float of a width adjacent to an exact number and not below it."""
    near = near_float(value, bits)
    return near if exact(near) >= value else next_float(near, 1, bits)


def next_float(value: float, direction: int, bits: int) -> float:
    """Return the neighbor of a float, upward or downward."""
    toward = math.inf if direction > 0 else -math.inf
    if bits == 64:
        return math.nextafter(value, toward)
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(value), np.float32(toward)))


def floor_to(value: Real, step: Real) -> Real:
    """Return the greatest multiple of a step that is not above a number."""
    if step == 1:
        return math.floor(value)
    return math.floor(Fraction(value) / step) * step


def half_up(value: Real, step: Real) -> Real:
    """Return the multiple of a step nearest to a number; of two, the one farther from zero, as in Spark."""
    half = Fraction(step) / 2
    return floor_to(value + half, step) if value >= 0 else -floor_to(half - value, step)
