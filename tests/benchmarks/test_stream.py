"""The benchmark of joins of streams: everyone gives one answer, and what is measured becomes a page."""

from __future__ import annotations

import pytest

from juncture_benchmarks.benchmark import Options
from juncture_benchmarks.harness import Limits, save_results
from juncture_benchmarks.stream import measure
from juncture_benchmarks.stream.grid import Cell, measure_cell
from juncture_benchmarks.stream.long import asof_beside_batch
from juncture_benchmarks.stream.page import stream_table, write_stream_page


@pytest.mark.parametrize("keys", [2, 50])
def test_everyone_gives_the_same_answer(keys):
    entries = measure_cell(Cell(128, keys, 1_000), repeat=1)
    assert [each["contestant"] for each in entries] == ["juncture", "symmetric", "hash"]
    assert {each["status"] for each in entries} == {"ok"}
    assert entries[0]["answer"]["rows"] > 0


def test_results_become_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "in_process", lambda function, *calls: (function(*each) for each in calls))
    monkeypatch.setattr(measure, "LONG_ROWS", 100_000)
    monkeypatch.setattr(measure, "cells", lambda: [Cell(128, 8, 8_192)])
    monkeypatch.setitem(asof_beside_batch.__globals__["SCALES"], "small", (500, 5_000))
    said = []
    options = Options(
        scale="full", repeat=1, only=(), data=tmp_path / "data", limits=Limits.of_this_machine(),
        announce=said.append, note="quiet",
    )  # fmt: skip
    results = list(measure.run_scenarios(measure.scenario_names("full"), options))
    assert [each["name"] for each in results] == ["local-grid-8-128-8192", "local-long", "local-asof"]
    assert results[2]["measured"]["is_equal"]
    assert len(results[1]["measured"]["parts"]) == 10
    assert max(part["state_rows"] for part in results[1]["measured"]["parts"]) < 40_000
    save_results(tmp_path / "stream.json", results)
    paths = write_stream_page(tmp_path / "stream.md", tmp_path)
    text = paths[0].read_text()
    assert all(stream_table(each).splitlines()[0] in text for each in results[1:])
    assert "Tables of 8,192 rows a side:" in text
    assert "| 8 | 128 |" in text
    assert paths[1].read_text().startswith("<svg")
