"""`juncture join range`, `overlap` and `where`: the rows of the library's functions, and one block for a mistake."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app

EVENTS = pa.table({"at": [100, 200], "site": ["a", "b"], "back": [15, 60], "event": ["login", "purchase"]})
MEASUREMENTS = pa.table({"at": [35, 90, 100, 150], "site": ["a", "a", "b", "b"], "value": [1.0, 2.0, 4.0, 8.0]})
CALLS = pa.table({"start": [10, 50], "end": [20, 60], "cell": ["x", "y"]})
OUTAGES = pa.table({"begin": [5, 15, 20], "finish": [11, 30, 55], "cell": ["x", "y", "y"]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, table in {"events": EVENTS, "measurements": MEASUREMENTS, "calls": CALLS, "outages": OUTAGES}.items():
        pq.write_table(table, f"{name}.parquet")
    return tmp_path


def join(*arguments):
    return CliRunner().invoke(app, ["join", *arguments])


def written(*arguments):
    """Join into a file, and read it."""
    result = join(*arguments, "-o", "out.parquet")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    table = pq.read_table("out.parquet")
    assert f"Wrote {table.num_rows} row" in result.stderr
    return table


RANGE = ("range", "events.parquet", "measurements.parquet")
OVERLAP = ("overlap", "calls.parquet", "outages.parquet")
WHERE = ("where", "events.parquet", "measurements.parquet")


def test_range(folder):
    assert written(*RANGE, "--on", "at", "--lower", "-60", "--upper", "0") == jn.join_range(
        EVENTS, MEASUREMENTS, on="at", lower=-60, upper=0
    )


def test_range_with_all_options(folder):
    assert written(
        *(*RANGE, "--left-on", "at", "--right-on", "at", "--left-by", "site", "--right-by", "site"),
        *("--lower", "-70.5", "--upper", "back", "--closed", "right", "--how", "left", "--suffix", "_theirs"),
        *(
            "--agg",
            "value=mean, quantile:0.75, arg_max:at",
            "--agg",
            "*=count",
            "--algorithm",
            "binary_search",
            "--explain",
        ),
    ) == jn.join_range(
        EVENTS,
        MEASUREMENTS,
        on="at",
        by="site",
        lower=-70.5,
        upper="back",
        closed="right",
        how="left",
        suffix="_theirs",
        agg={"value": ["mean", ("quantile", 0.75), ("arg_max", "at")], "*": "count"},
    )


def test_aggregates_of_predicate_and_equality_joins(folder):
    agg = {"value": ["list"], "*": ["count"]}
    given = ("--agg", "value=list", "--agg", "*=count")
    assert written(*WHERE, "l.at > r.at", *given) == jn.join_where(EVENTS, MEASUREMENTS, "l.at > r.at", agg=agg)
    equi = ("equi", *RANGE[1:], "--on", "site")
    assert written(*equi, *given, "--overwrite") == jn.join(EVENTS, MEASUREMENTS, on="site", agg=agg)


def test_overlap(folder):
    interval = ("--left-interval", "start", "end", "--right-interval", "begin", "finish")
    assert written(*OVERLAP, *interval, "--by", "cell", "--closed", "both", "--how", "full") == jn.join_overlap(
        CALLS,
        OUTAGES,
        left_interval=("start", "end"),
        right_interval=("begin", "finish"),
        by="cell",
        closed="both",
        how="full",
    )


def test_overlap_of_open_intervals(folder):
    interval = ("--left-interval", "", "end", "--right-interval", "begin", "", "--agg", "begin=first")
    assert written(*OVERLAP, *interval) == jn.join_overlap(
        CALLS, OUTAGES, left_interval=(None, "end"), right_interval=("begin", None), agg={"begin": "first"}
    )


def test_where(folder):
    assert written(*WHERE, "x.at > y.at + 50", "--names", "x", "y", "--by", "site", "--how", "left") == jn.join_where(
        EVENTS, MEASUREMENTS, "x.at > y.at + 50", names=("x", "y"), by="site", how="left"
    )
    crossed = written(*WHERE, "l.at > 100", "--allow-cross", "--overwrite")
    assert crossed.num_rows == 4


def test_rows_are_shown(folder):
    result = join(*RANGE, "--on", "at", "--lower", "-60", "--upper", "0", "--rows", "2", "--explain")
    assert result.exit_code == 0, result.stderr
    assert "at_right" in result.stdout
    assert "the first 2 rows of 3" in result.stdout
    assert "purchase" not in result.stdout
    assert "Range join in-process" in result.stderr


def test_text_outputs(folder):
    arguments = (*RANGE, "--on", "at", "--lower", "-60", "--upper", "0")
    assert join(*arguments, "-o", "out.csv").exit_code == 0
    assert join(*arguments, "-o", "out.json").exit_code == 0
    assert [json.loads(line)["value"] for line in Path("out.json").read_text().splitlines()] == [2.0, 4.0, 8.0]
    with Path("out.csv").open() as stream:
        assert [row["value"] for row in csv.DictReader(stream)] == ["2", "4", "8"]


@pytest.mark.in_turn
def test_on_spark(folder, monkeypatch, spark):
    from contextlib import nullcontext

    monkeypatch.setattr("juncture.cli.run.spark_session", lambda **_: nullcontext(spark))
    # The session has its own working directory.
    inputs = (str(folder / "events.parquet"), str(folder / "measurements.parquet"))
    result = join("range", *inputs, "--on", "at", "--lower", "-60", "--upper", "0", "--engine", "spark", "-o", "out")
    assert result.exit_code == 0, result.stderr
    assert sorted(pq.read_table("out")["value"].to_pylist()) == [2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RANGE, "--on", "at"), "unbounded on both sides"),
        ((*RANGE, "--on", "at", "--lower", "5", "--upper", "0"), "nothing would match"),
        ((*RANGE, "--on", "at", "--lower", ""), "--lower is empty"),
        ((*RANGE, "--on", "at", "--lower", "bakc"), "Did you mean 'back'?"),
        ((*RANGE, "--on", "at", "--lower", "-1h"), "number"),
        ((*RANGE, "--on", "at", "--lower", "0", "--closed", "open"), "'both', 'left', 'right', 'none'"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value"), "is not COLUMN=FUNCTIONS"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value=mode"), "mode"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value=quantile"), "needs an argument: a share"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value=max:at"), "max takes none"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value=max", "--agg", "value=min"), "twice"),
        ((*RANGE, "--on", "at", "--lower", "0", "--agg", "value=max", "--how", "semi"), "agg="),
        ((*RANGE, "--on", "at", "--lower", "0", "--algorithm", "bins"), "on Spark"),
        ((*OVERLAP, "--left-interval", "start", "end", "--right-interval", "", ""), "has no start and no end"),
        ((*OVERLAP, "--left-interval", "start", "stop", "--right-interval", "begin", "finish"), "'stop'"),
        ((*OVERLAP, "--left-interval", "end", "start", "--right-interval", "begin", "finish"), "after its end"),
        ((*WHERE, "l.at >"), "l.at >"),
        ((*WHERE, "l.at > 3"), "allow_cross"),
        ((*WHERE, "l.when > r.at"), "when"),
    ],
)
def test_mistakes(folder, arguments, message):
    result = join(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not Path("out.parquet").exists()


def test_intervals_have_to_be_named(folder):
    result = join(*OVERLAP)
    assert result.exit_code == 2
    assert "--left-interval" in result.stderr
