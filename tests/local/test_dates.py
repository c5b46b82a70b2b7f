"""Dates beyond Python's own, and dates of 64 bits with a time of day, which count as the day that they lie in."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from support.engines import LOCAL, LOCAL_EQUI, LOCAL_NEAR
from support.kinds import defined_rows, kind_of
from support.tables import difference

DAY_MS = 86_400_000
FINE = pa.array([-1, -DAY_MS - 1, 0, None, 1, DAY_MS - 1, DAY_MS, 2 * DAY_MS + 5, -(2**63), 2**63 - 1], pa.int64())
WHOLE = pa.array([-1, -2, 0, 1, None, 0, 1, 2, -(2**31), 2**31 - 1], pa.int32())
DATES = {"fine": FINE.view(pa.date64()), "whole": WHOLE.view(pa.date32())}
SPECS = [
    jn.Asof(on="t"),
    jn.Asof(on="t", direction="nearest", tolerance="1d", matches=2),
    jn.Asof(on="row", by="t"),
    jn.Range(on="t", lower="-1d", upper=0),
    jn.Range(on="row", lower=-9, agg={"t": ["min", "max", "count"]}),
    jn.Overlap(left_interval=("t", "t"), right_interval=("t", None), closed="both"),
    jn.Equi(on="t"),
]


@pytest.mark.parametrize("sides", [("fine", "whole"), ("whole", "fine"), ("fine", "fine"), ("whole", "whole")], ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=kind_of)
def test_dates(spec, sides):
    left, right = (pa.table({"t": DATES[side], "row": range(10)}) for side in sides)
    expected = defined_rows(spec, left, right)
    for algorithm in {"asof": LOCAL, "equi": LOCAL_EQUI, **LOCAL_NEAR}[kind_of(spec)]:
        answer = jn.plan(left, right, spec, algorithm=algorithm).execute()
        assert difference(answer, expected, ordered=True) is None


def test_in_a_predicate():
    left, right = (pa.table({"t": DATES[side].slice(0, 8), "row": range(8)}) for side in ("fine", "whole"))
    spec = jn.Where("l.t < r.t AND l.t >= DATE '1969-12-30'")
    assert difference(jn.plan(left, right, spec).execute(), defined_rows(spec, left, right), ordered=True) is None
