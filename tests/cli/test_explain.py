"""`juncture explain`: the arguments of `juncture join`, and the plan in three forms."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from juncture.cli.main import app

INTERVALS = ["--left-interval", "start", "end", "--right-interval", "start", "end"]
ARGUMENTS = {
    "asof": ["--on", "start", "--by", "k"],
    "range": ["--on", "start", "--lower", "-1"],
    "overlap": INTERVALS,
    "where": ["l.start < r.end"],
    "equi": ["--on", "k"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Stand in a folder with two small tables, as a user would."""
    monkeypatch.chdir(tmp_path)
    table = pa.table({"start": [1, 4], "end": [2, 5], "k": ["a", "b"]})
    pq.write_table(table, "left.parquet")
    csv.write_csv(table, "right.csv")
    return tmp_path


def explain(kind, *arguments):
    return CliRunner().invoke(app, ["explain", kind, "left.parquet", "right.csv", *ARGUMENTS[kind], *arguments])


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_every_kind_of_join_is_explained_and_not_run(kind):
    result = explain(kind)
    assert result.exit_code == 0, result.output
    assert " join in-process\n  meaning " in result.stdout
    assert "options" in result.stdout
    assert "measured" not in result.stdout
    assert "Joining" not in result.stderr


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_join_can_be_analyzed(kind):
    result = explain(kind, "--analyze", "--output-format", "json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["measured"]["left_rows"] == facts["measured"]["right_rows"] == 2
    assert facts["spec"]["kind"] == kind


def test_the_ending_says_what_is_written(folder):
    assert explain("asof", "--analyze", "-o", "plan.html").exit_code == 0
    assert Path("plan.html").read_text().startswith("<!doctype html>")
    assert explain("asof", "-o", "plan.json").exit_code == 0
    assert json.loads(Path("plan.json").read_text())["algorithm"] == "merge"
    assert explain("asof", "-o", "plan.data", "--output-format", "text").exit_code == 0
    assert Path("plan.data").read_text().startswith("As-of join in-process\n")
    assert len(list(folder.iterdir())) == 5


def test_options_of_rows_are_not_there():
    help_text = CliRunner().invoke(app, ["explain", "asof", "--help"], env={"COLUMNS": "200"}).stdout
    assert "--tolerance" in help_text
    assert "--analyze" in help_text
    assert "--report" not in help_text
    assert "--rows" not in help_text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["-o", "plan.pdf"], "extension of --output='.pdf' is unknown", id="ending"),
        pytest.param(
            ["--output-format", "htlm"],
            "--output-format='htlm' is unknown. Expected one of 'text', 'json', 'html'",
            id="form",
        ),
        pytest.param(["-o", "left.parquet", "--output-format", "text"], "Pass --overwrite", id="exists"),
        pytest.param(["--tolerance", "x y"], "tolerance", id="spec"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(folder, arguments, said):
    result = explain("asof", *arguments)
    assert result.exit_code != 0
    assert said in " ".join(result.stderr.split())
    assert len(list(folder.iterdir())) == 2
