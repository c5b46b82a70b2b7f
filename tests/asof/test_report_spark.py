"""The match report on Spark counts what brute force counts."""

from dataclasses import asdict

import pytest

import juncture as jn
from support.cases import read_cases
from support.engines import fits_spark, to_spark
from support.reports import expected_report

pytestmark = pytest.mark.in_turn


def cases():
    """Return a few cases of each concern: a report takes Spark a second or two."""
    fitting = [
        case
        for case in read_cases("asof")
        if case.error is None
        and case.no_spark is None
        and fits_spark(case.left.schema)
        and fits_spark(case.right.schema)
    ]
    return [
        pytest.param(case, marks=pytest.mark.nightly if number % 3 else [], id=str(case))
        for number, case in enumerate(fitting[::9])
    ]


def test_a_key_is_there_whose_rows_are_never_known(spark):
    [case] = [case for case in read_cases("asof") if "never available" in case.name]
    report = jn.plan(to_spark(spark, case.left), to_spark(spark, case.right), case.spec).match_report()
    assert report == expected_report(case.spec.resolve(case.left.schema, case.right.schema), case.left, case.right)
    assert (report.matched, report.no_candidate, report.unknown_key) == (1, 1, 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", cases())
def test_a_report(spark, case):
    join = case.spec.resolve(case.left.schema, case.right.schema)
    plan = jn.plan(to_spark(spark, case.left), to_spark(spark, case.right), case.spec)
    found = asdict(plan.match_report())
    expected = asdict(expected_report(join, case.left, case.right))
    # Decimals are subtracted exactly, but their difference is rounded to a float.
    assert found.pop("distances") == pytest.approx(expected.pop("distances"))
    assert found == expected
