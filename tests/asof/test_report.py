"""The in-process match report counts what brute force counts."""

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.local.asof.report import match_report
from juncture.local.computed import with_computed
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from support.cases import read_cases
from support.reports import expected_report


@pytest.mark.parametrize("case", [case for case in read_cases("asof") if case.error is None], ids=str)
def test_a_report(case):
    join = case.spec.resolve(case.left.schema, case.right.schema)
    left = with_computed(TableSource(case.left), join, "left")
    right = with_computed(TableSource(case.right), join, "right")
    with join_context() as context:
        report = match_report(join, left, right, context)
    assert report == expected_report(join, case.left, case.right)


@pytest.mark.parametrize("case", [case for case in read_cases("asof") if case.error is None][::7], ids=str)
def test_a_plan_can_be_asked(case):
    plan = jn.plan(case.left, case.right, case.spec)
    assert plan.match_report() == expected_report(plan.join, case.left, case.right)
    assert plan.execute().equals(plan.execute())


def test_it_prints_as_a_table():
    left = pa.table({"ts": [1, 5, None, 700_000], "k": ["a", "<b>", "a", "a"]})
    right = pa.table({"ts": [0, 0, 4], "k": ["a", "a", "c"]})
    report = jn.plan(left, right, jn.Asof(on="ts", by="k", tolerance=10)).match_report()
    assert repr(report).splitlines() == [
        "left rows    4",
        "right rows   3",
        "matched      1  25.00%",
        "null on      1  25.00%",
        "unknown key  1  25.00%",
        "too far      1  25.00%",
        "ties         1  25.00%",
        "distance     min 1, median 1, 90% 1, 99% 1, max 1",
    ]
    assert report._repr_html_().startswith("<table><tr><td>left rows</td><td>4</td><td></td></tr>")
    clock = pa.table({"ts": pa.array([90_000, 0], pa.timestamp("ms"))})
    timed = jn.plan(clock, clock.slice(1), jn.Asof(on="ts")).match_report()
    assert repr(timed).splitlines()[-1] == "distance    min 0s, median 0s, 90% 1m30s, 99% 1m30s, max 1m30s"
    empty = jn.plan(left.slice(0, 0), right, jn.Asof(on="ts", by="k")).match_report()
    assert repr(empty).splitlines()[2:] == ["matched     0", "distance    none, since nothing matched"]


def test_a_plan_shows_itself_in_a_notebook():
    table = pa.table({"ts": [1]})
    plan = jn.plan(table, table, jn.Where("l.ts < r.ts"))
    assert plan._repr_html_().startswith("<pre>Predicate join in-process")


def test_other_joins_have_none():
    table = pa.table({"ts": [1]})
    with pytest.raises(PlanError, match="analyze"):
        jn.plan(table, table, jn.Where("l.ts < r.ts")).match_report()
