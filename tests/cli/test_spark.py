"""The command line on Spark. Each command is a process of its own, since it starts and stops a session."""

import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
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


@pytest.fixture
def folder(tmp_path):
    pq.write_table(FRAMES, tmp_path / "frames.parquet")
    pq.write_table(TELEMETRY, tmp_path / "telemetry.parquet")
    (tmp_path / "scratch").mkdir()
    return tmp_path


def start(folder, *arguments):
    with no_session():
        return subprocess.Popen(
            [sys.executable, "-c", "from juncture.cli.main import main; main()", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder / "scratch")},
        )


def run(folder, *arguments):
    with start(folder, *arguments) as process:
        stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def left_behind(folder):
    """Return what of ours is left in the folder for temporary files; Spark's own goes when its JVM has ended."""
    return [name for name in names(folder / "scratch") if name.startswith("juncture")]


def test_the_same_text_as_in_process(folder):
    code, stdout, stderr = run(folder, *JOIN, "-o", "spark.csv", "--explain", "--report")
    assert code == 0, stderr
    assert stdout == ""
    assert "As-of join on Spark" in stderr
    assert "Wrote 3 rows to spark.csv." in stderr
    assert "ties              1" in stderr
    assert "WARN" not in stderr
    assert run(folder, *JOIN[:-2], "-o", "local.csv")[0] == 0
    lines = [sorted((folder / name).read_text().splitlines()) for name in ("spark.csv", "local.csv")]
    assert lines[0] == lines[1]
    assert left_behind(folder) == []


def test_an_error_in_a_task_leaves_nothing(folder):
    code, _, stderr = run(folder, *JOIN, "-o", "out.parquet", "--ties", "error")
    assert code == 2
    assert "Problem in the data\n" in stderr
    assert "Traceback" not in stderr
    assert "SQLSTATE" not in stderr
    assert names(folder) == ["frames.parquet", "scratch", "telemetry.parquet"]


def test_no_java(folder):
    command = ["-c", "import os; os.environ['JAVA_HOME'] = '/nowhere'; from juncture.cli.main import main; main()"]
    done = subprocess.run([sys.executable, *command, *JOIN], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 2
    assert "openjdk-17-jre-headless" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A folder in which a demo has run."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "scratch").mkdir()
    code, stdout, stderr = run(folder, "demo")
    assert code == 0, stderr
    return folder, stdout, stderr


def test_the_demo_joins_flights_to_the_weather(demo):
    from juncture.datasets import flights, weather

    folder, stdout, stderr = demo
    expected = jn.join_asof(flights(), weather(), left_on="departure", right_on="observed", by="origin", tolerance="2h")
    written = pq.read_table(folder / "demo-output")
    assert written.schema.names == expected.schema.names
    assert written.num_rows == expected.num_rows == 336_776
    order = [("departure", "ascending"), ("carrier", "ascending"), ("flight", "ascending"), ("tailnum", "ascending")]
    assert written.sort_by(order)["observed"].equals(expected.sort_by(order)["observed"])
    matched = expected.num_rows - expected["observed"].null_count
    for line in ("The plan", "As-of join on Spark", "Some rows", "Match report", "Wrote 336,776 rows", f"{matched:,}"):
        assert line in stdout
    assert "Joining on Spark" in stderr
    assert left_behind(folder) == []


@pytest.mark.nightly
def test_an_interrupted_demo_keeps_the_output_of_the_one_before(demo):
    folder, _, _ = demo
    before = names(folder / "demo-output")
    with start(folder, "demo") as process:
        deadline = time.monotonic() + 200
        while not any(name.startswith(".demo-output") for name in names(folder)) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=100)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert names(folder) == ["demo-output", "scratch"]
    assert names(folder / "demo-output") == before
    assert left_behind(folder) == []


def test_the_demo_replaces_nothing_but_a_demo(folder):
    (folder / "demo-output").mkdir()
    code, _, stderr = run(folder, "demo")
    assert code == 2
    assert "no demo has made it" in stderr
