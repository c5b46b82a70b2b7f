from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from juncture.errors import PlanError
from juncture_benchmarks.asof.page import write_asof_page
from juncture_benchmarks.harness import save_results
from juncture_benchmarks.report import markdown_table, write_page


def entry(name: str, seconds: float, *, ours: bool = False, java_bytes: float = 0.0, **more: object) -> dict:
    measured = {
        "seconds": seconds,
        "cpu_s": 2 * seconds,
        "peak_bytes": 2e9,
        "own_peak_bytes": 1e9,
        "before_bytes": 3e8,
        "java_peak_bytes": java_bytes,
        "worker_peak_bytes": 5e8,
    }
    runs = [measured, {**measured, "seconds": seconds + 1}]
    return {"title": name, "ours": ours, "status": "ok", "reason": "", "median": measured, "runs": runs, **more}


def scenario(*entries: dict, note: str = "") -> dict:
    return {
        "name": "local-small",
        "title": "In-process: small",
        "date": "2026-03-04T05:06:07+00:00",
        "machine": {"cpu": "A chip", "cores": 2, "memory_bytes": 24 * 2**30, "system": "Linux 6"},
        "load_average": 0.1,
        "note": note,
        "repeat": 3,
        "versions": {"python": "3.11", "polars": "2.1.0"},
        "entries": list(entries),
    }


FAILED = {"title": "Slow", "ours": False, "status": "not finished", "reason": "stopped after 5 s | twice", "runs": []}


def test_rows_are_ordered_by_time_and_failures_come_last():
    assert markdown_table(scenario(FAILED, entry("Peer", 4.0), entry("Juncture", 1.5, ours=True))).splitlines() == [
        "| | median of 2 runs | least to most | peak memory | cores busy |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| **Juncture** | 1.50 s | 1.50 to 2.50 s | 2.00 GB | 2.0 |",
        "| Peer | 4.00 s | 4.00 to 5.00 s | 2.00 GB | 2.0 |",
        "| Slow | not finished: stopped after 5 s \\| twice |  |  |  |",
    ]


def test_on_spark_java_and_workers_are_told_apart_and_the_choice_is_named():
    chosen = entry("Juncture, frames, auto", 1.0, ours=True, java_bytes=1.5e9, answer={"chosen": "hash"})
    forced = entry("Juncture, frames, hash", 2.0, ours=True, java_bytes=1.5e9, answer={"chosen": "hash"})
    _, _, first, second = markdown_table(scenario(chosen, forced)).splitlines()
    assert first.startswith("| **Juncture, frames, auto** → hash | 1.00 s |")
    assert "| 2.00 GB (1.00 + 1.50 + 0.50) |" in first
    assert second.startswith("| **Juncture, frames, hash** | 2.00 s |")


def test_where_memory_is_limited_it_says_what_was_held_before():
    limited = {**scenario(entry("Juncture", 1.0, ours=True)), "facts": {"memory_bytes": 10**9}}
    assert "| 2.00 GB (0.30 before) |" in markdown_table(limited)


def test_the_page_has_a_table_a_plot_and_the_circumstances(tmp_path):
    page = tmp_path / "docs" / "asof.md"
    results = tmp_path / "results"
    save_results(results / "asof-small.json", [scenario(entry("Juncture", 1.0, ours=True), note="Others were busy.")])
    if not (find_spec("altair") and find_spec("vl_convert")):
        with pytest.raises(PlanError, match=r"pip install .juncture\[html\]"):
            write_asof_page(page, results)
        return
    assert write_asof_page(page, results) == [page, page.with_suffix(".svg")]
    text = page.read_text()
    assert text.startswith("# As-of joins, measured\n")
    assert "![Time and memory of every contestant](asof.svg)" in text
    assert "## In-process: small\n\n| | median of 2 runs |" in text
    assert "**Others were busy.**" in text
    assert "- 2026-03-04, A chip, 2 cores, 24 GiB, Linux 6. Load average at the start" in text
    assert text.endswith("- python 3.11, polars 2.1.0.\n")
    assert page.with_suffix(".svg").read_text().startswith("<svg")


def test_without_the_plotting_packages_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PlanError, match=r"pip install .juncture\[html\]"):
        write_page(tmp_path / "page.md", "Title", "Preface", [scenario(entry("Juncture", 1.0))])
    assert list(tmp_path.iterdir()) == []
