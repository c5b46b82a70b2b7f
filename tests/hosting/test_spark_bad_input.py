"""What joins of streaming DataFrames refuse, before they run or while they do, and how it is said."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import juncture as jn
from support.engines import is_connect
from support.streaming import PARTITIONS, ROCKS, STORE, read_stream, run, without_end, write_files
from support.tables import difference

BAND = "l.k = r.k AND l.a >= r.a - 3 AND l.a <= r.a + 10"
END = 10_000


@pytest.fixture
def short(spark):
    """Let a session be quick with little state."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "1")
    yield spark
    spark.conf.set(PARTITIONS, before)


def rows(values, **columns) -> pa.Table:
    """Return rows in order, numbered; the last one of a side is -1."""
    numbers = [-1 if value == END else value for value in values]
    return pa.table({"k": ["a"] * len(values), "a": values, "n": numbers} | columns)


def sides(spark, folder) -> list:
    return [read_stream(spark, folder / side) for side in ("left", "right")]


def joined(spark, folder, predicate=BAND, *, how="left", delay=5):
    orders = {f"{side}_order": jn.Order("a", delay=delay) for side in ("left", "right")}
    return jn.stream(*sides(spark, folder), jn.Where(predicate, how=how), **orders)


ORDERS = {
    "missing": ({"left_order": jn.Order("b")}, jn.SchemaError, r"'b' is not a column of either table.*There are: 'a'"),
    "not ordered": ({"right_order": jn.Order("k")}, jn.SchemaError, r"'k'.*STRING.*Expected numbers"),
    "constant": ({"left_order": jn.Order("1 + 2")}, jn.SpecError, r"'1 \+ 2' is the same for all rows"),
    "of the other side": ({"left_order": jn.Order("r.a")}, jn.JunctureError, r"r\.a"),
    "a time for numbers": ({"left_order": jn.Order("a", delay="5s")}, jn.SpecError, r"delay='5s'.*number"),
    "a number for times": ({"right_order": jn.Order("ts", delay=5)}, jn.SpecError, r"delay=5.*no unit"),
    "without an end": ({"left_order": jn.Order("a", delay=float("inf"))}, jn.SpecError, r"delay=inf"),
    "no order": ({"left_order": "a"}, jn.SpecError, r"left_order='a'.*jn\.Order"),
}


@pytest.mark.parametrize("case", ORDERS)
def test_orders_that_do_not_fit(spark, case):
    given, error, said = ORDERS[case]
    stream = spark.readStream.format("rate").load().selectExpr("value AS a", "timestamp AS ts", "'x' AS k")
    orders = {"left_order": jn.Order("a"), "right_order": jn.Order("a")} | given
    with pytest.raises(error, match=f"(?s){said}"):
        jn.stream(stream, stream, jn.Where(BAND), **orders)


def test_streams_of_different_sessions(spark):
    left, right = (
        each.readStream.format("rate").load().selectExpr("value AS a", "'x' AS k")
        for each in (spark, spark.newSession())
    )
    orders = {"left_order": jn.Order("a"), "right_order": jn.Order("a")}
    if is_connect(spark):
        said = rf"session {spark.session_id}, and the right one to .*Read both with the same session"
        with pytest.raises(jn.PlanError, match=said):
            jn.stream(left, right, jn.Where(BAND), **orders)
    else:
        # They share a process, and the left one runs the join.
        assert jn.stream(left, right, jn.Where(BAND), **orders).isStreaming


NONE_TO_COMPLETE = r"output mode: complete.*no streaming aggregations"
MODES = {
    ("native", "update"): r"join.*update output mode",
    ("native", "complete"): NONE_TO_COMPLETE,
    ("hosted", "update"): r"transformWithState.*update",
    ("hosted", "complete"): NONE_TO_COMPLETE,
}


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize(("operator", "mode"), MODES)
def test_output_modes(short, tmp_path, operator, mode):
    for side in ("left", "right"):
        write_files([rows([1, 2])], tmp_path / side)
    short.conf.set(STORE, ROCKS)
    try:
        frame = joined(short, tmp_path, how="left" if operator == "native" else "anti")
    finally:
        short.conf.unset(STORE)
    name = f"{operator}_in_{mode}"
    stream = frame.writeStream.outputMode(mode).format("memory").queryName(name)
    try:
        with pytest.raises(Exception, match=f"(?si){MODES[operator, mode]}"):
            stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().processAllAvailable()
    finally:
        # The sink is a view of the session, which other tests share; where the query does not start, there is none.
        short.catalog.dropTempView(name)


