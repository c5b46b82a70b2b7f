from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.predicate.decompose.shape import shape
from juncture.predicate.intervals.interval import point, union
from juncture.predicate.language.nodes import columns
from juncture.predicate.language.parse import parse
from juncture.predicate.language.types import TIME_STEPS
from predicate import naive
from predicate.strategies import SCHEMA, predicates, rows

LEFT = pa.schema(
    {
        "k": pa.string(),
        "a": pa.int32(),
        "b": pa.int64(),
        "x": pa.float64(),
        "start": pa.timestamp("us"),
        "end": pa.timestamp("ms"),
        "price": pa.decimal128(9, 2),
        "day": pa.date32(),
    }
)


def natural(value, data_type):
    """A value on the number line that offsets are on: seconds for times."""
    if value is None or isinstance(value, float | str | bytes | bool):
        return value
    if data_type.kind == "date":
        return Fraction(value) * 86_400
    return Fraction(value, TIME_STEPS[data_type.unit]) if data_type.unit else Fraction(value)


def above(end, node, row, sign) -> bool:
    """Whether an expression is on the inner side of an end: above a lower one (sign 1), below an upper one (-1)."""
    base, value = naive.evaluate(end.expression, row), naive.evaluate(node, row)
    if base is None or value is None:
        return False
    one, other = natural(value, node.type), natural(base, end.expression.type)
    if end.offset:
        if isinstance(one, float):
            return (
                True
                if any(x in (float("inf"), float("-inf")) or x != x for x in (one, other))
                else inside(Fraction(one), Fraction(other) + end.offset, end.strict, sign)
            )
        size = 86_400 if end.unit == "d" else Fraction(1, TIME_STEPS[end.unit]) if end.unit else 1
        other += end.offset * size
    return inside(naive.rank(one), naive.rank(other), end.strict, sign)


def inside(one, other, strict, sign) -> bool:
    if one == other:
        return not strict
    return (one > other) == (sign > 0)


def holds(parts, row) -> bool:
    """Whether all parts of a shape hold for a pair of rows."""
    checks = []
    for key in parts.keys:
        one, other = naive.evaluate(key.left, row), naive.evaluate(key.right, row)
        if one is None or other is None:
            checks.append(key.null_safe and one is None and other is None)
        else:
            checks.append(naive.compare_values("=", one, key.left.type, other, key.right.type))
    for pair in parts.intervals:
        for start, end in ((pair.left[0], pair.right[1]), (pair.right[0], pair.left[1])):
            if start is not None and end is not None:
                is_bare = not end.offset and not end.strict
                checks.append(
                    above(start, end.expression, row, 1) if is_bare else above(end, start.expression, row, -1)
                )
    for node in (parts.left_filter, parts.right_filter, parts.residual):
        checks += [naive.evaluate(node, row) is True] if node is not None else []
    return all(checks)


@settings(max_examples=10 * settings.default.max_examples)
@given(st.data())
def test_the_parts_together_are_the_predicate(data):
    node = data.draw(predicates())
    row, other = data.draw(rows(node)), data.draw(rows(node))
    bounds = None
    if data.draw(st.booleans()):
        bounds = {key: union(point(key.type, row[key]), point(key.type, other[key])) for key in columns(node)}
    assert holds(shape(node, bounds), row) == (naive.evaluate(node, row) is True)


DIFFERENCES = [
    "l.int - r.int > 3",
    "l.big - r.int <= 3",
    "abs(l.big - r.big) < 5",
    "abs(l.real - r.real) <= 3",
    "3 >= abs(r.real - l.real)",
    "l.real - r.real < 0.1D",
    "abs(l.single - r.single) <= 3",
    "2 * (l.tiny - r.big) > 5 - r.tiny",
    "l.int - r.int = 4",
    "l.price - r.price BETWEEN -0.5 AND 2",
    "l.price * 2 > r.wide - 3",
    "l.tiny - l.int > r.tiny - r.int + 2",
    "l.ms - r.ns < INTERVAL 1 SECOND",
    "l.ms + l.span >= r.ns - INTERVAL 0.001 SECONDS AND l.ms < r.ns",
    "l.day - r.day < INTERVAL 3 DAYS AND l.day + 2 > r.day",
    "l.day + 1 > r.ms",
    "l.instant - INTERVAL 5 SECONDS > r.instant OR l.instant = r.instant",
    "-l.big > -r.big",
    "-(l.int - r.int) + 3 < l.tiny",
    "r.big + 9223372036854775807 > l.big",
    "NOT (l.big - r.tiny >= 3 OR r.big < l.big)",
    "r.ms BETWEEN l.ms AND l.ms + l.span",
    "l.ms < r.ns AND r.ms < l.ns AND l.text <=> r.text",
]


