"""The in-process match report counts what brute force counts."""

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.local.asof.report import match_report
from juncture.local.computed import with_computed
from juncture.planner.explain.meaning import explanations_of
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from support.cases import read_cases
from support.reports import expected_report
from support.tables import difference


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
    assert difference(plan.execute(), plan.execute(), ordered=True) is None


def test_it_prints_as_a_table():
    left = pa.table({"ts": [1, 5, None, 700_000], "k": ["a", "<b>", "a", "a"]})
    right = pa.table({"ts": [0, 0, 4], "k": ["a", "a", "c"]})
    report = jn.plan(left, right, jn.Asof(on="ts", by="k", tolerance=10)).match_report()
    assert repr(report).splitlines() == [
        "left rows           4",
        "right rows          3",
        "matched             1   25.00%",
        "unmatched           3   75.00%",
        "  null on           1   25.00%  ts is null",
        "  null key          0    0.00%  k is null",
        "  unknown key       1   25.00%  no right row has this k",
        "  no candidate      0    0.00%  no right row before or at this ts",
        "  beyond tolerance  1   25.00%  more than 10 away",
        "ties                1   25.00%  several right rows at the best ts",
        "distance            min 1, p50 1, p90 1, p99 1, max 1",
    ]
    assert report._repr_html_().startswith("<table><tr><td>left rows</td><td>4</td><td></td><td></td></tr>")
    clock = pa.table({"ts": pa.array([90_000, 0], pa.timestamp("ms"))})
    timed = jn.plan(clock, clock.slice(1), jn.Asof(on="ts")).match_report()
    assert repr(timed).splitlines()[-1] == "distance        min 0s, p50 0s, p90 1m30s, p99 1m30s, max 1m30s"
    empty = jn.plan(left.slice(0, 0), right, jn.Asof(on="ts", by="k")).match_report()
    assert repr(empty).splitlines()[-1] == "distance        none, since nothing matched"


KEYED = pa.table({"ts": [1.0], "k": ["a"], "at": [2], "within": [1.5]})


@pytest.mark.parametrize(
    ("spec", "explanations"),
    [
        (
            jn.Asof(on="ts", by="k", available_at="at", where="r.at > l.at", tolerance="within"),
            {
                "null_on": "ts is null or NaN",
                "null_key": "k is null",
                "unknown_key": "no right row has this k",
                "no_candidate": "no right row before or at this ts was available by its ts and satisfies where=",
                "beyond_tolerance": "farther away than its within",
                "ties": "several right rows at the best ts",
            },
        ),
        (
            jn.Asof(on="ts", by="k", nulls_equal=True, direction="forward", allow_exact_matches=False),
            {
                "null_on": "ts is null or NaN",
                "unknown_key": "no right row has this k",
                "no_candidate": "no right row after this ts",
                "ties": "several right rows at the best ts",
            },
        ),
        (jn.Equi(on="k"), {"null_key": "k is null", "unknown_key": "no right row has this k"}),
        (
            jn.Overlap(left_interval=("ts", "within"), right_interval=("ts", "within")),
            {"null_on": "ts or within is null or NaN", "no_candidate": "no right row matches"},
        ),
        (
            jn.Range(on="at", by="k", lower=0),
            {
                "null_on": "at is null",
                "null_key": "k is null",
                "unknown_key": "no right row has this k",
                "no_candidate": "no right row of this key satisfies the condition",
            },
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_each_count_that_can_occur_is_explained(spec, explanations):
    assert explanations_of(spec.resolve(KEYED.schema, KEYED.schema)) == explanations


def test_a_plan_shows_itself_in_a_notebook():
    table = pa.table({"ts": [1]})
    plan = jn.plan(table, table, jn.Where("l.ts < r.ts"))
    assert plan._repr_html_().startswith("<pre>Predicate join in-process")


def test_other_joins_have_none():
    table = pa.table({"ts": [1]})
    with pytest.raises(PlanError, match="analyze"):
        jn.plan(table, table, jn.Where("l.ts < r.ts")).match_report()
