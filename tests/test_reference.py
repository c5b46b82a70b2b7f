"""The reference gives the answers of the case files, which were worked out by hand."""

from __future__ import annotations

import pytest

from support.cases import Case, read_cases
from support.kinds import SPECS, defined_rows
from support.tables import difference


@pytest.mark.parametrize("case", [case for kind in SPECS for case in read_cases(kind)], ids=str)
def test_case(case: Case):
    if case.error is not None:
        with pytest.raises(case.error):
            defined_rows(case.spec, case.left, case.right)
        return
    assert difference(defined_rows(case.spec, case.left, case.right), case.expected, ordered=True) is None
