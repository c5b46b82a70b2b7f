"""Every failure ends in one block on standard error and its own exit code."""

import pytest
import typer
from typer.testing import CliRunner

from juncture import errors
from juncture.cli.failures import ReportingGroup
from juncture.cli.main import app as juncture_app

CARRIED = """[PYTHON_EXCEPTION] Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise DataError("x")
juncture.errors.DataError: Right rows tie for left row 3. Name order_by columns
that decide.

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""


RAISED = "[USER_RAISED_EXCEPTION] juncture.errors.DataError: Right rows tie. SQLSTATE: P0001\n\tat org.apache.spark"


def run(error, *arguments):
    app = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)

    @app.callback()
    def root(context: typer.Context, debug: bool = False) -> None:
        context.obj = {"debug": debug}

    @app.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(app, [*arguments, "fail"])


@pytest.mark.parametrize("name", ["SpecError", "SchemaError", "PlanError", "DataError", "StateError"])
def test_a_mistake(name):
    result = run(getattr(errors, name)("The column 'x' is missing. " * 8))
    assert result.exit_code == 2
    assert result.stdout == ""
    title, message = result.stderr.splitlines()
    assert title
    assert message.strip() == ("The column 'x' is missing. " * 8).strip()


def test_a_file(tmp_path):
    result = run(PermissionError(13, "Permission denied", str(tmp_path / "x")))
    assert result.exit_code == 2
    assert f"{tmp_path / 'x'}: Permission denied." in result.stderr


def test_a_full_disk():
    result = run(OSError(28, "No space left on device"))
    assert result.exit_code == 2
    assert "Problem with a file\n  No space left on device." in result.stderr


def test_an_error_that_a_spark_worker_raised():
    result = run(RuntimeError(CARRIED))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "Problem in the data",
        "  Right rows tie for left row 3. Name order_by columns",
        "that decide.",
    ]


def test_an_error_that_a_query_raised():
    result = run(RuntimeError(RAISED))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["Problem in the data", "  Right rows tie."]


def test_an_error_that_nobody_foresaw():
    result = run(ZeroDivisionError("by zero\nand more"))
    assert result.exit_code == 1
    assert "ZeroDivisionError: by zero" in result.stderr
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_it_came_from():
    result = run(ZeroDivisionError("by zero"), "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "raise error" in result.stderr


def test_an_interrupt():
    result = run(KeyboardInterrupt())
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr


def test_a_slip_of_the_keyboard():
    result = CliRunner().invoke(juncture_app, ["join", "asof", "a", "b", "--toleranc", "5m"])
    assert result.exit_code == 2
    assert "--tolerance" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "calibrate"),
        (["join"], "overlap"),
        (["bench"], "its answer checked"),
        (["join", "asof", "--help"], "--tolerance"),
    ],
)
def test_help(arguments, said):
    result = CliRunner().invoke(juncture_app, arguments)
    assert "Usage" in result.output
    assert said in result.output


def test_version():
    result = CliRunner().invoke(juncture_app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("juncture 0.")
