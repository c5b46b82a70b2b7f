"""The in-process match report counts what brute force counts."""

import pytest

from juncture.local.asof.report import match_report
from juncture.runtime.sources import TableSource
from support.cases import read_cases
from support.reports import expected_report


@pytest.mark.parametrize("case", [case for case in read_cases("asof") if case.error is None], ids=str)
def test_a_report(case):
    join = case.spec.resolve(case.left.schema, case.right.schema)
    assert match_report(join, TableSource(case.left), TableSource(case.right)) == expected_report(
        join, case.left, case.right
    )
