"""The reference gives the answers of the case files, which were worked out by hand."""

from __future__ import annotations

import pytest

from support.cases import Case, check_case, read_cases
from support.kinds import SPECS, defined_rows


@pytest.mark.parametrize("case", [case for kind in SPECS for case in read_cases(kind)], ids=str)
def test_case(case: Case):
    check_case(case, defined_rows)
