"""The three queries and the figures of "General-purpose Stream Joins via Pruning Symmetric Hash Joins"."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import juncture as jn
from juncture.predicate.intervals.graph import Graph
from juncture.predicate.intervals.interval import interval
from juncture.predicate.language.nodes import Arithmetic, walk
from juncture.predicate.language.parse import parse
from juncture.predicate.language.sql import describe
from juncture.spec.where import Where
from support.streams import Streamed, check
from support.tables import difference, read_table

SPARK = (
    "l.left_key = r.right_key AND l.left_time > r.right_time - INTERVAL 8 MINUTES "
    "AND l.left_time < r.right_time + INTERVAL 2 HOURS"
)
SORTED = "l.left_key = r.right_key AND l.left_sorted > r.right_sorted - 3 AND l.left_sorted < r.right_sorted + 10"
SUM = (
    "l.left_key = r.right_key AND l.left_1 + l.left_2 > r.right_sorted - 3 "
    "AND l.left_1 + l.left_2 < r.right_sorted + 10"
)
SLIDING = "l.key = r.key AND l.sorted + 1 > r.sorted + 5 AND l.sorted + 3 < r.sorted + 10"


def test_the_query_of_spark_keeps_rows_by_its_time():
    left = pa.schema({"left_key": pa.int64(), "left_time": pa.timestamp("us")})
    right = pa.schema({"right_key": pa.int64(), "right_time": pa.timestamp("us")})
    join = jn.stream(left, right, Where(SPARK), left_order=jn.Order("left_time"), right_order=jn.Order("right_time"))
    assert "left rows are kept while left_time > right_time - 8m" in join.explain()
    assert "right rows are kept while right_time > left_time - 2h" in join.explain()
    midnight = datetime(2023, 2, 1)
    times = [midnight + timedelta(minutes=minute) for minute in (745, 746, 747, 754)]
    join.push(left=pa.record_batch({"left_key": [1] * 4, "left_time": times}, schema=left))
    # The watermark of the article is 12:34, so that the state's is 12:26, which is minute 746.
    join.advance(right=midnight + timedelta(hours=12, minutes=34))
    assert join.state.left.rows == 2


def test_any_sorted_column_prunes():
    left = pa.schema({"left_key": pa.int64(), "left_sorted": pa.int64()})
    right = pa.schema({"right_key": pa.int64(), "right_sorted": pa.int64()})
    join = jn.stream(
        left, right, Where(SORTED), left_order=jn.Order("left_sorted"), right_order=jn.Order("right_sorted")
    )
    join.push(left=pa.record_batch({"left_key": [1, 1, 1], "left_sorted": [1230, 1231, 1232]}))
    join.push(right=pa.record_batch({"right_key": [1], "right_sorted": [1234]}))
    assert "left rows are kept while left_sorted > right_sorted - 3" in join.explain()
    assert join.state.left.rows == 1


def test_a_sorted_sum_prunes():
    left = pa.schema({"left_key": pa.int64(), "left_1": pa.int64(), "left_2": pa.int64()})
    right = pa.schema({"right_key": pa.int64(), "right_sorted": pa.int64()})
    join = jn.stream(
        left, right, Where(SUM), left_order=jn.Order("left_1 + left_2"), right_order=jn.Order("right_sorted")
    )
    join.push(left=pa.record_batch({"left_key": [1, 1, 1], "left_1": [1000, 1000, 31], "left_2": [230, 231, 1201]}))
    join.push(right=pa.record_batch({"right_key": [1], "right_sorted": [1234]}))
    assert "left rows are kept while left_1 + left_2 > right_sorted - 3" in join.explain()
    assert join.state.left.rows == 1
    join.push(left=pa.record_batch({"left_key": [1], "left_1": [0], "left_2": [2000]}))
    assert "right rows are kept while right_sorted > left_1 + left_2 - 10" in join.explain()
    assert join.state.right.rows == 0


def test_figure_4_the_intervals_of_each_node():
    schema = pa.schema({"x": pa.float64(), "y": pa.float64()})
    node = parse("l.x * l.x + l.y = 4", schema, schema)
    parts = [part for part in walk(node) if isinstance(part, Arithmetic)]
    columns = {column.name: column for column in Graph(node).columns}
    given = {
        columns["x"]: interval(columns["x"].type, 1.0, 2.0),
        columns["y"]: interval(columns["y"].type, -3.0, 1.0),
    }
    upwards = {describe(part): str(Graph(part).evaluate(given)) for part in parts}
    assert upwards == {"l.x * l.x": "[1.0, 4.0]", "l.x * l.x + l.y": "[-2.0, 5.0]"}


def test_figure_5_the_constraint_travels_down():
    schema = pa.schema({"x": pa.float64(), "y": pa.float64()})
    node = parse("l.x * l.x + l.y = 4", schema, schema)
    square = next(part for part in walk(node) if isinstance(part, Arithmetic) and part.operator == "*")
    graph = Graph(node, [square])
    x, y = graph.columns
    shrunk = graph.shrink({x: interval(x.type, 1.0, 2.0), y: interval(y.type, -3.0, 1.0)})
    assert (shrunk.watched[0].lower, shrunk.watched[0].upper) == (pytest.approx(3.0), 4.0)
    # Ends of floats are rounded outwards.
    assert (shrunk.columns[x].upper, shrunk.columns[y].upper) == (2.0, 1.0)
    assert -1e-15 < shrunk.columns[y].lower <= 0.0
    assert shrunk.columns[x].lower == pytest.approx(3**0.5)


def test_figure_7_the_joinable_range_of_the_build_side():
    found = jn.bounds("l.a > r.b - 3 AND l.a < r.b + 10", l={"a": (1, None)}, r={"b": (6, None)})
    # The figure has [3, ∞), as bounds of DataFusion are closed; above 3 there is 4.
    assert (found.l["a"].lower, found.r["b"].lower) == (4, 6)
    join = jn.stream(
        pa.schema({"a": pa.int64()}),
        pa.schema({"b": pa.int64()}),
        Where("l.a > r.b - 3 AND l.a < r.b + 10"),
        left_order=jn.Order("a"),
        right_order=jn.Order("b"),
    )
    join.push(left=pa.record_batch({"a": [1, 2, 3, 4, 5]}))
    join.push(right=pa.record_batch({"b": [6]}))
    assert (join.state.left.rows, join.state.left.evicted_rows) == (2, 3)


def test_the_left_join_of_the_article():
    left = read_table("a: int64 | b: string\n1 | x\n2 | y\n3 | z")
    right = read_table("a: int64 | b: string\n1 | a\n2 | b\n4 | d")
    join = jn.stream(
        left.schema, right.schema, jn.Equi(on="a", how="left"), left_order=jn.Order("a"), right_order=jn.Order("a")
    )
    batches = join.push(left=left)
    assert batches == []
    batches += join.push(right=right)
    wanted = read_table("a: int64 | b: string | b_right: string\n1 | x | a\n2 | y | b\n3 | z | null")
    # The row without a match comes as soon as nothing can match it, and not at the end of the stream.
    assert difference(pa.Table.from_batches(batches), wanted, ordered=False) is None


@pytest.mark.parametrize("cardinality", [8, 64])
@pytest.mark.parametrize("batch", [1, 16, 128])
def test_the_experiment(batch, cardinality):
    chance = random.Random(batch * cardinality)
    tables = []
    for _ in range(2):
        places = [place - 1 if place and chance.random() < 0.3 else place for place in range(300)]
        keys = [chance.randrange(cardinality) for _ in places]
        tables.append(pa.table({"key": keys, "sorted": places}))
    order = jn.Order("sorted", delay=1)
    join = Streamed(Where(SLIDING), *tables, [order], [order], chance, most=batch)
    most = 0
    for _ in join.steps():
        most = max(most, join.join.state.left.rows + join.join.state.right.rows)
    answer = join.finish()
    assert answer.num_rows > 0
    assert join.join.state.left.late_rows == 0
    check(Streamed(Where(SLIDING), *tables, [order], [order], chance, most=batch))
