from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from juncture.errors import JunctureError, SchemaError, SpecError
from juncture.predicate.intervals.graph import Graph
from juncture.predicate.language.nodes import columns
from juncture.predicate.language.parse import parse
from juncture.predicate.language.python_values import python_value
from juncture.predicate.language.sql import to_sql
from predicate import naive
from predicate.strategies import SCHEMA, conditions, predicates, rows


def test_the_equation_of_the_article():
    """x² + y = 4 with x in [1, 2] and y in [-3, 1]."""
    real = jn.bounds("l.x * l.x + l.y = 4", l={"x": (1.0, 2.0), "y": (-3.0, 1.0)})
    assert real.feasible
    # The article's rules leave [1.5, 2] and [0, 1]; since both factors are the same column, x is its square root.
    assert real.l["x"].lower == pytest.approx(3**0.5)
    assert real.l["x"].lower <= 3**0.5
    assert real.l["x"].upper == 2.0
    assert -1e-15 < real.l["y"].lower <= 0.0
    assert real.l["y"].upper == 1.0
    whole = jn.bounds("l.x * l.x + l.y = 4", l={"x": (1, 2), "y": (-3, 1)})
    assert repr(whole) == "Bounds(l.x in [2, 2], l.y in [0, 0])"
    apart = jn.bounds("l.x * l.z + l.y = 4", l={"x": (1, 2), "z": (1, 2), "y": (-3, 1)})
    assert repr(apart) == "Bounds(l.x in [2, 2], l.z in [2, 2], l.y in [0, 0])"


def test_the_sliding_window_of_the_article():
    """The left from 1 on, the right from 6 on: left rows up to 3 are done, all right rows stay."""
    query = "l.left_key = r.right_key AND l.a > r.b - 3 AND l.a < r.b + 10"
    assert repr(jn.bounds(query, l={"a": (1, None)}, r={"b": (6, None)})) == "Bounds(l.a in [4, ∞), r.b in [6, ∞))"
    real = jn.bounds(query, l={"a": (1.0, None)}, r={"b": (6.0, None)})
    assert (real.l["a"].lower, real.l["a"].lower_open) == (3.0, True)
    assert repr(jn.bounds(query, l={"a": (20, None)}, r={"b": (6, None)})) == "Bounds(l.a in [20, ∞), r.b in [11, ∞))"
    latest = jn.bounds(
        "l.left_sorted > r.right_sorted - 3", l={"left_sorted": (None, None)}, r={"right_sorted": (1234, None)}
    )
    assert latest.l["left_sorted"].lower == 1231


def test_the_sum_of_the_article():
    query = "l.k = r.k AND l.left_1 + l.left_2 > r.s - 3 AND l.left_1 + l.left_2 < r.s + 10"
    found = jn.bounds(query, l={"left_1": (1, None), "left_2": (0, 4)}, r={"s": (30, 40)})
    assert repr(found) == "Bounds(l.left_1 in [24, 49], l.left_2 in [0, 4], r.s in [30, 40])"
    benchmark = "l.s + 1 > r.s + 5 AND l.s + 3 < r.s + 10"
    assert not jn.bounds(benchmark, l={"s": (0, 9)}, r={"s": (5, None)}).feasible
    assert repr(jn.bounds(benchmark, l={"s": (0, 20)}, r={"s": (5, None)})) == "Bounds(l.s in [10, 20], r.s in [5, 15])"


def test_the_watermark_of_the_article():
    """left_time > right_time - 8 min, and the right side's watermark is at 12:34."""
    query = "l.left_time > r.right_time - INTERVAL 8 MINUTES"
    found = jn.bounds(query, r={"right_time": (datetime(2024, 1, 1, 12, 34), None)})
    assert found.l["left_time"].lower == datetime(2024, 1, 1, 12, 26, 0, 1)


