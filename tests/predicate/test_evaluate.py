from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from juncture.predicate.evaluate import evaluate
from juncture.predicate.types import Type, arrow_type
from predicate import naive
from predicate.strategies import SCHEMA, expressions, predicates, rows


def stored(value, data_type: pa.DataType):
    if isinstance(value, Fraction) or pa.types.is_decimal(data_type):
        with localcontext(prec=80):
            scale = data_type.scale if pa.types.is_decimal(data_type) else 0
            number = Decimal(int(value * 10**scale)).scaleb(-scale)
        return number if pa.types.is_decimal(data_type) else int(number)
    return value


def table(node_rows, side) -> pa.Table:
    arrays = {}
    for field in SCHEMA:
        names = [{key.name: value for key, value in row.items() if key.side == side} for row in node_rows]
        cells = [row.get(field.name) for row in names]
        values = [None if cell is None else stored(cell, field.type) for cell in cells]
        if pa.types.is_date(field.type):
            arrays[field.name] = pa.array(values, pa.int32()).cast(field.type)
        elif pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type):
            arrays[field.name] = pa.array(values, pa.int64()).cast(field.type)
        else:
            arrays[field.name] = pa.array(values, field.type)
    return pa.table(arrays)


def same(got, expected) -> bool:
    if isinstance(got, float) and isinstance(expected, float):
        return got == expected or (math.isnan(got) and math.isnan(expected))
    return got == expected and (got is None) == (expected is None)


def plain(array: pa.Array, data_type: Type) -> list:
    if data_type.kind == "date":
        array = array.cast(pa.int32())
    elif data_type.kind in ("timestamp", "duration"):
        array = array.cast(pa.int64())
    return [Fraction(value) if isinstance(value, Decimal) else value for value in array.to_pylist()]


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_vectors_agree_with_rows(data):
    group = data.draw(st.sampled_from(["number", "time"]))
    node = data.draw(st.one_of(predicates(), expressions(group, 3)))
    pairs = data.draw(st.lists(rows(node), min_size=0, max_size=6))
    got = evaluate(node, table(pairs, "left"), table(pairs, "right"))
    assert got.type == arrow_type(node.type)
    for value, row in zip(plain(got, node.type), pairs, strict=True):
        expected = naive.evaluate(node, row)
        assert same(value, expected), f"{value!r} is not {expected!r}"
