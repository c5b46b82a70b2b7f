"""Statistics that lie by a thousand times: a join is slower then, never wrong, and never holds more than it may."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn

ROWS = 2_000
TIMES = 1_000
LEFT = pa.table({"ts": range(ROWS), "end": range(2, ROWS + 2), "k": [number % 50 for number in range(ROWS)]})
RIGHT = LEFT.slice(0, ROWS // 2)
SPECS = {
    "asof": jn.Asof(on="ts", by="k"),
    "range": jn.Range(on="ts", lower=-1, upper=1),
    "overlap": jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end"), by="k"),
    "where": jn.Where("l.ts = r.ts AND l.k < 7"),
    "equi": jn.Equi(on="ts"),
}


def said(rows: int) -> jn.SideStats:
    return jn.SideStats(
        rows=rows, row_bytes=1, distinct_keys=rows, hottest_key_share=0.0, on_range=(0, 1), is_sorted=True
    )


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("rows", [ROWS // TIMES, ROWS * TIMES], ids=["too few", "too many"])
@pytest.mark.parametrize("form", ["table", "stream"])
def test_the_answer_is_the_same(kind, rows, form):
    sides = (LEFT, RIGHT) if form == "table" else (LEFT.to_reader(), RIGHT.to_reader())
    plan = jn.plan(*sides, SPECS[kind], stats=jn.Stats(left=said(rows), right=said(rows)))
    assert plan.execute().equals(jn.plan(LEFT, RIGHT, SPECS[kind]).execute())
    assert (plan.stats.left.rows == ROWS) is (form == "table")


def test_a_stream_that_is_said_to_be_small_goes_to_disk():
    batch = pa.record_batch({"k": pa.array(range(50_000)), "v": ["x" * 100] * 50_000})
    right = pa.RecordBatchReader.from_batches(batch.schema, [batch] * 6)
    stats = jn.Stats(right=jn.SideStats(rows=300, row_bytes=112))
    plan = jn.plan(RIGHT.select(["k"]), right, jn.Equi(on="k"), stats=stats, memory="64MB")
    assert plan.algorithm in ("hash", "parallel_hash", "sort_merge")
    analysis = plan.analyze()
    assert analysis.measured.algorithm in ("grace", "external_sort_merge")
    assert analysis.measured.output_rows == 6 * RIGHT.num_rows
    assert f"{analysis.measured.algorithm}: the input was too large for {plan.algorithm}" in str(analysis)
    assert "right      300,000 rows (expected 300)" in str(analysis)


@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [
        (SPECS["equi"], "hash"),
        (SPECS["equi"], "sort_merge"),
        (SPECS["range"], "binary_search"),
        (SPECS["overlap"], "interval_tree"),
        (SPECS["where"], "nested_loop"),
        (SPECS["asof"], "merge"),
    ],
)
def test_what_is_named_for_a_stream_that_does_not_fit_is_not_held(spec, algorithm):
    batch = pa.record_batch({"ts": range(50_000), "end": range(50_000), "k": [3] * 50_000, "v": ["x" * 100] * 50_000})
    right = pa.RecordBatchReader.from_batches(batch.schema, [batch] * 6)
    plan = jn.plan(LEFT.slice(0, 5), right, spec, algorithm=algorithm, memory="64MB")
    assert plan.algorithm == algorithm
    assert plan.analyze().measured.algorithm in ("grace", "external_sort_merge", "external_merge", "probe")
