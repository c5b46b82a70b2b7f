"""`juncture join equi`: the rows of the library's function, and one block for a mistake."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app

CUSTOMERS = pa.table({"id": [3, 1, None, 2], "name": ["c", "a", "?", "b"], "least": [4.0, 8.0, 0.0, 0.0]})
SALES = pa.table({"id": [1, 3, 1, None], "price": [10.0, 5.0, 7.5, 1.0]})
EQUI = ("equi", "customers.parquet", "sales.parquet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(CUSTOMERS, "customers.parquet")
    pq.write_table(SALES, "sales.parquet")
    return tmp_path


def join(*arguments):
    return CliRunner().invoke(app, ["join", *arguments])


def written(*arguments):
    """Join into a file, and read it."""
    result = join(*EQUI, *arguments, "-o", "out.parquet", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return pq.read_table("out.parquet")


def test_rows(folder):
    assert written("--on", "id") == jn.join(CUSTOMERS, SALES, on="id")
    assert written(
        *("--left-on", "id", "--right-on", "id", "--how", "full", "--where", "r.price > l.least", "--nulls-equal"),
        *("--no-coalesce", "--suffix", "_sale", "--algorithm", "grace", "--memory", "100MB"),
    ) == jn.join(
        CUSTOMERS,
        SALES,
        on="id",
        how="full",
        where="r.price > l.least",
        nulls_equal=True,
        coalesce=False,
        suffix="_sale",
    )


def test_rows_are_shown(folder):
    result = join(*EQUI, "--on", "id", "--explain")
    assert result.exit_code == 0, result.stderr
    assert "price" in result.stdout
    assert "Equality join in-process" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs a key"),
        (("--on", "name"), "is not a column of the right table"),
        (("--on", "id", "--how", "outer"), "'inner', 'left', 'right', 'full', 'semi', 'anti'"),
        (("--on", "id", "--memory", "much"), "not a positive size"),
        (("--on", "id", "--memory", "1MB"), "the minimum is 64.0 MB"),
        (("--on", "id", "--where", "l.least >"), "l.least >"),
        (("--on", "id", "--algorithm", "hsah"), "Did you mean 'hash'?"),
    ],
)
def test_mistakes(folder, arguments, message):
    result = join(*EQUI, *arguments, "-o", "out.parquet")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("out.parquet").exists()