@pytest.mark.parametrize(
    ("query", "l", "r", "expected"),
    [
        ("a > b", {"a": (5, 7)}, {"b": (1, 20)}, "l.a in [5, 7], r.b in [1, 6]"),
        ("l.a = r.b", {"a": (5, 7)}, {"b": (6, 20)}, "l.a in [6, 7], r.b in [6, 7]"),
        ("l.a <> 5", {"a": (5, 7)}, {}, "l.a in [6, 7]"),
        ("l.a IN (3, 6, 40)", {"a": (5, 70)}, {}, "l.a in [6, 40]"),
        ("abs(l.a - r.b) <= 2", {"a": (5, 7)}, {"b": (1, 200)}, "l.a in [5, 7], r.b in [3, 9]"),
        ("l.a BETWEEN 3 AND 6 OR l.a BETWEEN 9 AND 10", {"a": (4, 100)}, {}, "l.a in [4, 10]"),
        ("NOT (l.a < 6 OR l.a > 8)", {"a": (4, 100)}, {}, "l.a in [6, 8]"),
        ("l.a / 2 > 3", {"a": (1, 10)}, {}, "l.a in [6, 10]"),
        ("l.a * r.b = 12", {"a": (2, 3)}, {"b": (1, 100)}, "l.a in [2, 3], r.b in [4, 6]"),
        ("least(l.a, r.b) >= 4", {"a": (2, 9)}, {"b": (1, 5)}, "l.a in [4, 9] or null, r.b in [4, 5] or null"),
        ("l.s >= 'b'", {"s": ("a", "c")}, {}, "l.s in ['b', 'c']"),
        (
            "least(l.s, r.t) >= 'b'",
            {"s": ("a", "c")},
            {"t": (None, "k")},
            "l.s in ['b', 'c'] or null, r.t in ['b', 'k'] or null",
        ),
        ("greatest(l.s, 'b') < 'd'", {"s": ("a", None)}, {}, "l.s in ['a', 'd') or null"),
        (
            "l.x = least(r.y, X'0102')",
            {"x": (b"\x01", None)},
            {"y": (b"\x01", None)},
            "l.x in [b'\\x01', b'\\x01\\x02'], r.y in [b'\\x01', ∞) or null",
        ),
        # Beyond half of what 64 bits hold.
        (
            "l.a < r.b",
            {"a": (-(2**63) + 9, None)},
            {"b": (None, 2**63 - 9)},
            f"l.a in [{-(2**63) + 9}, {2**63 - 10}], r.b in [{-(2**63) + 10}, {2**63 - 9}]",
        ),
        ("l.a + 5 < r.b", {"a": (2**62, None)}, {"b": (0, None)}, f"l.a in [{2**62}, ∞), r.b in [{2**62 + 6}, ∞)"),
        ("l.a + 1 < r.b", {"a": (2**63 - 1, None)}, {}, "infeasible: no rows match"),
        (
            "l.at > r.start",
            {"at": (None, np.datetime64("2250-01-01T00:00:00.000000002"))},
            {"start": (np.datetime64("1700-01-01T00:00:00.000000002"), None)},
            (
                "l.at in [1700-01-01 00:00:00.000000003, 2250-01-01 00:00:00.000000002], "
                "r.start in [1700-01-01 00:00:00.000000002, 2250-01-01 00:00:00.000000001]"
            ),
        ),
        ("l.ok", {"ok": (False, True)}, {}, "l.ok in {true}"),
        ("l.p * 2 < 3.30", {"p": (Decimal("0.05"), None)}, {}, "l.p in [0.05, 1.64]"),
        ("l.d > date '2024-01-01'", {"d": (date(2023, 5, 1), date(2024, 5, 1))}, {}, "l.d in [2024-01-02, 2024-05-01]"),
        (
            "l.at <= r.d + INTERVAL 1 DAY",
            {"at": (datetime(2024, 1, 5, tzinfo=UTC), None)},
            {"d": (datetime(2024, 1, 1, tzinfo=UTC), None)},
            "l.at in [2024-01-05 00:00:00Z, ∞), r.d in [2024-01-04 00:00:00Z, ∞)",
        ),
        (
            "l.w < INTERVAL 2 HOURS",
            {"w": (timedelta(minutes=1), None)},
            {},
            "l.w in [1 minute, 1 hour 59 minutes 59.999999 seconds]",
        ),
    ],
)
def test_what_is_left(query, l, r, expected):  # noqa: E741
    assert repr(jn.bounds(query, l=l, r=r)) == f"Bounds({expected})"


@pytest.mark.parametrize(
    ("query", "l", "r"),
    [
        ("l.a > r.b", {"a": (1, 5)}, {"b": (5, None)}),
        ("l.a > r.b AND r.b > l.a", {"a": (1, 40)}, {"b": (1, 40)}),
        ("l.a = 3 OR l.a = 4", {"a": (5, None)}, {}),
        ("l.a * l.a < 0", {}, {}),
        ("l.a = NULL", {}, {}),
        ("l.a IS NULL AND l.a > 3", {}, {}),
        ("FALSE", {}, {}),
    ],
)
def test_infeasible(query, l, r):  # noqa: E741
    found = jn.bounds(query, l=l, r=r)
    assert not found.feasible
    assert not found.certain
    assert all(part.empty for part in (*found.l.values(), *found.r.values()))
    assert repr(found) == "Bounds(infeasible: no rows match)"


