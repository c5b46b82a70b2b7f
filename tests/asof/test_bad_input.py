"""Wrong input, on both engines: the right exception, one clear message, and nothing left behind."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app
from support.engines import to_spark
from support.tables import difference, read_table

pytestmark = [pytest.mark.usefixtures("scratch"), pytest.mark.in_turn]

LEFT = read_table("ts: int64 | robot_id: string | frame_id: int64\n2 | a | 1\n5 | a | 2\n8 | b | 3")
RIGHT = read_table("ts: int64 | robot_id: string | angle: float64\n1 | a | 10.0\n4 | a | 20.0\n8 | b | 30.0")


@pytest.fixture
def given_as(spark_or_none: Any) -> Callable[[pa.Table], Any]:
    """Return what turns a table into an input of each engine."""
    return partial(to_spark, spark_or_none) if spark_or_none else lambda table: table


def fails(error: type[Exception], *said: str, left: Any, right: Any, **arguments: Any) -> None:
    with pytest.raises(error) as raised:
        jn.join_asof(left, right, **arguments)
    assert type(raised.value) is error
    for part in said:
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": "tz"}, jn.SchemaError, ["on='tz' is not a column", "left table", "There are: 'ts', 'robot_id'"]),
        ({"on": "ts", "by": "robot"}, jn.SchemaError, ["by='robot' is not a column", "Did you mean 'robot_id'?"]),
        (
            {"on": "ts", "left_by": "robot_id", "right_by": "robot_ids"},
            jn.SchemaError,
            ["right_by='robot_ids' is not a column", "right table", "Did you mean 'robot_id'?"],
        ),
        ({"on": "ts", "order_by": "angles"}, jn.SchemaError, ["order_by='angles'", "Did you mean 'angle'?"]),
        (
            {"left_on": "ts", "right_on": "robot_id"},
            jn.SchemaError,
            ["no common values", "left 'ts' (int64)", "right 'robot_id' (string)", "Cast"],
        ),
        (
            {"on": "robot_id", "direction": "nearest"},
            jn.SpecError,
            ["direction='nearest'", "no distances"],
        ),
        ({"on": "robot_id", "tolerance": 1}, jn.SpecError, ["tolerance=1 needs numeric or", "'robot_id' is text"]),
        (
            {"on": "ts", "left_by": "robot_id", "right_by": "angle"},
            jn.SchemaError,
            ["by= compares left", "left 'robot_id' (string)", "right 'angle' (double)"],
        ),
        ({"on": "ts", "tolerance": -1}, jn.SpecError, ["tolerance=-1 is negative", "direction="]),
        ({"on": "ts", "tolerance": timedelta(days=-1)}, jn.SpecError, ["is negative"]),
        ({"on": "ts", "tolerance": math.nan}, jn.SpecError, ["tolerance=nan would match nothing"]),
        ({"on": "ts", "tolerance": "five"}, jn.SpecError, ["tolerance='five' is neither a duration", '"5m"', "column"]),
        ({"on": "ts", "tolerance": "5m"}, jn.SpecError, ["tolerance='5m' is a duration", "integer", "Pass a number"]),
        (
            {"on": "ts", "tolerance": "robot_id"},
            jn.SchemaError,
            ["'robot_id' is a left column of type", "an integer column"],
        ),
        ({"on": "ts", "strategy": "forward"}, jn.SpecError, ["strategy='forward'", "direction=", "algorithm="]),
        ({"on": "ts", "directoin": "forward"}, jn.SpecError, ["no argument directoin=", "Did you mean 'direction'?"]),
        ({"on": "ts", "how": "outer"}, jn.SpecError, ["how='outer' is unknown", "'full'"]),
        ({"on": "ts", "algorithm": "mergesort"}, jn.SpecError, ["algorithm='mergesort' is unknown", "'auto'"]),
        ({"on": "ts", "suffix": ""}, jn.SchemaError, ["would be named 'robot_id'", "Pass another suffix="]),
        ({}, jn.SpecError, ["exactly one column to order by"]),
    ],
)
def test_arguments(given_as, arguments, error, said):
    fails(error, *said, left=given_as(LEFT), right=given_as(RIGHT), **arguments)


def test_zoned_and_unzoned_time(given_as):
    left = read_table("ts: timestamp[us, UTC]\n2026-01-01")
    right = read_table("ts: timestamp[us]\n2026-01-01")
    said = (
        "but only one of them has a time zone",
        "left 'ts' (timestamp[us, tz=",
        "right 'ts' (timestamp[us])",
        "Add a time zone",
    )
    fails(jn.SchemaError, *said, left=given_as(left), right=given_as(right), on="ts")


def test_a_tolerance_without_unit_for_times(given_as):
    times = given_as(read_table("ts: timestamp[us]\n2026-01-01"))
    said = "tolerance=5 (int) has no unit", "timestamps", 'such as tolerance="5m"'
    fails(jn.SpecError, *said, left=times, right=times, on="ts", tolerance=5)


def test_a_name_that_is_taken_with_its_suffix_too(given_as):
    left = given_as(LEFT.append_column("robot_id_right", LEFT["robot_id"]))
    said = "'robot_id' would be named 'robot_id_right', which is already a column", "Pass another suffix="
    fails(jn.SchemaError, *said, left=left, right=given_as(RIGHT), on="ts")


def test_an_algorithm_of_the_other_engine(given_as):
    in_process = isinstance(given_as(LEFT), pa.Table)
    algorithm, said = ("hash", "runs on Spark") if in_process else ("probe", "runs in-process")
    fails(
        jn.PlanError,
        said,
        "Use one of 'auto'",
        left=given_as(LEFT),
        right=given_as(RIGHT),
        on="ts",
        algorithm=algorithm,
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_repeated_column_names(side):
    twice = RIGHT.append_column("ts", RIGHT["ts"])
    tables = {"left": LEFT, "right": RIGHT} | {side: twice}
    fails(jn.SchemaError, f"The {side} table has 2 columns named 'ts'", "Rename", **tables, on="ts")


def test_repeated_column_names_on_spark(spark):
    frame = spark.createDataFrame(RIGHT)
    twice = frame.select("*", frame["ts"])
    said = "The right table has 2 columns named 'ts'"
    fails(jn.SchemaError, said, left=spark.createDataFrame(LEFT), right=twice, on="ts")


def test_streaming_frames(spark):
    stream = spark.readStream.format("rate").load()
    batch = to_spark(spark, read_table("timestamp: timestamp[us, UTC] | v: int64"))
    said = "The right table is a streaming DataFrame", "foreachBatch"
    fails(jn.PlanError, *said, left=batch, right=stream, on="timestamp")
    said = "Both tables are streaming DataFrames", "jn.stream(left, right, spec, left_order="
    fails(jn.PlanError, *said, left=stream, right=stream, on="timestamp")
    said = "The left stream has no order and no watermark.*Pass left_order=.*watermark on a column"
    with pytest.raises(jn.PlanError, match=said):
        jn.stream(stream, stream, jn.Asof(on="timestamp"))


def test_table_order_on_spark(spark):
    frame = spark.createDataFrame([(1, 2)], "ts long, v long")
    for algorithm in ("auto", "window", "broadcast"):
        with pytest.raises(jn.PlanError, match=r"ties='first' .* Spark tables have none\. .* order_by="):
            jn.plan(frame, frame, jn.Asof(on="ts", ties="first"), algorithm=algorithm)


@pytest.mark.parametrize("side", ["left", "right"])
def test_spark_mixed_with_tables_of_this_process(spark, side):
    frame = spark.createDataFrame(LEFT)
    tables = {"left": frame, "right": frame} | {side: RIGHT}
    said = f"The {side} table is a pyarrow.Table", "Spark DataFrame", "spark.createDataFrame(", ".toArrow()"
    fails(jn.PlanError, *said, **tables, on="ts")


def test_a_session_for_tables_of_this_process(spark):
    fails(jn.PlanError, "but spark= is set", left=LEFT, right=RIGHT, on="ts", spark=spark)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (5, "The right table is a int, which is not a table. Expected a Spark DataFrame, a path"),
        (None, "The right table is a NoneType"),
        ({"ts": [1]}, "The right table is"),
        ([], "The right table is"),
        ([1, 2], "The right table is an iterable whose first item is a int"),
    ],
)
def test_what_is_no_table(table, said):
    fails(jn.SpecError, said, left=LEFT, right=table, on="ts")


def test_a_stream_that_breaks_off():
    def batches() -> Iterator[pa.RecordBatch]:
        yield from RIGHT.to_batches()
        raise RuntimeError("the source went away")

    with pytest.raises(RuntimeError, match="the source went away"):
        jn.join_asof(LEFT, pa.RecordBatchReader.from_batches(RIGHT.schema, batches()), on="ts", by="robot_id")


def test_a_side_without_rows(given_as):
    for left, right in ((LEFT.slice(0, 0), RIGHT), (LEFT, RIGHT.slice(0, 0)), (LEFT.slice(0, 0), RIGHT.slice(0, 0))):
        answer = jn.join_asof(given_as(left), given_as(right), on="ts", by="robot_id")
        answer = answer if isinstance(answer, pa.Table) else answer.toArrow()
        angle = pa.array([None] * left.num_rows, pa.float64())
        assert difference(answer, left.append_column("angle", angle), ordered=False) is None


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_keys_that_are_all_null(given_as, how):
    left = LEFT.set_column(1, "robot_id", pa.array([None] * 3, pa.string()))
    answer = jn.join_asof(given_as(left), given_as(RIGHT), on="ts", by="robot_id", how=how)
    answer = answer if isinstance(answer, pa.Table) else answer.toArrow()
    assert answer.num_rows == (0 if how == "inner" else 3)


def test_keys_without_a_type_match_nothing():
    left = LEFT.set_column(1, "robot_id", pa.nulls(3))
    answer = jn.join_asof(left, RIGHT, on="ts", by="robot_id")
    assert answer.select(left.column_names).equals(left)
    assert answer["angle"].null_count == 3


BEYOND_PYTHON = [
    (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), "<value out of range: 2147483647>"),
    (pa.array([-(2**63)], pa.timestamp("s")), "<value out of range: -9223372036854775808>"),
    (pa.array([2**63 - 1], pa.timestamp("ns", "No/Where")), "2262-04-11 23:47:16.854775807Z"),
    (pa.array([{"a": 2**62}], pa.struct([("a", pa.timestamp("s"))])), "<value out of range: 4611686018427387904>"),
]


@pytest.mark.parametrize(("values", "said"), BEYOND_PYTHON, ids=[str(each[0].type) for each in BEYOND_PYTHON])
def test_a_tie_shows_its_row_whatever_it_holds(values, said):
    key = "ts" if pa.types.is_temporal(values.type) else "k"
    left = pa.table({"ts": [1], "k": ["a"]}).set_column(["ts", "k"].index(key), key, values)
    right = pa.concat_tables([left, left]).append_column("v", pa.array([1, 2]))
    fails(jn.DataError, f"{key}=", said, "(row 0)", left=left, right=right, on="ts", by="k", ties="error")


# Files, read in-process or by Spark's tasks.


def files_fail(error: type[Exception], *said: str, left: Any, right: Any, session: Any) -> None:
    """Join files, to the last row, and expect an error that names what it has to."""
    with pytest.raises(Exception) as raised:
        answer = jn.join_asof(left, right, on="ts", by="robot_id", spark=session)
        if session is not None:
            answer.toArrow()
    assert type(raised.value) is error or f"{error.__name__}: " in str(raised.value), repr(raised.value)
    for part in said:
        assert part in str(raised.value)


@pytest.fixture
def left_path(tmp_path) -> Path:
    pq.write_table(LEFT, tmp_path / "left.parquet")
    return tmp_path / "left.parquet"


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, -1])
def test_a_parquet_file_that_is_cut_off(tmp_path, left_path, spark_or_none, keep):
    path = tmp_path / "right.parquet"
    pq.write_table(RIGHT, path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(len(content) * keep)])
    files_fail(jn.DataError, "right.parquet", left=left_path, right=path, session=spark_or_none)


def test_a_parquet_file_that_is_damaged_inside(tmp_path, left_path, spark_or_none):
    path = tmp_path / "right.parquet"
    pq.write_table(RIGHT, path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(0).column(2).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    files_fail(jn.DataError, "right.parquet", left=left_path, right=path, session=spark_or_none)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (RIGHT.drop(["angle"]), "angle"),
        (RIGHT.set_column(2, "angle", RIGHT["angle"].cast(pa.string())), "angle"),
        (RIGHT.append_column("more", RIGHT["ts"]), "more"),
        (RIGHT.rename_columns(["time", "robot_id", "angle"]), "ts"),
    ],
)
def test_a_parquet_file_with_another_schema_than_its_siblings(tmp_path, left_path, spark_or_none, other, said):
    folder = tmp_path / "right"
    folder.mkdir()
    pq.write_table(RIGHT, folder / "a.parquet")
    pq.write_table(other, folder / "b.parquet")
    files_fail(jn.DataError, "b.parquet", said, left=left_path, right=folder, session=spark_or_none)


@pytest.mark.parametrize("name", ["nowhere.parquet", "nowhere/", "nowhere/*.parquet", "empty"])
def test_paths_that_lead_to_no_file(tmp_path, left_path, spark_or_none, name):
    (tmp_path / "empty").mkdir()
    files_fail(jn.DataError, name.rstrip("/"), left=left_path, right=f"{tmp_path}/{name}", session=spark_or_none)


def test_a_file_that_is_not_parquet(tmp_path, left_path, spark_or_none):
    path = tmp_path / "right.parquet"
    path.write_text("ts,robot_id,angle\n1,a,10.0\n")
    files_fail(jn.DataError, "right.parquet", left=left_path, right=path, session=spark_or_none)


def test_an_output_folder_that_exists(tmp_path, left_path):
    pq.write_table(RIGHT, tmp_path / "right.parquet")
    output = tmp_path / "out"
    output.mkdir()
    (output / "mine.txt").write_text("keep me")
    before = sorted(tmp_path.rglob("*"))
    arguments = ["join", "asof", str(left_path), str(tmp_path / "right.parquet"), "--on", "ts", "-o", str(output)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "out exists" in result.output.replace("\n", " ")
    assert sorted(tmp_path.rglob("*")) == before
    assert (output / "mine.txt").read_text() == "keep me"


NO_ROOM = """
import os, resource, sys, tempfile
import pyarrow as pa
import juncture as jn

# No file may grow beyond this size, which to a program looks like a disk that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
tempfile.tempdir = sys.argv[1]
batch = pa.record_batch({"ts": list(range(1_000)), "v": [os.urandom(8_192) for _ in range(1_000)]})
stream = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(50)))
try:
    jn.join_asof(pa.table({"ts": [5, 100_000]}), stream, on="ts")
except jn.StateError as error:
    print(error)
"""


def test_no_room_to_spill(tmp_path):
    """A long stream is kept on disk while its matches are looked for."""
    process = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr
    assert str(tmp_path) in process.stdout
    assert list(tmp_path.iterdir()) == []
