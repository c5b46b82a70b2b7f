"""Small pools of values of every type, so that keys meet, ties and duplicates occur, and extremes are neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import TIME_UNITS, plain_type

INFINITY, NAN = float("inf"), float("nan")
EXACT = Context(prec=100)


def pool(data_type: pa.DataType) -> Sequence[Any]:
    """Return the values that a column of a type is made of, as `build` takes them."""
    data_type = plain_type(data_type)
    if pat.is_integer(data_type):
        signed = pat.is_signed_integer(data_type)
        least = -(2 ** (data_type.bit_width - 1)) if signed else 0
        most = least + 2**data_type.bit_width - 1
        return [
            *range(max(least, -4), 5),
            least,
            least + 1,
            most - 1,
            most,
            *(v for v in (127, 128, -129) if least <= v <= most),
        ]
    if pat.is_floating(data_type):
        common = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 2.5, 3.0, NAN, INFINITY, -INFINITY, 0.1]
        extreme = {
            16: [6e-8, 65504.0],
            32: [1e-45, 3.4028234663852886e38, 0.30000001],
            64: [5e-324, 1.7976931348623157e308, 0.3],
        }
        return common + extreme[data_type.bit_width] + [-v for v in extreme[data_type.bit_width]]
    if pat.is_decimal(data_type):
        most = 10**data_type.precision - 1
        one = 10 ** max(data_type.scale, 0)
        near = [v * one for v in range(-2, 3) if abs(v) * one < most]
        steps = [*near, *(v + 1 for v in near), *(v - 1 for v in near), most, most - 1, -most, 1 - most]
        return [Decimal(step).scaleb(-data_type.scale, EXACT) for step in steps]
    if pat.is_date(data_type):
        return [date(1970, 1, 1) + timedelta(days=day) for day in range(-3, 4)] + [
            date.min,
            date.max,
            date(2024, 2, 29),
        ]
    if pat.is_timestamp(data_type) or pat.is_duration(data_type):
        second = 1_000 ** TIME_UNITS.index(data_type.unit)
        near = [second * v for v in range(-2, 4)]
        fine = [] if second == 1 else [v + step for v in near for step in (-1, 1, second // 2)]
        return [*near, *fine, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63]
    if pat.is_time64(data_type):
        second = 1_000 ** TIME_UNITS.index(data_type.unit)
        return [0, 43_200 * second, 43_201 * second, 86_399 * second]
    if pat.is_time(data_type):
        return [time(0), time(12), time(12, 0, 1), time(23, 59, 59)]
    if pat.is_interval(data_type):
        return [pa.MonthDayNano([0, 1, 0]), pa.MonthDayNano([0, 0, 5]), pa.MonthDayNano([-1, 1, 1])]
    if pat.is_boolean(data_type):
        return [True, False]
    if pat.is_null(data_type):
        return [None]
    if pat.is_fixed_size_binary(data_type):
        return [b"\x00\x00", b"\x00\x01", b"ab", b"\xff\xff"]
    if pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_binary_view(data_type):
        return [b"", b"\x00", b"\x00\x01", b"ab", b"\xff\xff"]
    if pat.is_map(data_type):
        one, two = (1, 2) if pat.is_integer(data_type.item_type) else ("x", "")
        return [[], [("a", one)], [("a", one), ("b", None)], [("b", None), ("a", one)], [("b", two)]]
    if pat.is_fixed_size_list(data_type):
        return [[0.0, 1.0], [NAN, None], [-0.0, 1.0]]
    if pat.is_struct(data_type):
        pools = [[None, *pool(field.type)[:3], *pool(field.type)[8:10]] for field in data_type]
        names = [field.name for field in data_type]
        return [dict(zip(names, values, strict=False)) for values in zip(*stretched(pools), strict=False)]
    if pat.is_nested(data_type):
        items = [*pool(data_type.value_type), None]
        return [
            [],
            [None],
            list(items[:1]),
            list(items[:2]),
            [items[1], None],
            [items[-2], items[0]],
            list(items[8:11]),
        ]
    return ["", "a", "A", "aa", "b", "é", "😀", "�", "a|b", "null"]


def stretched(pools: list[list[Any]]) -> list[list[Any]]:
    """Repeat each list, from another item on, until all are equally long."""
    length = max(map(len, pools)) + 2
    return [[values[(i + shift) % len(values)] for i in range(length)] for shift, values in enumerate(pools)]
