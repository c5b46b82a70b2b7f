"""The command line on Spark, in processes of their own, since commands start and stop sessions."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.cli.spark import spark_session
from support.processes import no_session

pytestmark = pytest.mark.early

FRAMES = pa.table(
    {
        "ts": pa.array([2, 5, 8], pa.timestamp("us", "UTC")),
        "robot_id": ["arm_001", "arm_001", "arm_002"],
        "frame_id": [1, 2, 3],
    }
)
TELEMETRY = pa.table(
    {
        "ts": pa.array([1, 4, 4, 8], pa.timestamp("us", "UTC")),
        "robot_id": ["arm_001", "arm_001", "arm_001", "arm_002"],
        "angle": [10.0, 15.0, 20.0, 30.0],
    }
)
JOIN = ("join", "asof", "frames.parquet", "telemetry.parquet", "--on", "ts", "--by", "robot_id", "--engine", "spark")


DEMO = str(Path(__file__).parents[2] / "examples" / "demo")
IN_TURN = """
import json, runpy, sys
from juncture.cli.main import main
for command, *arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = [command, *arguments]
    code = 0
    try:
        if "/" in command:
            sys.argv = [command, *arguments]
            runpy.run_path(command, run_name="__main__")
        else:
            main()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        print(f"\\x1e{code}\\x1f", end="", file=stream, flush=True)
"""
"""Runs commands as the command line does, and writes after the texts of each how it has ended."""


@dataclass(frozen=True)
class Ended:
    """How a command has ended, and what it has written."""

    code: int
    stdout: str
    stderr: str


def make_folder(folder):
    """Write the tables of a join to a folder, and make one for temporary files."""
    pq.write_table(FRAMES, folder / "frames.parquet")
    pq.write_table(TELEMETRY, folder / "telemetry.parquet")
    (folder / "scratch").mkdir()
    return folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path)


def start(folder, *commands):
    with no_session():
        return subprocess.Popen(
            [sys.executable, "-c", IN_TURN, json.dumps(commands)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "scratch")},
        )


def run(folder, *commands):
    """Run commands in one process, and return how each has ended."""
    with start(folder, *commands) as process:
        texts = process.communicate(timeout=300)
    assert process.returncode == 0, texts
    stdout, stderr = (re.findall("(.*?)\x1e(\\d+)\x1f", text, re.DOTALL) for text in texts)
    assert len(stdout) == len(stderr) == len(commands), texts
    return [Ended(int(code), out, err) for (out, code), (err, _) in zip(stdout, stderr, strict=True)]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def left_behind(folder):
    """Return what of ours is left in the folder for temporary files; Spark's own goes when its JVM has ended."""
    return [name for name in names(folder / "scratch") if name.startswith("juncture")]


