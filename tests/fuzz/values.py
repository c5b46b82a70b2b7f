"""Values of columns, as ``pyarrow.array`` takes them: of times, the integers that they are.

Two columns that are to meet draw from values that most types of their kind hold. Each type has extremes besides.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import TIME_UNITS, plain_type

__all__ = ["extreme", "fitting", "pools", "position", "shared"]

NAN, INFINITY = float("nan"), float("inf")
SECOND_NS, DAY_MS = 10**9, 86_400_000
EXACT = Context(prec=100)
TEXTS = ("a", "b", "A", "aa", "", "é", "😀", "a|b", "null", "a-long-common-prefix-1", "a-long-common-prefix-2")
FINE_NS = (0, 0, 0, 0, 1, -1, 1_000, 1_000_000, 500_000_000)
TEMPORAL = (pat.is_timestamp, pat.is_duration, pat.is_time)


def is_text(data_type: pa.DataType) -> bool:
    return pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    tests = (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary)
    return any(test(data_type) for test in tests)


def is_list(data_type: pa.DataType) -> bool:
    tests = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)
    return any(test(data_type) for test in tests)


def unit_ns(data_type: pa.DataType) -> int:
    return int(1_000 ** (3 - TIME_UNITS.index(data_type.unit)))


def shared(chance: Random, data_type: pa.DataType) -> Any:
    """Return a value of the type's kind that most types of that kind hold; `fitting` makes it a value of one."""
    data_type = plain_type(data_type)
    if pat.is_integer(data_type):
        return chance.choice([0, 1, 2, 3, 4, 5, 1, 2, -1, 100])
    if pat.is_floating(data_type):
        return chance.choice([0.0, -0.0, 1.0, 2.0, 0.5, 3.0, -1.0, 2.5, 0.1, NAN, INFINITY, -INFINITY])
    if pat.is_decimal(data_type):
        return Decimal(chance.choice(["0", "1", "2", "3", "-1", "0.5", "1.5", "0.25", "100", "200", "-100", "10"]))
    if pat.is_date(data_type):
        return chance.choice([-1, 0, 1, 2, 3, 4, 19_782])
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        return chance.choice([-2, -1, 0, 1, 1, 2, 3, 4]) * SECOND_NS + chance.choice(FINE_NS)
    if pat.is_time(data_type):
        return chance.choice([0, 1, 2, 43_200]) * SECOND_NS + chance.choice([0, 0, 1_000_000, 1_000, 1])
    if pat.is_boolean(data_type):
        return chance.random() < 0.5
    if is_text(data_type) or is_bytes(data_type):
        return chance.choice(TEXTS)
    if pat.is_interval(data_type):
        return pa.MonthDayNano([chance.randint(-1, 1), chance.randint(0, 2), chance.randint(0, 1)])
    if pat.is_map(data_type):
        keys = {repr(key): key for key in (shared(chance, data_type.key_type) for _ in range(chance.randint(0, 3)))}
        return {"entries": [(key, nested(chance, data_type.item_field)) for key in keys.values()]}
    if is_list(data_type):
        size = data_type.list_size if pat.is_fixed_size_list(data_type) else chance.randint(0, 3)
        return [nested(chance, data_type.value_field) for _ in range(size)]
    if pat.is_struct(data_type):
        return tuple(nested(chance, data_type.field(i)) for i in range(data_type.num_fields))
    return None


def nested(chance: Random, field: pa.Field) -> Any:
    return None if field.nullable and chance.random() < 0.2 else shared(chance, field.type)


