"""`juncture calibrate`: constants are measured, written, and chosen by."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from juncture.calibrate import local
from juncture.cli.main import app
from juncture.planner.constants import read_constants

MEASURED = {"order_ns", "probe_ns", "merge_ns", "pass_ns", "arrange_ns", "span_pair_ns", "block_pair_ns"} | {
    *(
        "nested_pair_ns",
        "equi_probe_ns",
        "dense_key_ns",
        "hash_build_ns",
        "partition_ns",
        "merge_left_ns",
        "merge_right_ns",
        "restore_ns",
        "spill_ns",
    ),
}


@pytest.fixture(autouse=True)
def small_tables(tmp_path, monkeypatch):
    """Measure what takes no time: whether the figures are right is not the question here."""
    monkeypatch.chdir(tmp_path)
    measure = local.measure_local
    monkeypatch.setattr(local, "measure_local", lambda told: measure(told, rows=2_000))


def calibrate(*arguments):
    return CliRunner().invoke(app, ["calibrate", *arguments])


def test_what_is_measured_is_written_and_read():
    result = calibrate("-o", "here.toml")
    assert result.exit_code == 0, result.output
    written = tomllib.loads(Path("here.toml").read_text())
    assert set(written) == MEASURED
    assert read_constants("here.toml").order_ns == written["order_ns"] > 0
    assert "built in" in result.stdout
    assert "JUNCTURE_CONSTANTS=here.toml" in result.stderr


def test_a_file_that_is_there_is_kept():
    Path("here.toml").write_text("order_ns = 1\n")
    result = calibrate("-o", "here.toml")
    assert result.exit_code != 0
    assert "--overwrite" in result.stderr
    assert Path("here.toml").read_text() == "order_ns = 1\n"


def test_an_unknown_engine_is_refused():
    result = calibrate("--engine", "sparc")
    assert result.exit_code != 0
    assert "Did you mean 'spark'?" in " ".join(result.stderr.split())
