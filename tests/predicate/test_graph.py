from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.predicate.intervals.graph import Graph
from juncture.predicate.intervals.interval import contains, interval, null, point, union
from juncture.predicate.language.nodes import Arithmetic, Node, walk
from juncture.predicate.language.parse import parse
from juncture.predicate.language.types import next_float
from predicate.naive import evaluate
from predicate.strategies import expressions, predicates, rows

SOUND = settings(max_examples=8 * settings.default.max_examples)


def boxes(draw, node):
    """A row, another one, and for each column an interval that holds both values."""
    row, other = draw(rows(node)), draw(rows(node))
    bounds = {}
    for column, value in row.items():
        exact = draw(st.integers(0, 3)) == 0
        around = point(column.type, value)
        bounds[column] = around if exact else _opened(union(around, point(column.type, other[column])), draw)
    return row, bounds


def _opened(one, draw):
    """An interval of floats that now and then reaches a little farther, to ends that it leaves out."""
    if one.type.kind != "float" or one.empty or draw(st.booleans()):
        return one
    lower = None if one.lower is None else next_float(one.lower, -1, one.type.bits)
    upper = None if one.upper is None else next_float(one.upper, 1, one.type.bits)
    # Nothing is beyond infinity.
    ends = {"lower_open": lower != one.lower, "upper_open": upper != one.upper}
    return interval(one.type, lower, upper, **ends, nan=one.may_be_nan, null=one.may_be_null)


@SOUND
@given(st.data())
def test_every_value_is_inside_its_interval(data):
    group = data.draw(st.sampled_from(["number", "number", "time"]))
    node: Node = data.draw(st.one_of(expressions(group, 3), predicates()))
    row, bounds = boxes(data.draw, node)
    in_types = data.draw(st.booleans())
    for part in walk(node):
        value, range_of = evaluate(part, row), Graph(part, in_types=in_types).evaluate(bounds)
        assert contains(range_of, value), f"{part}: {value!r} is not in {range_of}"


@SOUND
@given(st.data())
def test_shrinking_never_loses_a_row_that_matches(data):
    node = data.draw(predicates())
    row, bounds = boxes(data.draw, node)
    bounds = {column: one for column, one in bounds.items() if data.draw(st.booleans())}
    shrunk = Graph(node, in_types=data.draw(st.booleans())).shrink(bounds)
    value = evaluate(node, row)
    if value is True:
        assert shrunk.feasible
        for column, cell in row.items():
            assert contains(shrunk.columns[column], cell), f"{column.name}: {cell!r} not in {shrunk.columns[column]}"
    if shrunk.certain:
        assert value is True


def test_expressions_that_are_watched_shrink_too():
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    node = parse("l.a + l.b > r.a - 3", schema, schema)
    [total] = [part for part in walk(node) if isinstance(part, Arithmetic) and part.operator == "+"]
    graph = Graph(node, [total])
    [right] = [column for column in graph.columns if column.side == "right"]
    shrunk = graph.shrink({right: interval(right.type, 10, 20)})
    assert str(shrunk.watched[0]) == "[8, ∞)"
    assert graph.shrink({right: null(right.type)}).watched[0].empty