@pytest.mark.nightly
@pytest.mark.parametrize("more", ["3"])
def test_more_partitions_after_a_restart(short, tmp_path, more):
    chance = random.Random(more)
    tables = {}
    for side in ("left", "right"):
        values = sorted(chance.randrange(60) for _ in range(60))
        tables[side] = rows([*values, END], k=[*(chance.choice("abc") for _ in values), side], n=[*range(60), -1])
    for part in (slice(0, 30), slice(30, 61)):
        for side, table in tables.items():
            write_files([table.slice(part.start, part.stop - part.start)], tmp_path / side)
        ran = run(joined(short, tmp_path, how="full"), tmp_path)
        short.conf.set(PARTITIONS, more)
    expected = without_end(jn.join_where(*tables.values(), BAND, how="full"))
    problem = difference(without_end(ran.answer), expected, ordered=False)
    assert problem is None, problem


ANOTHER = {
    "condition": {"predicate": "l.k = r.k AND l.a >= r.a - 3 AND l.a <= r.a + 60"},
    "delay": {"delay": 50},
    "how": {"how": "inner"},
}


@pytest.mark.in_turn
# What differs is compared without Spark, whatever it is.
@pytest.mark.parametrize(
    "case", ["delay", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("condition", "how"))]
)
def test_a_checkpoint_of_another_join(short, tmp_path, case):
    for side in ("left", "right"):
        write_files([rows([1, 50, 51])], tmp_path / side)
    assert run(joined(short, tmp_path), tmp_path).state_rows > 0
    for side in ("left", "right"):
        write_files([rows([52, 120])], tmp_path / side)
    said = r"The checkpoint of this query belongs to another.*Start the query.*This join is Where\(.*left order a, "
    with pytest.raises(Exception, match=said):
        run(joined(short, tmp_path, **ANOTHER[case]), tmp_path)
    # With the same join it goes on as if nothing had been.
    both = rows([1, 50, 51, 52, 120])
    problem = difference(run(joined(short, tmp_path), tmp_path).answer, jn.join_where(both, both, BAND), ordered=False)
    assert problem is None, problem


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["more columns"])
def test_a_checkpoint_of_other_columns(short, tmp_path, case):
    for side in ("left", "right"):
        write_files([rows([1, 50, 51])], tmp_path / side)
    run(joined(short, tmp_path), tmp_path)
    for side in ("left", "right"):
        write_files([rows([52, 120], more=["x", "y"])], tmp_path / side)
    wider = [each.withColumn("more", each.n * 2) for each in sides(short, tmp_path)]
    orders = {f"{side}_order": jn.Order("a", delay=5) for side in ("left", "right")}
    with pytest.raises(Exception, match=r"STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        run(jn.stream(*wider, jn.Where(BAND, how="left"), **orders), tmp_path)


@pytest.mark.in_turn
@pytest.mark.parametrize("case", ["a type"])
def test_a_schema_that_changes_between_files(short, tmp_path, case):
    for side in ("left", "right"):
        write_files([rows([1, 2])], tmp_path / side)
    streams = joined(short, tmp_path)
    write_files([pa.table({"k": ["a"], "a": ["three"], "n": [3]})], tmp_path / "left")
    with pytest.raises(Exception, match=r"(?s)left/001\.parquet.*\[a\]|\[a\].*left/001\.parquet"):
        run(streams, tmp_path)
    # The file put right, the query goes on from where it was.
    (tmp_path / "left" / "001.parquet").unlink()
    write_files([rows([3])], tmp_path / "left")
    for side in ("left", "right"):
        write_files([rows([END])], tmp_path / side)
    ran = run(joined(short, tmp_path), tmp_path)
    answer = {number for number in ran.answer["n"].to_pylist() if number != -1}
    assert answer == {1, 2, 3}
