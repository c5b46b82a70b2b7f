"""What an epoch costs grows with what changes, and not with the rows of a key."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from juncture.incremental.operators.asof import AsofOperator
from juncture.incremental.operators.recompute import AggregateOperator

ROWS = 4_000
SCHEMA = pa.schema({"on": pa.int64(), "v": pa.int64()})

SPECS = [
    (jn.Asof(on="on"), 4),
    (jn.Asof(on="on", direction="forward", allow_exact_matches=False), 4),
    (jn.Asof(on="on", direction="nearest", matches=2, how="full"), 24),
    (jn.Asof(on="on", tolerance=100, how="semi"), 4),
    (jn.Range(on="on", lower=-3, upper=3, agg={"v": "sum"}), 12),
]


@pytest.mark.parametrize(("spec", "most"), SPECS)
def test_a_row_of_a_hot_key(spec, most, monkeypatch):
    join = jn.changes(SCHEMA, SCHEMA, spec)
    rows = pa.table({"on": range(ROWS), "v": range(ROWS)}, schema=SCHEMA)
    join.populate(left=rows, right=pa.table({"on": range(1, 2 * ROWS, 2), "v": range(ROWS)}, schema=SCHEMA))
    seen = []
    operator = AggregateOperator if spec.kind == "range" else AsofOperator
    answer = operator.answer

    def counted(self, asked, candidates, *others):
        seen.append((len(asked), len(candidates.weights)))
        answer(self, asked, candidates, *others)

    monkeypatch.setattr(operator, "answer", counted)
    for weight in (1, -1):
        changed = pa.table({"on": [ROWS // 2], "v": [7], "_weight": [weight]})
        join.apply(right=changed)
    assert len(seen) == 4
    assert all(0 < asked <= most and candidates <= 2 * most for asked, candidates in seen), seen
