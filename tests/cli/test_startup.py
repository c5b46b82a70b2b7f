"""What a command loads before it answers: help and mistakes are told without what reads, joins or plans."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from juncture.cli.main import LazyCommand, LazyGroup, app

ENGINES = {"numba", "llvmlite", "pandas", "polars", "duckdb", "sqlglot", "pyspark", "pyarrow.compute", "psycopg"}
ARROW = {"numpy", "pyarrow"}
PIPELINE = '[sources.a]\npth = "a.parquet"\n'
COMMANDS = {
    "help": ("--help", 0, ENGINES | ARROW),
    "help of a join": ("join asof --help", 0, ENGINES | ARROW),
    "no such command": ("jion", 2, ENGINES | ARROW),
    "no such option": ("join asof a.csv b.csv --onn ts", 2, ENGINES | ARROW),
    "no such file": ("join asof nothing.csv nothing.csv --on ts", 2, ENGINES | ARROW),
    "no such file to explain": ("explain equi nothing.csv nothing.csv --on ts", 2, {"numba", "pandas", "pyspark"}),
    "wrong value": ("join asof juncture.toml juncture.toml --on ts --direction up", 2, ENGINES),
    "wrong pipeline": ("check", 2, ENGINES),
}


@pytest.mark.parametrize(("command", "code", "heavy"), COMMANDS.values(), ids=COMMANDS)
def test_help_and_mistakes_are_told_at_once(command, code, heavy, tmp_path):
    (tmp_path / "juncture.toml").write_text(PIPELINE)
    program = (
        "import json, sys\n"
        "from typer.testing import CliRunner\n"
        "from juncture.cli.main import app\n"
        f"assert CliRunner().invoke(app, {command.split()!r}).exit_code == {code}\n"
        f"print(json.dumps([name for name in {sorted(heavy)!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == []


def test_commands_are_listed_as_they_call_themselves():
    for command in LazyGroup().commands.values():
        assert isinstance(command, LazyCommand)
        assert command.help == (command.load().help or "").splitlines()[0]


def test_a_command_that_is_nearly_right_is_suggested():
    done = CliRunner().invoke(app, ["jion"])
    assert "Did you mean 'join'?" in done.output


@pytest.mark.parametrize("option", ["--quiet", "-q", "--debug", "-v"])
def test_options_of_all_commands_stand_before_them(option):
    done = CliRunner().invoke(app, ["join", "asof", "a.csv", "b.csv", "--on", "ts", option])
    assert done.exit_code == 2
    assert f"{option} belongs before the command. Pass `juncture {option} join asof …`" in done.stderr


def test_wrong_options_are_told_as_other_mistakes_are():
    done = CliRunner().invoke(app, ["join", "asof", "a.csv", "b.csv", "--onn", "ts"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Wrong argument\n  No such option: --onn")
    assert done.stderr.endswith("join asof --help`.\n")
