"""`juncture warmup`, and what a join says of kernels that it has to compile."""

from __future__ import annotations

from pathlib import Path

import numba
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.main import app
from juncture.kernels import asof, compiled, warmup
from juncture.kernels.warmup import Warmup


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (Warmup(40, 40, ("/there",), 12.34), "Compiled 40 of 40 kernels in 12.3 s, in /there."),
        (Warmup(40, 30, ("/here", "/there"), 9.0), "Compiled 30 of 40 kernels in 9.0 s, 10 were there, in /here and"),
        (Warmup(40, 0, ("/there",), 0.5), "All 40 kernels were there, in /there."),
        (Warmup(40, 40, (), 12.34), "Compiled 40 of 40 kernels in 12.3 s. No folder can be written to keep them"),
    ],
)
def test_what_was_done_is_said(monkeypatch, done, said):
    monkeypatch.setattr(warmup, "warm_up", lambda told, **_: told(0, 40) or done)
    result = CliRunner().invoke(app, ["warmup"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(said)
    assert ("NUMBA_CACHE_DIR" in result.stdout) == (not done.folders)


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """Stand in a folder with a table, where one kernel has yet to be compiled."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"ts": [1, 2, 3]}), "table.parquet")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled._compiler, "logged", set())
    monkeypatch.setattr(asof.choose, "_machine_code", None)
    return tmp_path


def test_a_join_says_once_that_it_compiles(folder):
    arguments = ("table.parquet", "table.parquet", "--on", "ts", "--algorithm", "probe")
    outputs = [
        CliRunner().invoke(app, [command, "asof", *arguments, *rest]).stderr
        for command, *rest in (["join"], ["join"], ["explain", "--analyze"])
    ]
    assert ["once" in line and "juncture warmup" in line for line in outputs[0].splitlines()].count(True) == 1
    assert not any("kernels" in output for output in outputs[1:])
