"""The reference gives the answers of the case files, which were worked out by hand."""

from __future__ import annotations

import pytest

from juncture import reference
from support.cases import Case, read_cases
from support.tables import difference


@pytest.mark.parametrize("case", read_cases("asof"), ids=str)
def test_case(case: Case):
    join = case.spec.resolve(case.left.schema, case.right.schema)
    if case.error is not None:
        with pytest.raises(case.error):
            reference.asof_join(join, case.left, case.right)
        return
    assert difference(reference.asof_join(join, case.left, case.right), case.expected, ordered=True) is None