def fitting(value: Any, data_type: pa.DataType) -> list[Any]:
    """Return a shared value as one of a type, or nothing where the type does not hold it."""
    data_type = plain_type(data_type)
    if value is None:
        return [None]
    if pat.is_null(data_type):
        return []
    if pat.is_integer(data_type):
        least, most = limits(data_type)
        return [value] if isinstance(value, int) and least <= value <= most else []
    if pat.is_decimal(data_type):
        return [value] if isinstance(value, Decimal) and is_whole(value, data_type) else []
    if pat.is_date64(data_type):
        return [value * DAY_MS]
    if any(test(data_type) for test in TEMPORAL):
        return [value // unit_ns(data_type)] if value % unit_ns(data_type) == 0 else []
    if is_bytes(data_type):
        content = value.encode()
        return [content] if not pat.is_fixed_size_binary(data_type) or len(content) == data_type.byte_width else []
    if pat.is_map(data_type):
        entries = [
            (fitting(key, data_type.key_type), fitting(item, data_type.item_type)) for key, item in value["entries"]
        ]
        return [[(key[0], item[0]) for key, item in entries]] if all(k and i for k, i in entries) else []
    if is_list(data_type):
        items = [fitting(item, data_type.value_type) for item in value]
        is_short = pat.is_fixed_size_list(data_type) and len(items) != data_type.list_size
        return [] if is_short or not all(items) else [[item[0] for item in items]]
    if pat.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        parts = [fitting(part, field.type) for part, field in zip(value, fields, strict=True)]
        return [{field.name: part[0] for field, part in zip(fields, parts, strict=True)}] if all(parts) else []
    return [value]


def limits(data_type: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    least = -(2 ** (data_type.bit_width - 1)) if pat.is_signed_integer(data_type) else 0
    return least, least + 2**data_type.bit_width - 1


def is_whole(value: Decimal, data_type: pa.DataType) -> bool:
    """Tell whether a decimal is a whole number of a type's last digit, and not too large."""
    steps = Fraction(value) * Fraction(10) ** data_type.scale
    return steps.denominator == 1 and abs(steps) < 10**data_type.precision


def extreme(chance: Random, data_type: pa.DataType) -> Any:
    """Return a value at a limit of a type, or near one; None where there is no limit."""
    data_type = plain_type(data_type)
    if pat.is_integer(data_type):
        least, most = limits(data_type)
        inner = [value for value in (2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**53) - 1) if least <= value <= most]
        return chance.choice([least, least + 1, most - 1, most, *inner])
    if pat.is_floating(data_type):
        most, least = {16: (65504.0, 6e-8), 32: (3.4028234663852886e38, 1e-45), 64: (1.7976931348623157e308, 5e-324)}[
            data_type.bit_width
        ]
        return chance.choice([most, least, 0.1, 0.3, most / 2]) * chance.choice([1, -1])
    if pat.is_decimal(data_type):
        # Arrow makes no values of negative scale that have more digits than their type says.
        most = 10 ** (data_type.precision + min(0, data_type.scale)) - 1
        steps = chance.choice([1, most, most - 1]) * chance.choice([1, -1])
        return Decimal(steps).scaleb(-data_type.scale, EXACT)
    if pat.is_date32(data_type):
        return chance.choice([2**31 - 1, -(2**31), 2_932_896, 2_932_897, -719_162, -719_163])
    if pat.is_date64(data_type):
        return chance.choice([2**63 // DAY_MS, -(2**63) // DAY_MS + 1, 2_932_897]) * DAY_MS
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        return chance.choice([2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63, 253_402_300_800 * 1_000_000])
    if pat.is_time(data_type):
        return 86_399 * (SECOND_NS // unit_ns(data_type))
    if pat.is_fixed_size_binary(data_type):
        return chance.choice([b"\x00\x00", b"\x00\x01", b"ab", b"\xff\xff"])
    if is_bytes(data_type):
        return chance.choice([b"\x00", b"\x00\x01", b"\xff\xff"])
    if is_text(data_type):
        return chance.choice(["\x00", "�", "z" * 40])
    return None


def pools(chance: Random, left: pa.DataType, right: pa.DataType) -> tuple[list[Any], list[Any]]:
    """Return the values that a left and a right column are made of: few, most of them in both."""
    meeting = [shared(chance, chance.choice([left, right])) for _ in range(chance.choice([1, 2, 3, 4, 6]))]
    return pool(chance, left, meeting), pool(chance, right, meeting)


def pool(chance: Random, data_type: pa.DataType, meeting: list[Any]) -> list[Any]:
    """Return the values that a column is made of, some of which are given and have to fit."""
    values = [fit for value in meeting for fit in fitting(value, data_type)]
    if not values or chance.random() < 0.4:
        values += [fit for _ in range(3) for fit in fitting(shared(chance, data_type), data_type)]
    if chance.random() < 0.25:
        values += [extreme(chance, data_type) for _ in range(chance.randint(1, 2))]
    nullish = chance.random() < 0.3 or not values
    return values + [None] * nullish


def position(value: Any, data_type: pa.DataType) -> Any:
    """Return where a value lies, so that values of two types of a kind compare; None for none, and where none has."""
    data_type = plain_type(data_type)
    if value is None or value != value:
        return None
    if pat.is_date64(data_type):
        return value // DAY_MS
    if pat.is_timestamp(data_type):
        return value * unit_ns(data_type)
    has_order = pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)
    return value if has_order or pat.is_date32(data_type) else None
