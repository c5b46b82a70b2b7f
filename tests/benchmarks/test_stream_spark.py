"""The benchmark of joins of streams on Spark: what it joins, and the page that its figures become."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from juncture_benchmarks.stream_spark.page import write_stream_spark_page
from juncture_benchmarks.stream_spark.queries import CONTESTANTS, SECTIONS, spec_of
from juncture_benchmarks.stream_spark.workload import LAST_KEY, Workload


@pytest.mark.parametrize("section", SECTIONS)
def test_the_answer_is_of_all_rows_but_the_last(tmp_path, section):
    workload = Workload(tmp_path, 2, 1_000, 5)
    workload.write()
    left = pq.read_table(tmp_path / "left")
    assert left["k"].to_pylist().count(LAST_KEY) == 1
    # Beyond the window of every contestant, by operator after operator.
    assert left["ts"][-1].as_py() > max(left["ts"].to_pylist()[:-1]) + timedelta(minutes=5)
    rows, ids = workload.answer(spec_of(section))
    assert rows >= left.num_rows - 1 == 1_000
    assert ids > 0


def test_figures_become_a_page(tmp_path):
    about = {
        "date": "2026-11-22T23:00:00+00:00",
        "machine": {"cpu": "a processor", "cores": 2, "memory_bytes": 1 << 34, "system": "Linux"},
        "versions": {"python": "3.11"},
        "load_average": 0.1,
    }
    measured = {
        "rows_per_cpu_second": 1_000,
        "batch_seconds": [1.0, 0.9, 1.2],
        "state_bytes": [1_000_000, 1_010_000],
        "memory_mb": [900, 910],
        "durations_ms": {"addBatch": 800, "triggerExecution": 1_000},
    }
    results = {
        name: {"title": each.title, "section": each.section, "joins": SECTIONS[each.section]}
        | {"rows": each.rows, "keys": each.keys, "batches": list(each.batches)}
        | {"rows_per_second": 44_000 if name == "range" else 2_200}
        | {"is_the_batch_answer": each.section != "asof" or name == "juncture"}
        | measured
        | about
        for name, each in CONTESTANTS.items()
    }
    (tmp_path / "figures.json").write_text(json.dumps(results))
    text = write_stream_spark_page(tmp_path / "page.md", tmp_path / "figures.json").read_text()
    assert "| **Juncture** | 2,200 | 1,000 | 1.00 s, 0.90 s, 1.20 s | 500,000, 10,000 | 20 of 40 | yes |" in text
    assert "state 1.00 to 1.01 MB, memory of all processes 900 to 910 MB. Median micro-batch: addBatch" in text
    assert "Juncture joins 20.0 times as many rows a second, and 1.0 times as many a CPU second." in text
    assert text.count("a processor, 2 cores") == 1
