"""`juncture join asof`, in-process and on Spark: the same rows, whole outputs, one block of text for a mistake."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.main import app

FRAMES = pa.table({"ts": [2, 5, 8], "robot_id": ["arm_001", "arm_001", "arm_002"], "frame_id": [1, 2, 3]})
TELEMETRY = pa.table(
    {
        "ts": [1, 4, 8],
        "robot_id": ["arm_001", "arm_001", "arm_002"],
        "joint_angle": [10.0, 20.0, 30.0],
        "gripper": ["open", "closed", "open"],
    }
)
JOINED = {**FRAMES.to_pydict(), "joint_angle": [10.0, 20.0, 30.0], "gripper": ["open", "closed", "open"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand in a folder with two small tables, as a user would."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(FRAMES, "frames.parquet")
    pq.write_table(TELEMETRY, "telemetry.parquet")
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def asof(*arguments, left="frames.parquet", right="telemetry.parquet"):
    return CliRunner().invoke(app, ["join", "asof", left, right, *arguments])


def juncture(*arguments, **options):
    command = [sys.executable, "-c", "from juncture.cli.main import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_rows_are_shown(folder):
    result = asof("--on", "ts", "--by", "robot_id", "--explain", "--report")
    assert result.exit_code == 0, result.stderr
    assert "robot_id" in result.stdout
    assert "closed" in result.stdout
    assert "3 rows" in result.stdout
    assert "As-of join in-process" in result.stderr
    assert "100.00%" in result.stderr


def test_a_report_is_shown_quietly(folder):
    same = ["asof", "frames.parquet", "telemetry.parquet", "--on", "ts", "--report", "-o", "out.csv"]
    shown = CliRunner().invoke(app, ["-q", "join", *same]).stderr
    assert "100.00%" in shown
    assert "Wrote" not in shown
    assert "Joining" not in shown


def test_only_so_many_rows_are_shown(folder):
    result = asof("--on", "ts", "--by", "robot_id", "--rows", "1")
    assert "the first 1 row of 3" in result.stdout
    assert "closed" not in result.stdout


def test_outputs(folder):
    for name, read in {
        "out.parquet": pq.read_table,
        "out": pq.read_table,
        "out.csv": csv.read_csv,
        "out.json": lambda name: pa.Table.from_pylist(list(map(json.loads, Path(name).read_text().splitlines()))),
    }.items():
        result = asof("--on", "ts", "--by", "robot_id", "-o", name)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert f"Wrote 3 rows to {name}." in result.stderr
        assert read(name).to_pydict() == JOINED
    assert names(folder) == ["frames.parquet", "out", "out.csv", "out.json", "out.parquet", "telemetry.parquet"]


def test_inputs_of_any_format(folder):
    csv.write_csv(FRAMES, "frames.txt")
    (folder / "telemetry.ndjson").write_text("".join(json.dumps(row) + "\n" for row in TELEMETRY.to_pylist()))
    (folder / "telemetry").mkdir()
    for row in range(3):
        csv.write_csv(TELEMETRY.slice(row, 1), f"telemetry/{row}.csv")
    for left, right, options in (
        ("frames.parquet", "telemetry.ndjson", []),
        ("frames.parquet", "telemetry", []),
        ("frames.parquet", "telemetry/*.csv", []),
        ("frames.txt", "telemetry", ["--format", "csv"]),
    ):
        result = asof(
            "--on", "ts", "--by", "robot_id", "-o", "out.parquet", "--overwrite", *options, left=left, right=right
        )
        assert result.exit_code == 0, result.stderr
        assert pq.read_table("out.parquet").to_pydict() == JOINED


def test_files_that_lack_columns(folder):
    (folder / "many").mkdir()
    pq.write_table(TELEMETRY.slice(0, 1).drop(["gripper"]), "many/0.parquet")
    pq.write_table(TELEMETRY.slice(1), "many/1.parquet")
    arguments = ("--on", "ts", "--by", "robot_id", "-o", "out.parquet")
    assert "column 'gripper' exists only in 'many/1.parquet'" in asof(*arguments, right="many").stderr
    result = asof(*arguments, "--union-by-name", right="many")
    assert result.exit_code == 0, result.stderr
    assert pq.read_table("out.parquet").schema.names == list(JOINED)


def test_all_options(folder):
    result = asof(
        *("--left-on", "ts", "--right-on", "ts", "--left-by", "robot_id", "--right-by", "robot_id"),
        *("--direction", "nearest", "--tolerance", "3", "--no-allow-exact-matches", "--how", "inner", "--matches", "2"),
        *("--order-by", "gripper", "--ties", "error", "--suffix", "_theirs", "--no-coalesce", "--algorithm", "merge"),
        *("-o", "out.parquet"),
    )
    assert result.exit_code == 0, result.stderr
    assert pq.read_table("out.parquet").select(["frame_id", "ts_theirs"]).to_pydict() == {
        "frame_id": [1, 1, 2],
        "ts_theirs": [1, 4, 4],
    }


def test_right_rows_that_were_not_available_do_not_match(folder):
    pq.write_table(pa.table({"ts": [5], "seen": [9]}), "left.parquet")
    pq.write_table(pa.table({"ts": [1, 2, 3], "ingested": [4, 8, 10], "v": [1, 2, 3]}), "right.parquet")
    for more, value in (([], 1), (["--available-at", "seen"], 2)):
        columns = ["--on", "ts", "--available-at", "ingested", *more, "-o", "o.parquet", "--overwrite"]
        result = asof(*columns, left="left.parquet", right="right.parquet")
        assert result.exit_code == 0, result.stderr
        assert pq.read_table("o.parquet")["v"].to_pylist() == [value]


def test_several_columns_order_rows(folder):
    rows = pa.table({"day": [1, 1, 2], "seq": [3, 9, 1], "v": [1, 2, 3]})
    pq.write_table(rows, "right.parquet")
    pq.write_table(rows.slice(1), "left.parquet")
    same = ["--on", "day", "--on", "seq"]
    sides = ["--left-on", "day", "--left-on", "seq", "--right-on", "day", "--right-on", "seq"]
    for columns in (same, sides):
        files = ("-o", "o.parquet", "--overwrite")
        result = asof(*columns, "--no-allow-exact-matches", *files, left="left.parquet", right="right.parquet")
        assert result.exit_code == 0, result.stderr
        assert pq.read_table("o.parquet")["v_right"].to_pylist() == [1, 2]
    reported = asof(*same, "--report", left="left.parquet", right="right.parquet").stderr
    assert "values of on have an order alone" in reported


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "ts", "--by", "robot"], "Did you mean 'robot_id'?"),
        ([], "exactly one column to order by"),
        (["--on", "ts", "--tolerance", "5 parsecs"], "neither a duration"),
        (["--on", "ts", "--tolerance", " "], "--tolerance is empty"),
        (["--on", "ts", "--tolerance", "-1"], "negative"),
        (["--on", "ts", "--tolerance", "1m"], "Pass a number"),
        (["--on", "ts", "--direction", "sideways"], "'backward', 'forward', 'nearest'"),
        (["--on", "ts", "--algorithm", "broadcast"], "on Spark"),
        (["--on", "ts", "--engine", "flink"], "'local', 'spark'"),
        (["--on", "ts", "-o", "frames.parquet"], "--overwrite"),
        (["--on", "ts", "-o", "nowhere/out.parquet"], "the folder nowhere does not exist"),
        (["--on", "ts", "-o", "s3://bucket/out.parquet"], "is a URI. Expected a file or folder of this machine"),
        (["--on", "ts", "-o", "out.xlsx"], "has no extension of a known format"),
        (["--on", "ts", "--format", "xml"], "'parquet', 'csv', 'tsv', 'json', 'arrow'"),
        (["--on", "ts", "--matches", "0"], "not a positive integer"),
    ],
)
def test_mistakes(folder, arguments, message):
    result = asof(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert names(folder) == ["frames.parquet", "telemetry.parquet"]


@pytest.mark.parametrize("name", ["nothing.parquet", "nothing.csv", "*.csv"])
def test_an_input_that_is_not_there(folder, name):
    result = asof("--on", "ts", right=name)
    assert result.exit_code == 2
    assert f"The right input {name} does not exist." in result.stderr


@pytest.mark.parametrize("arguments", [("",), (" ", "--format", "parquet")])
def test_an_input_without_a_name(folder, arguments):
    name, *options = arguments
    result = asof("--on", "ts", *options, right=name)
    assert result.exit_code == 2
    assert f"RIGHT {name!r} is empty." in result.stderr


def test_folders_that_stand_for_columns(folder):
    for row in range(3):
        parquet, text = folder / "parquet" / f"n={row}", folder / "text" / f"n={row}"
        parquet.mkdir(parents=True)
        text.mkdir(parents=True)
        pq.write_table(TELEMETRY.slice(row, 1), parquet / "rows.parquet")
        csv.write_csv(TELEMETRY.slice(row, 1), text / "rows.csv")
    result = asof("--on", "ts", "--by", "robot_id", "-o", "out.parquet", right="parquet")
    assert result.exit_code == 0, result.stderr
    assert pq.read_table("out.parquet").to_pydict() == {**JOINED, "n": [0, 1, 2]}
    for text in ("text", "text/*/*.csv", "text/n=*"):
        result = asof("--on", "ts", "--by", "robot_id", "-o", "out.parquet", "--overwrite", right=text)
        assert result.exit_code == 0, result.stderr
        assert pq.read_table("out.parquet").to_pydict() == {**JOINED, "n": [0, 1, 2]}, text


def test_an_input_that_is_cut_off(folder):
    whole = (folder / "telemetry.parquet").read_bytes()
    (folder / "telemetry.parquet").write_bytes(whole[: len(whole) // 2])
    result = asof("--on", "ts", "-o", "out.parquet")
    assert result.exit_code == 2
    assert "telemetry.parquet" in result.stderr
    assert names(folder) == ["frames.parquet", "telemetry.parquet"]


def test_an_output_that_fails_leaves_the_old_one(folder):
    pq.write_table(FRAMES.append_column("path", [[[1], [2], [3]]]), "frames.parquet")
    (folder / "out.csv").write_text("old")
    result = asof("--on", "ts", "-o", "out.csv", "--overwrite")
    assert result.exit_code == 2
    assert "column 'path' of type list" in result.stderr
    assert (folder / "out.csv").read_text() == "old"
    assert names(folder) == ["frames.parquet", "out.csv", "telemetry.parquet"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(folder, number, code):
    rows = 1_000_000
    pq.write_table(pa.table({"ts": pa.array(range(rows)), "x": pa.array(range(rows))}), "big.parquet")
    command = ("join", "asof", "big.parquet", "big.parquet", "--on", "ts", "-o", "out.json")
    scratch = folder / "scratch"
    scratch.mkdir()
    with juncture(*command, cwd=folder, env={**os.environ, "TMPDIR": str(scratch)}) as process:
        deadline = time.monotonic() + 60
        while not any(name.startswith(".out.json") for name in names(folder)) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert names(folder) == ["big.parquet", "frames.parquet", "scratch", "telemetry.parquet"]
    assert names(scratch) == []