def test_certain_only_without_nulls():
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    sure = jn.bounds("l.a < 9", l={"a": (1, 5)}, left_schema=schema)
    assert sure.certain
    assert repr(sure) == "Bounds(l.a in [1, 5], certain: all rows match)"
    assert not jn.bounds("l.a < 9", l={"a": (1, 5)}).certain


def test_nan_is_greater_than_any_number():
    assert jn.bounds("l.x > 3", l={"x": (1.0, None)}).l["x"].may_be_nan
    assert not jn.bounds("l.x > 3", l={"x": (1.0, 9.0)}).l["x"].may_be_nan
    assert not jn.bounds("l.x < 3", l={"x": (1.0, None)}).l["x"].may_be_nan
    # The right may be NaN, so the left is not limited by it.
    assert jn.bounds("l.x < r.y", r={"y": (1.0, None)}).l.get("x") is None


def test_types_from_schemas():
    left, right = (
        pa.schema({"a": pa.int32(), "x": pa.float32()}),
        pa.schema({"b": pa.decimal128(6, 2), "u": pa.uint8()}),
    )
    found = jn.bounds(
        "l.a >= r.b AND l.x < r.u", l={"a": (1.5, 9)}, r={"b": (3, 4)}, left_schema=left, right_schema=right
    )
    assert repr(found.l["a"]) == "[3, 9]"
    assert found.r["b"].upper == Decimal("4.00")


@pytest.mark.parametrize(
    ("condition", "data_type", "expected"),
    [
        ("l.x > r.x", pa.int8(), ("[-127, ∞)", "(-∞, 126]")),
        ("l.x > r.x + 300", pa.uint8(), ("[-32467, ∞)", "(-∞, 32466]")),
        ("l.x - r.x >= 250", pa.int8(), ("[122, ∞)", "(-∞, -123]")),
        ("l.x > r.x", pa.int64(), ("(-∞, ∞)", "(-∞, ∞)")),
        ("l.x > r.x", pa.decimal128(3, 1), ("[-99.8, ∞)", "(-∞, 99.8]")),
    ],
)
def test_narrow_types_limit_what_is_left(condition, data_type, expected):
    schema = pa.schema([("x", data_type)])
    found = jn.bounds(condition, left_schema=schema, right_schema=schema)
    assert (str(found.l["x"]), str(found.r["x"])) == expected


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"predicate": "l.a >"}, SpecError, "cannot be read"),
        ({"predicate": "l.a > 3", "l": [1]}, SpecError, "l=[1] is not a mapping"),
        ({"predicate": "l.a > 3", "l": {"a": (1, 2, 3)}}, SpecError, "is not a bound"),
        ({"predicate": "l.a > 3", "l": {"a": (5, 1)}}, SpecError, "Pass a lower end that is not above the upper end"),
        ({"predicate": "l.a > 3", "l": {"a": (1, "x")}}, SpecError, "ends of two types, BIGINT and STRING"),
        ({"predicate": "l.a > 3", "l": {"a": (float("nan"), 1.0)}}, SpecError, "NaN"),
        ({"predicate": "l.a > 3", "l": {"a": (object(), 1)}}, SpecError, "has the bound <object"),
        (
            {"predicate": "l.a > 3", "l": {"aa": (1, 2)}},
            SchemaError,
            "is not a column in the predicate. Did you mean 'a'?",
        ),
        ({"predicate": "l.a > r.b", "l": {"a": (1, 2)}, "r": {"b": ("x", None)}}, SchemaError, "do not compare"),
        (
            {"predicate": "l.a > 3", "l": {"b": 1}, "left_schema": pa.schema({"a": pa.int8()})},
            SchemaError,
            "l['b'] is not a column of the left table",
        ),
        (
            {"predicate": "l.a > 3", "l": {"a": ("x", None)}, "left_schema": pa.schema({"a": pa.int8()})},
            SchemaError,
            "the column is TINYINT",
        ),
    ],
)
def test_bad_input(arguments, error, said):
    with pytest.raises(error) as caught:
        jn.bounds(**arguments)
    assert said in str(caught.value)


def test_stopping_early_is_sound():
    """Two comparisons that squeeze each other a step per round, for longer than propagation goes on."""
    found = jn.bounds("l.a > r.b AND r.b > l.a", l={"a": (1, 10**6)}, r={"b": (1, 10**6)})
    assert found.feasible
    assert 1 <= found.l["a"].lower <= found.l["a"].upper <= 10**6


