"""Reports of single rows: the same reasons as counts, and candidates with what excludes them."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError, SpecError
from juncture.planner.report import REASONS
from support.cases import Case, read_cases
from support.kinds import DEFINITIONS, SPECS
from support.reports import expected_report

ASOF_CASES = [case for case in read_cases("asof") if case.error is None]
OTHER_CASES = [
    case
    for kind in SPECS
    for case in read_cases(kind)
    if kind != "asof" and case.resolved and case.error is None and not getattr(case.resolved, "windows", None)
]


@pytest.mark.parametrize("case", ASOF_CASES, ids=str)
def test_rows_of_asof_joins_add_up_to_the_counts(case: Case):
    plan = jn.plan(case.left, case.right, case.spec)
    report, rows = expected_report(plan.join, case.left, case.right), plan.row_report()
    counts = Counter(rows["reason"].to_pylist())
    assert counts.pop(None, 0) == report.matched == len(rows) - rows["right_row"].null_count
    assert counts == Counter({name: getattr(report, name) for name in REASONS})
    distances = rows.filter(rows["right_row"].is_valid())["distance"]
    if report.distances is not None:
        assert [min(distances.to_pylist()), max(distances.to_pylist())] == [report.distances.min, report.distances.max]
    for row, reason in enumerate(rows["reason"].to_pylist()):
        explanation = plan.explain_row(row)
        assert explanation.reason == reason
        assert explanation.match_count == 0 or explanation.matches[0] == rows["right_row"][row].as_py()
        assert all(each.excluded != "not_best" for each in explanation.candidates) or reason is None


@pytest.mark.parametrize("case", OTHER_CASES, ids=str)
def test_rows_of_other_joins(case: Case):
    join = case.resolved.row_pairs()
    pairs = DEFINITIONS[type(case.spec)](type(join)(**{**vars(join), "how": "left"}), case.left, case.right)
    matched = (
        {
            left
            for left, right in zip(*(column.to_pylist() for column in pairs.columns), strict=True)
            if right is not None
        }
        if pairs.num_columns > 1
        else None
    )
    plan = jn.plan(case.left, case.right, case.spec)
    reasons = plan.row_report()["reason"].to_pylist()
    if matched is not None:
        assert {row for row, reason in enumerate(reasons) if reason is None} == matched
    for row, reason in enumerate(reasons):
        explanation = plan.explain_row(row)
        assert (explanation.reason, explanation.match_count > 0) == (reason, reason is None)


LEFT = pa.table({"ts": [10], "k": ["a"], "n": [5]})
RIGHT = pa.table({"ts": [11, 10, 9, 8, 7, 1], "k": ["a"] * 6, "n": [5, 5, 5, 9, 5, 5], "at": [11, 10, 12, 8, 7, 1]})


def test_each_exclusion_is_named():
    spec = jn.Asof(
        on="ts", by="k", allow_exact_matches=False, available_at=("at", "ts"), where="l.n = r.n", tolerance=2
    )
    explanation = jn.plan(LEFT, RIGHT, spec).explain_row(0)
    assert [(each.right_row, each.excluded, each.distance) for each in explanation.candidates] == [
        (1, "exact", 0.0),
        (0, "side", 1.0),
        (2, "not_available", 1.0),
        (3, "where", 2.0),
    ]
    more = jn.plan(LEFT, RIGHT.slice(3), spec).explain_row(0)
    assert [(each.right_row, each.excluded) for each in more.candidates] == [
        (0, "where"),
        (1, "beyond_tolerance"),
        (2, "beyond_tolerance"),
    ]
    assert repr(more) == (
        'left row 0 (k="a", ts=10): no match, beyond tolerance: more than 2 away\n'
        '  right row 0 (k="a", ts=8): 2 away: where= is not true\n'
        '  right row 1 (k="a", ts=7): 3 away: farther than the tolerance of 2\n'
        '  right row 2 (k="a", ts=1): 9 away: farther than the tolerance of 2'
    )
    assert more._repr_html_().startswith("<pre>left row 0")
    best = jn.plan(LEFT, RIGHT, jn.Asof(on="ts", by="k")).explain_row(0)
    assert (best.matches, {each.excluded for each in best.candidates}) == ((1,), {"side", "not_best"})
    assert repr(best).startswith('left row 0 (k="a", ts=10): 1 match, right row 1\n')


def test_range_joins_show_rows_outside_the_window():
    explanation = jn.plan(LEFT, RIGHT, jn.Range(on="ts", by="k", lower=2, upper=5)).explain_row(0)
    assert explanation.reason == "no_candidate"
    assert next((each.right_row, each.excluded) for each in explanation.candidates) == (1, "window")


def test_what_cannot_be_explained():
    plan = jn.plan(LEFT, RIGHT, jn.Asof(on="ts"))
    with pytest.raises(SpecError, match="row=1 is not a row of the left table, which has 1 rows"):
        plan.explain_row(1)
    windows = jn.Range(on="ts", windows={"a": (-1, 0), "b": (0, 1)}, agg={"n": "count"})
    for method in ("row_report", "explain_row"):
        with pytest.raises(PlanError, match="windows"):
            getattr(jn.plan(LEFT, RIGHT.rename_columns(["ts", "k", "n", "at"]), windows), method)(
                *([0] if method == "explain_row" else [])
            )
