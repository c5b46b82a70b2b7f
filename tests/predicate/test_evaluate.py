from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.columnar.types import DAY_MS
from juncture.errors import SpecError
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.language.parse import parse, parse_expression
from juncture.predicate.language.types import Type, arrow_type
from predicate import naive
from predicate.strategies import SCHEMA, encodings, expressions, predicates, rows


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
        if pa.types.is_date32(field.type):
            arrays[field.name] = pa.array(values, pa.int32()).cast(field.type)
        elif pa.types.is_date64(field.type):
            starts = [None if value is None else max(value * DAY_MS, -(2**63)) for value in values]
            arrays[field.name] = pa.array(starts, pa.int64()).cast(field.type)
        elif pa.types.is_null(field.type):
            arrays[field.name] = pa.nulls(len(values))
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
    if pa.types.is_date64(array.type):
        return [None if value is None else value // DAY_MS for value in array.cast(pa.int64()).to_pylist()]
    if data_type.kind == "date":
        array = array.cast(pa.int32())
    elif data_type.kind in ("timestamp", "duration"):
        array = array.cast(pa.int64())
    return [Fraction(value) if isinstance(value, Decimal) else value for value in array.to_pylist()]


def encoded(draw, rows: pa.Table) -> pa.Table:
    """The same rows, with a column or two in another encoding."""
    for name in draw(st.lists(st.sampled_from(SCHEMA.names), max_size=2, unique=True)):
        column = pa.concat_arrays(rows[name].chunks) if rows.num_rows else pa.array([], rows[name].type)
        rows = rows.set_column(rows.column_names.index(name), name, draw(st.sampled_from(encodings(column))))
    return rows


@settings(max_examples=10 * settings.default.max_examples)
@given(st.data())
def test_vectors_agree_with_rows(data):
    group = data.draw(st.sampled_from(["number", "time"]))
    node = data.draw(st.one_of(predicates(), expressions(group, 3)))
    pairs = data.draw(st.lists(rows(node), min_size=0, max_size=6))
    got = evaluate(node, *(encoded(data.draw, table(pairs, side)) for side in ("left", "right")))
    assert got.type == arrow_type(node.type)
    for value, row in zip(plain(got, node.type), pairs, strict=True):
        expected = naive.evaluate(node, row)
        assert same(value, expected), f"{value!r} is not {expected!r}"


ROWS = pa.table(
    {
        "i": pa.array([1, None, 2**63 - 1, -(2**63)], pa.int64()),
        "f": pa.array([0.0, float("nan"), float("inf"), None]),
        "d": pa.array([Decimal("1.50"), None, Decimal("-99999.99"), Decimal("0.00")], pa.decimal128(7, 2)),
        "s": pa.array(["a", "b", None, "c"]),
        "t": pa.array([0, 10**9, None, 2**62], pa.timestamp("s")),
        "n": pa.array([0, 10**18, 5, 2**62], pa.timestamp("ns")),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l.i + 1", [2, None, None, -(2**63) + 1]),
        ("-l.i", [-1, None, -(2**63) + 1, None]),
        ("abs(l.i)", [1, None, 2**63 - 1, None]),
        ("l.i * 2", [2, None, None, None]),
        ("1 / l.f", [None, math.nan, 0.0, None]),
        ("l.f = cast('nan' as double)", [False, True, False, None]),
        ("l.f > 1e308", [False, True, True, None]),
        ("least(l.f, 1)", [0.0, 1.0, 1.0, 1.0]),
        ("greatest(l.f, 1)", [1.0, math.nan, math.inf, 1.0]),
        ("l.d / 3", ["0.50000000", None, "-33333.33000000", "0E-8"]),
        ("cast(l.d as decimal(3, 1))", ["1.5", None, None, "0.0"]),
        ("cast(l.d as int)", [1, None, -99999, 0]),
        ("cast(l.f as int)", [0, None, None, None]),
        ("l.s in ('a', 'c', 'x', 'y', 'z', null)", [True, None, None, True]),
        ("l.s in ('a', 'c', 'x', 'y', 'z')", [True, False, None, True]),
        ("l.s is null or l.s <=> null", [False, False, True, False]),
        ("l.t > l.n", [False, False, None, True]),
        ("l.t = l.n", [True, True, None, False]),
        ("l.t - l.n > interval 1 second", [False, False, None, None]),
        ("l.s > 'a' and l.i > 0", [False, None, None, False]),
        ("TRUE", [True] * 4),
        ("NULL", [None] * 4),
    ],
)
def test_what_happens_at_the_limits(text, expected):
    node = parse_expression(text, ROWS.schema, ROWS.schema)
    if node.type.kind == "null":
        node = parse(text, ROWS.schema, ROWS.schema)
    got = evaluate(node, ROWS).to_pylist()
    wanted = [Decimal(value) if isinstance(value, str) else value for value in expected]
    assert all(same(value, other) for value, other in zip(got, wanted, strict=True)), got


def test_any_encoding_and_chunks():
    plain = pa.table({"s": ["a", None, "b", "a"], "i": pa.array([3, 3, 3, None], pa.int8())})
    node = parse("l.s = 'a' AND l.i = r.i", plain.schema, plain.schema)
    expected = evaluate(node, plain, plain).to_pylist()
    assert expected == [True, None, False, None]
    coded = plain.set_column(0, "s", plain["s"].dictionary_encode())
    runs = plain.set_column(1, "i", pc.run_end_encode(plain["i"].combine_chunks()))
    chunks = pa.concat_tables([plain.slice(0, 1), plain.slice(1, 0), plain.slice(1, 3)])
    wide = plain.cast(pa.schema({"s": pa.large_string(), "i": pa.uint16()}))
    for table in (coded, runs, chunks, wide, plain.to_batches()[0]):
        assert (
            evaluate(parse("l.s = 'a' AND l.i = r.i", table.schema, plain.schema), table, plain).to_pylist() == expected
        )
    assert matches(node, plain, plain).to_pylist() == [True, False, False, False]
    assert matches(node, plain.slice(0, 0), plain.slice(0, 0)).to_pylist() == []


def test_nulls_without_a_type_in_columns_of_one():
    node = parse("l.v < r.v OR l.v IS NULL", *(pa.schema([("v", data_type)]) for data_type in (pa.null(), pa.int64())))
    left, right = pa.table({"v": pa.nulls(2, pa.int8())}), pa.table({"v": [1, None]})
    assert evaluate(node, left, right).to_pylist() == [True, True]


def test_slices_of_decimals_become_floats_at_their_place():
    prices = pa.table({"d": pa.array([Decimal(f"{value}.25") for value in range(9)], pa.decimal128(9, 2))})
    node = parse_expression("l.d * 2.0D", prices.schema, prices.schema)
    assert evaluate(node, prices.slice(3, 2)).to_pylist() == [6.5, 8.5]


def test_rows_have_to_pair_up():
    table = pa.table({"a": [1, 2]})
    node = parse("l.a = r.a", table.schema, table.schema)
    with pytest.raises(SpecError, match=r"left= and right= have \[1, 2\] rows"):
        evaluate(node, table, table.slice(1))
    with pytest.raises(SpecError, match="reads the right table"):
        evaluate(node, table)
