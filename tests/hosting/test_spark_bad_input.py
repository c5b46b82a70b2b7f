"""What joins of streaming DataFrames refuse, before they run or while they do, and how it is said."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from support.engines import is_connect
from support.streaming import read_stream, run, write_files
from support.tables import difference

BAND = "l.k = r.k AND l.a >= r.a - 3 AND l.a <= r.a + 10"
END = 10_000


def rows(values) -> pa.Table:
    """Return rows in order, numbered; the last one of a side is -1."""
    numbers = [-1 if value == END else value for value in values]
    return pa.table({"k": ["a"] * len(values), "a": values, "n": numbers})


def joined(spark, folder, *, delay=5):
    orders = {f"{side}_order": jn.Order("a", delay=delay) for side in ("left", "right")}
    streams = [read_stream(spark, folder / side) for side in ("left", "right")]
    return jn.stream(*streams, jn.Where(BAND, how="left"), **orders)


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


def test_streams_of_different_sessions(hosting):
    left, right = (
        each.readStream.format("rate").load().selectExpr("value AS a", "'x' AS k")
        for each in (hosting, hosting.newSession())
    )
    orders = {"left_order": jn.Order("a"), "right_order": jn.Order("a")}
    if is_connect(hosting):
        said = rf"session {hosting.session_id}, and the right one to .*Read both with the same session"
        with pytest.raises(jn.PlanError, match=said):
            jn.stream(left, right, jn.Where(BAND), **orders)
    else:
        # They share a process, and the left one runs the join.
        assert jn.stream(left, right, jn.Where(BAND), **orders).isStreaming


@pytest.mark.in_turn
def test_output_mode_complete(hosting, tmp_path):
    for side in ("left", "right"):
        write_files([rows([1, 2])], tmp_path / side)
    stream = joined(hosting, tmp_path).writeStream.outputMode("complete").format("memory").queryName("complete")
    with pytest.raises(Exception, match=r"(?si)output mode: complete.*no streaming aggregations"):
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().processAllAvailable()


@pytest.mark.in_turn
def test_a_checkpoint_of_another_join(hosting, tmp_path):
    for side in ("left", "right"):
        write_files([rows([1, 50, 51])], tmp_path / side)
    run(joined(hosting, tmp_path), tmp_path)
    for side in ("left", "right"):
        write_files([rows([52, 120])], tmp_path / side)
    said = r"The state in the checkpoint of this query belongs to another join: its left is .* but this join has "
    with pytest.raises(Exception, match=said):
        run(joined(hosting, tmp_path, delay=50), tmp_path)
    # With the same join, it continues.
    both = rows([1, 50, 51, 52, 120])
    problem = difference(
        run(joined(hosting, tmp_path), tmp_path).answer, jn.join_where(both, both, BAND), ordered=False
    )
    assert problem is None, problem


@pytest.mark.in_turn
def test_a_schema_that_changes_between_files(hosting, tmp_path):
    for side in ("left", "right"):
        write_files([rows([1, 2])], tmp_path / side)
    streams = joined(hosting, tmp_path)
    write_files([pa.table({"k": ["a"], "a": ["three"], "n": [3]})], tmp_path / "left")
    with pytest.raises(Exception, match=r"(?s)left/001\.parquet.*\[a\]|\[a\].*left/001\.parquet"):
        run(streams, tmp_path)
    # The file put right, the query goes on from where it was.
    (tmp_path / "left" / "001.parquet").unlink()
    write_files([rows([3])], tmp_path / "left")
    for side in ("left", "right"):
        write_files([rows([END])], tmp_path / side)
    ran = run(joined(hosting, tmp_path), tmp_path)
    answer = {number for number in ran.answer["n"].to_pylist() if number != -1}
    assert answer == {1, 2, 3}
