"""Rows and reports fit the width that there is."""

import datetime as dt
import io
import re

import pyarrow as pa
from rich.console import Console

from juncture.cli.console import WIDTH_OF_PIPES
from juncture.cli.show import count, heading, print_plan, report_view, rows_view
from juncture.planner.explain.meaning import explanations_of
from juncture.planner.report import Distances, MatchReport
from juncture.spec.asof import Asof


def shown(make, width=60):
    console = Console(file=io.StringIO(), width=width)
    console.print(make(console))
    return console.file.getvalue()


TABLE = pa.table(
    {
        "at": pa.array([dt.datetime(2013, 1, 1, 5, 30), None], pa.timestamp("us", "UTC")),
        "x": [1.25, None],
        "name": ["[b]x", "y" * 99],
        "last": [10, 2],
    }
)


def test_rows():
    text = shown(lambda console: rows_view(TABLE, console, total=2), width=80)
    assert [line.rstrip() for line in text.splitlines()] == [
        "at                       x  name                          last",
        "──────────────────────────────────────────────────────────────",
        "2013-01-01 05:30:00Z  1.25  [b]x                            10",
        f"null                  null  {'y' * 27}…     2",
        "2 rows",
    ]


def test_dates_beyond_python():
    days = pa.array([2_932_897, 2**31 - 1, 0], pa.int32()).view(pa.date32())
    text = shown(lambda console: rows_view(pa.table({"day": days}), console, total=3), width=80)
    assert [line.strip() for line in text.splitlines()[2:5]] == [
        "10000-01-01",
        "<value out of range: 214748…",
        "1970-01-01",
    ]


def test_columns_that_do_not_fit_are_named():
    text = shown(lambda console: rows_view(TABLE, console, total=1000, first=["last", "x"]), width=20)
    assert text.splitlines()[0].split() == ["x", "last"]
    assert "the first 2 rows of 1,000" in " ".join(text.split())
    assert "2 columns more: at, name" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 20


def test_nothing_is_filled_up_to_the_width_of_a_pipe():
    text = shown(lambda console: rows_view(TABLE, console, total=2), width=WIDTH_OF_PIPES)
    assert max(map(len, text.splitlines())) < 200
    assert shown(lambda _: heading("Some rows"), width=WIDTH_OF_PIPES).split("\n") == [" " * 9, "Some rows", ""]


def test_no_rows_and_no_columns():
    assert "0 rows" in shown(lambda console: rows_view(TABLE.slice(0, 0), console, total=0))
    assert "0 rows" in shown(lambda console: rows_view(pa.table({}), console, total=0))


JOIN = Asof(left_on="departure", right_on="observed", by="origin", tolerance="2h").resolve(
    pa.schema({"departure": pa.timestamp("us"), "origin": pa.string()}),
    pa.schema({"observed": pa.timestamp("us"), "origin": pa.string()}),
)
HOUR_NS = 3_600_000_000_000


def report(join=JOIN, **changes):
    values = {
        "left_rows": 200,
        "right_rows": 1000,
        "matched": 190,
        "null_on": 1,
        "null_key": 2,
        "unknown_key": 3,
        "no_candidate": 4,
        "beyond_tolerance": 0,
        "ties": 5,
        "distances": Distances(min=0, p50=HOUR_NS / 2, p90=HOUR_NS, p99=HOUR_NS, max=2 * HOUR_NS, is_time=True),
        "explanations": explanations_of(join),
    }
    return MatchReport(**{**values, **changes})


def test_a_report_says_in_a_terminal_what_it_says_in_python_and_in_a_notebook():
    text = shown(lambda _: report_view(report()), width=80)
    rows = {line[:18].strip(): line[18:].split() for line in text.splitlines()}
    assert rows["matched"] == ["190", "95.00%"]
    assert rows["unmatched"] == ["10", "5.00%"]
    assert rows["null key"] == ["2", "1.00%", "origin", "is", "null"]
    assert rows["beyond tolerance"] == ["0", "0.00%", "more", "than", "2h", "away"]
    assert "distance  min 0s, p50 30m, p90 1h, p99 1h, max 2h" in text
    words = [line.split() for line in text.splitlines() if line.strip()]
    assert words == [line.split() for line in repr(report()).splitlines()]
    cells = re.findall("<td>(.*?)</td>", report()._repr_html_())
    assert " ".join(cells).split() == [word for line in words for word in line]


def test_a_report_of_nothing():
    text = shown(lambda _: report_view(report(left_rows=0, matched=0, distances=None)), width=80)
    assert "distance  none, since nothing matched" in text


def test_a_report_says_only_what_can_be():
    join = Asof(on="n", direction="nearest").resolve(pa.schema({"n": pa.int64()}), pa.schema({"n": pa.int64()}))
    distances = Distances(min=0, p50=1.5, p90=2, p99=3, max=1e9, is_time=False)
    text = shown(lambda _: report_view(report(join, distances=distances)), width=80)
    assert "key" not in text
    assert "tolerance" not in text
    assert "distance  min 0, p50 1.5, p90 2, p99 3, max 1,000,000,000" in text


PLAN = """As-of join on Spark
  reason     the right side goes to every task
  jobs  nothing
    * broadcast       about 1.0 s, which is the least"""


def test_a_plan_in_a_log_is_as_it_is():
    console = Console(file=io.StringIO(), width=30)
    print_plan(PLAN, console)
    assert console.file.getvalue() == PLAN + "\n"


def test_a_plan_on_a_terminal_keeps_its_columns():
    console = Console(file=io.StringIO(), width=44, force_terminal=True, color_system=None)
    print_plan(PLAN, console)
    assert console.file.getvalue().splitlines() == [
        "As-of join on Spark",
        "  reason     the right side goes to every",
        "             task",
        "  jobs  nothing",
        "    * broadcast       about 1.0 s, which is",
        "                      the least",
    ]


def test_counts_have_their_noun():
    assert [count(rows) for rows in (1, 336776)] == ["1 row", "336,776 rows"]
