"""`juncture -v`: what the library logs, on standard error."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.console import show_log
from juncture.cli.main import app

JOIN = ("join", "asof", "table.parquet", "table.parquet", "--on", "ts")
CHOSEN = "INFO juncture.planner.plan: As-of join in-process by merge: lowest estimated cost"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"ts": [1, 2, 3]}), "table.parquet")


def lines(*arguments: str) -> list[str]:
    """Return what a command writes to standard error."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stderr.splitlines()


def test_lines_are_shown_as_far_as_they_are_asked_for():
    assert not any("juncture." in line for line in lines(*JOIN))
    once = lines("-v", *JOIN)
    assert [line for line in once if line.startswith(CHOSEN)]
    assert not any(line.startswith("DEBUG") for line in once)
    twice = lines("-vv", *JOIN)
    assert [line for line in twice if line.startswith(CHOSEN)]
    assert [line for line in twice if line.startswith("DEBUG juncture.runtime.progress: Phase left took")]
    assert not any("juncture." in line for line in lines(*JOIN))


def test_what_somebody_shows_already_is_not_shown_twice(capsys):
    logger = logging.getLogger("juncture.kernels")
    with show_log("juncture", logging.INFO, "%(levelname)s: %(message)s"), show_log("juncture.kernels", logging.INFO):
        logger.info("once")
        logger.debug("never")
    logger.info("never")
    assert capsys.readouterr().err == "INFO: once\n"