@settings(max_examples=15 * settings.default.max_examples)
@given(st.data())
def test_the_parts_of_differences_together_are_the_predicate(data):
    node = parse(data.draw(st.sampled_from(DIFFERENCES)), SCHEMA, SCHEMA)
    row, other = data.draw(rows(node)), data.draw(rows(node))
    bounds = None
    if data.draw(st.booleans()):
        bounds = {key: union(point(key.type, row[key]), point(key.type, other[key])) for key in columns(node)}
    assert holds(shape(node, bounds), row) == (naive.evaluate(node, row) is True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l.k = r.k", "key: l.k = r.k"),
        ("r.k <=> l.k", "key: l.k <=> r.k"),
        ("l.a = r.a + 3 AND r.b <= 4", "key: l.a = r.a + 3\nright filter: r.b <= 4"),
        ("l.a - r.a = 3", "key: l.a - 3 = r.a"),
        ("l.a > r.a - 3 AND l.a < r.a + 10", "band: l.a - 10 < r.a < l.a + 3"),
        ("l.a - r.a BETWEEN -3 AND 3", "band: l.a - 3 <= r.a <= l.a + 3"),
        ("abs(l.a - r.a) <= 3", "band: l.a - 3 <= r.a <= l.a + 3"),
        ("NOT (l.a > r.a + 3)", "inequality: l.a - 3 <= r.a"),
        ("2 * (l.a - r.a) > 5", "inequality: r.a * 2 < l.a * 2 - 5"),
        ("l.price + 0.5 >= r.price", "inequality: r.price <= l.price + 0.5"),
        (
            "l.start >= r.start - INTERVAL 1 HOUR AND l.start < r.start",
            "band: l.start < r.start <= l.start + 3600000000us\nright filter: r.start - INTERVAL '1 hour' IS NOT NULL",
        ),
        ("l.day - r.day < INTERVAL 3 DAYS", "inequality: l.day - 3d < r.day"),
        ("r.start BETWEEN l.start AND l.end", "containment: l.start <= r.start <= l.end"),
        ("l.x > r.x - 3.0 AND l.x < r.x + 10.0", "containment: r.x - 3.0D < l.x < r.x + 10.0D"),
        ("l.start < r.end AND r.start < l.end", "overlap: l.start < r.end AND r.start < l.end"),
        ("l.start <= r.end AND l.end >= r.start", "overlap: l.start <= r.end AND r.start <= l.end"),
        ("l.x < r.x", "inequality: l.x < r.x"),
        ("(l.a = r.a AND l.b > 3) OR (l.a = r.a AND r.b > 4)", "key: l.a = r.a\nresidual: l.b > 3 OR r.b > 4"),
        ("l.a <> r.a", "residual: l.a <> r.a"),
        ("TRUE", ""),
    ],
)
def test_shapes(text, expected):
    assert str(shape(parse(text, LEFT, LEFT))) == expected


def test_what_cannot_be_moved_stays_and_says_so():
    product = shape(parse("l.a * r.a > 5", LEFT, LEFT))
    assert product.residual is not None
    assert "stays as it is" in product.notes[0]
    wide = shape(parse("l.b - r.b > 5", LEFT, LEFT))
    assert str(wide.intervals[0]) == "r.b < l.b - 5"
    assert wide.residual is not None
    assert "rechecked" in wide.notes[0]
    floats = shape(parse("abs(l.x - r.x) <= 5", LEFT, LEFT))
    assert floats.intervals
    assert floats.residual is not None


def test_bounds_rule_out_overflow():
    node = parse("l.b - r.b > 5", LEFT, LEFT)
    small = {column: union(point(column.type, -100), point(column.type, 100)) for column in columns(node)}
    assert shape(node, small).residual is None
    assert shape(node, small).links
    assert not shape(parse("l.a > 3 AND r.a > 4", LEFT, LEFT)).links