FUNCTIONS = [
    ("floor(l.x) = 3", pa.decimal128(7, 2), "[3.00, 3.99]"),
    ("floor(l.x) BETWEEN -2 AND 3", pa.decimal128(7, 2), "[-2.00, 3.99]"),
    ("ceil(l.x) = 3", pa.decimal128(7, 2), "[2.01, 3.00]"),
    ("ceil(l.x) < 3", pa.int64(), "(-∞, 2]"),
    ("round(l.x, 1) = 2.5", pa.decimal128(7, 2), "[2.40, 2.60]"),
    ("l.x div 10 = 3", pa.int64(), "[30, 39]"),
    ("l.x div 10 = 0", pa.int64(), "[-9, 9]"),
    ("l.x div 10 <= -2", pa.int64(), "(-∞, -20]"),
    ("l.x % 10 > 12", pa.int64(), "nothing"),
    ("coalesce(l.x, 0) > 5", pa.int64(), "[6, ∞)"),
    ("coalesce(l.x, 7) > 5", pa.int64(), "[6, ∞) or null"),
    ("coalesce(l.x, 7) IS NULL", pa.int64(), "nothing"),
    ("CASE WHEN l.x > 0 THEN 1 ELSE 2 END > 2", pa.int64(), "nothing"),
    (
        "date_trunc('hour', l.x) = '2024-01-01 05:00:00'",
        pa.timestamp("s"),
        "[2024-01-01 05:00:00, 2024-01-01 06:00:00]",
    ),
    ("l.x LIKE 'abc%'", pa.string(), "['abc', 'abd')"),
    ("l.x LIKE 'a!%%' ESCAPE '!'", pa.string(), "['a%', 'a&')"),
    ("l.x LIKE '%a'", pa.string(), "(-∞, ∞)"),
    ("startswith(l.x, 'ab')", pa.string(), "['ab', 'ac')"),
    ("NOT startswith(l.x, 'ab')", pa.string(), "(-∞, ∞)"),
]


@pytest.mark.parametrize(("condition", "data_type", "expected"), FUNCTIONS)
def test_functions_that_keep_the_order_of_values(condition, data_type, expected):
    node = parse(condition, pa.schema([("x", data_type)]), pa.schema([]))
    [column] = columns(node)
    assert str(Graph(node).shrink({}).columns[column]) == expected


def ends(data, column, values):
    """A pair of ends around some values of a column, as a caller writes them; None for what has no end."""
    known = [value for value in values if value is not None]
    is_nan = any(value != value for value in known)
    if not known or is_nan:
        return None, None
    lower = python_value(min(known), column.type, up=False) if data.draw(st.booleans()) else None
    upper = python_value(max(known), column.type, up=True) if data.draw(st.booleans()) else None
    return lower, upper


@settings(max_examples=8 * settings.default.max_examples)
@given(st.data())
def test_no_row_that_matches_is_left_out(data):
    node = data.draw(predicates())
    row, other = data.draw(rows(node)), data.draw(rows(node))
    try:
        text = to_sql(node)
        parse(text, SCHEMA, SCHEMA)
    except SpecError:
        # Dates beyond the calendar cannot be written.
        assume(False)
    given = {side: {} for side in ("left", "right")}
    for column in row:
        given[column.side][column.name] = ends(data, column, [row[column], other[column]])
    found = jn.bounds(text, given["left"], given["right"], left_schema=SCHEMA, right_schema=SCHEMA)
    matched = naive.evaluate(node, row)
    assert matched is True or not found.certain
    if matched is not True:
        return
    assert found.feasible
    for column, value in row.items():
        one = getattr(found, column.side[0]).get(column.name)
        if one is None:
            continue
        if value is None:
            assert one.may_be_null
        elif value != value:
            assert one.may_be_nan
        else:
            assert not one.empty
            low, high = (python_value(value, column.type, up=up) for up in (False, True))
            assert None in (one.lower, low) or one.lower <= high
            assert None in (one.upper, high) or low <= one.upper


@settings(max_examples=4 * settings.default.max_examples)
@given(conditions())
def test_what_has_no_meaning_is_an_error_that_says_so(drawn):
    condition, one, other = drawn
    try:
        found = jn.bounds(condition, left_schema=pa.schema({"x": one}), right_schema=pa.schema({"y": other}))
    except JunctureError as error:
        assert len(str(error)) > 20
    else:
        assert repr(found).startswith("Bounds(")
