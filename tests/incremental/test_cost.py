"""What an epoch costs grows with what changes, and not with the rows of a key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.incremental.changes.identity import identity_of
from juncture.incremental.operators.asof import AsofOperator
from juncture.incremental.operators.recompute import AggregateOperator
from juncture.incremental.state.arrangement import Arrangement, Journal
from juncture.incremental.state.run import Delta

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


@pytest.mark.parametrize(("searches", "most_runs", "most_copies"), [(0, 128, 2), (400, 24, 3)])
def test_runs_are_merged_for_searches(searches, most_runs, most_copies):
    epochs, size = 800, 4_096
    schema = pa.schema({"0": pa.int64()})
    identity = identity_of(schema, "rows")
    arrangement = Arrangement(schema, identity, 0)
    no_codes, copies, runs = np.zeros((0, size), np.int64), 0, 0
    for epoch in range(epochs):
        batch = pa.record_batch([np.arange(size) + epoch * size], schema=schema)
        keys = np.zeros(size, np.int32)
        delta = Delta.of(batch, np.ones(size, np.int64), keys, no_codes, identity.hashes(batch))
        arrangement.change(delta, [], no_codes, Journal())
        for _ in range(searches):
            arrangement.count_search(1)
        before = {id(run) for run in arrangement.memory}
        arrangement.compact()
        copies += sum(len(run) for run in arrangement.memory if id(run) not in before)
        runs = max(runs, len(arrangement.memory))
    assert arrangement.rows == epochs * size
    assert runs <= most_runs
    assert copies <= most_copies * epochs * size