COMMANDS = {
    "join on Spark": [*JOIN, "-o", "spark.csv", "--explain", "--report"],
    "join in-process": [*JOIN[:-2], "-o", "local.csv"],
    "a header alone on Spark": [
        *("join", "equi", "frames.parquet", "header.csv", "--on", "robot_id", "--how", "left"),
        *("--engine", "spark", "-o", "-"),
    ],
    "error in a task": [*JOIN, "-o", "out.parquet", "--ties", "error"],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder in which commands have run, and how each has ended.

    The first has Spark started; the others need not wait for a JVM of their own.
    """
    folder = make_folder(tmp_path_factory.mktemp("commands"))
    (folder / "header.csv").write_text("robot_id,limit\n")
    return folder, dict(zip(COMMANDS, run(folder, *COMMANDS.values()), strict=True))


def test_the_same_text_as_in_process(done):
    folder, ended = done
    on_spark = ended["join on Spark"]
    assert on_spark.code == 0, on_spark.stderr
    assert on_spark.stdout == ""
    assert "As-of join on Spark" in on_spark.stderr
    assert "Wrote 3 rows to spark.csv." in on_spark.stderr
    assert re.search(r"^ties +1 ", on_spark.stderr, re.MULTILINE)
    assert "WARN" not in on_spark.stderr
    assert ended["join in-process"].code == 0
    lines = [sorted((folder / name).read_text().splitlines()) for name in ("spark.csv", "local.csv")]
    assert lines[0] == lines[1]


def test_a_header_alone_is_a_table_without_rows_on_spark(done):
    _, ended = done
    joined = ended["a header alone on Spark"]
    assert joined.code == 0, joined.stderr
    header, *rows = joined.stdout.splitlines()
    assert header == '"ts","robot_id","frame_id","limit"'
    assert len(rows) == 3
    assert all(row.endswith(",") for row in rows)


def test_an_error_in_a_task_leaves_nothing(done):
    _, ended = done
    error = ended["error in a task"]
    assert error.code == 2
    assert "Problem in the data\n" in error.stderr
    assert "Traceback" not in error.stderr
    assert "SQLSTATE" not in error.stderr


def test_nothing_is_left_but_the_outputs(done):
    folder, _ = done
    outputs = ["local.csv", "spark.csv"]
    assert names(folder) == sorted(["frames.parquet", "header.csv", "scratch", "telemetry.parquet", *outputs])
    assert left_behind(folder) == []


def test_no_java(folder):
    command = ["-c", "import os; os.environ['JAVA_HOME'] = '/nowhere'; from juncture.cli.main import main; main()"]
    ended = subprocess.run([sys.executable, *command, *JOIN], capture_output=True, text=True, cwd=folder)
    assert ended.returncode == 2
    assert "openjdk-17-jre-headless" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A folder in which the demo has run, and how it has ended."""
    folder = make_folder(tmp_path_factory.mktemp("demo"))
    [ended] = run(folder, [DEMO])
    return folder, ended


@pytest.mark.nightly
def test_the_demo_joins_flights_to_the_weather(demo):
    from juncture.datasets import flights, weather

    folder, demo = demo
    assert demo.code == 0, demo.stderr
    assert names(folder) == ["demo-output", "frames.parquet", "scratch", "telemetry.parquet"]
    assert left_behind(folder) == []
    expected = jn.join_asof(flights(), weather(), left_on="departure", right_on="observed", by="origin", tolerance="2h")
    written = pq.read_table(folder / "demo-output")
    assert written.schema.names == expected.schema.names
    assert written.num_rows == expected.num_rows == 336_776
    order = [("departure", "ascending"), ("carrier", "ascending"), ("flight", "ascending"), ("tailnum", "ascending")]
    assert written.sort_by(order)["observed"].equals(expected.sort_by(order)["observed"])
    matched = expected.num_rows - expected["observed"].null_count
    for line in ("The plan", "As-of join on Spark", "Some rows", "Match report", "Wrote 336,776 rows", f"{matched:,}"):
        assert line in demo.stdout
    assert "Joining on Spark" in demo.stderr


@pytest.mark.parametrize("is_ended", [True, False])
def test_the_end_of_the_process_cancels_jobs_first(monkeypatch, is_ended):
    asked, session = [], Mock()
    session.sparkContext.cancelAllJobs = lambda: asked.append("cancel")
    session.stop = Mock(side_effect=ConnectionRefusedError("the JVM has gone"))
    monkeypatch.setattr("juncture.spark.session.session.session_at", lambda *_, **__: session)
    before = signal.signal(signal.SIGTERM, lambda *_: asked.append("end"))
    try:
        with spark_session():
            if is_ended:
                signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert asked == [*(["cancel", "end"] if is_ended else []), "end"]
    session.stop.assert_called_once()


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_keeps_the_output_of_the_one_before(demo, number, code):
    folder, _ = demo
    there, before = names(folder), names(folder / "demo-output")
    with start(folder, [DEMO]) as process:
        deadline = time.monotonic() + 200
        while not any(name.startswith(".demo-output") for name in names(folder)) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=100)
    assert f"\x1e{code}\x1f" in stderr
    assert "Traceback" not in stderr
    assert names(folder) == there
    assert names(folder / "demo-output") == before
    assert left_behind(folder) == []


def test_the_demo_replaces_nothing_but_a_demo(folder):
    (folder / "demo-output").mkdir()
    [ended] = run(folder, [DEMO])
    assert ended.code == 2
    assert "was not written by a demo" in ended.stderr
