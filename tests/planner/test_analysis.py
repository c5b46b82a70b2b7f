"""What happened when a join ran, beside what was expected."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numba
import pyarrow as pa
import pytest

import juncture as jn
from juncture.kernels import asof
from juncture.planner.report import Measured, Phase

LEFT = pa.table({"ts": range(1_000), "end": range(1, 1_001)})
RIGHT = pa.table({"ts": range(500), "end": range(1, 501)})
SPECS = {
    "asof": jn.Asof(on="ts"),
    "range": jn.Range(on="ts", lower=0, upper=0),
    "overlap": jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end")),
    "where": jn.Where("l.ts = r.ts"),
    "equi": jn.Equi(on="ts"),
}


@pytest.mark.parametrize("kind", SPECS)
def test_rows_are_counted_and_times_add_up(kind: str) -> None:
    plan = jn.plan(LEFT, RIGHT, SPECS[kind])
    run = plan.analyze().measured
    assert (run.left_rows, run.right_rows) == (1_000, 500)
    assert run.output_rows == (1_000 if kind == "asof" else 500)
    assert run.spilled_bytes == 0
    assert run.peak_memory_bytes >= run.earlier_peak_bytes > 0
    assert not run.unknown
    start_s = 0.0
    for phase in run.phases:
        assert phase.start_s == pytest.approx(start_s)
        start_s += phase.duration_s
    assert start_s == pytest.approx(run.duration_s)
    assert {phase.name for phase in run.phases} <= {"inputs", "left", "right", "payload", "output"}


def test_the_result_is_kept_on_demand() -> None:
    plan = jn.plan(LEFT.to_pandas(), RIGHT, SPECS["range"])
    assert plan.analyze().result is None
    kept = plan.analyze(keep=True)
    assert kept.result.equals(plan.execute())
    assert len(kept.result) == kept.measured.output_rows


def test_a_stream_is_kept_on_disk_and_analyzed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juncture.runtime.spill.MEMORY_BYTES", 1)
    plan = jn.plan(LEFT.to_reader(), RIGHT, SPECS["equi"])
    analysis = plan.analyze()
    assert analysis.measured.left_rows == 1_000
    assert "left       1,000 rows (no estimate)" in str(analysis)
    with pytest.raises(jn.PlanError, match="an earlier execute"):
        plan.analyze()


def test_progress_is_passed_on() -> None:
    calls: list[tuple[str, int, int]] = []
    jn.plan(LEFT, RIGHT, SPECS["range"]).analyze(progress=lambda *call: calls.append(call))
    assert ("left", 1_000, 1_000) in calls


def test_text_json_and_page_say_the_same() -> None:
    analysis = jn.plan(LEFT, RIGHT, SPECS["asof"]).analyze()
    assert str(analysis).startswith(analysis.plan.explain() + "\n  measured\n")
    assert re.search(r"^ {4}time       [\d.]+ s \(expected under 0.1 s\)$", str(analysis), re.M)
    assert "    left       1,000 rows (expected 1,000)\n" in str(analysis)
    assert "    spilled    nothing\n" in str(analysis)
    facts = json.loads(analysis.explain(format="json"))
    assert facts["measured"]["output_rows"] == 1_000
    assert facts["measured"]["phases"][0]["name"] == "inputs"
    page = analysis.explain(format="html")
    assert '<div class="track"><div class="bar"' in page
    assert "1,000 rows" in page


def test_what_is_compiled_once_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(asof.choose, "_machine_code", None)
    first, second = (jn.plan(LEFT, RIGHT, SPECS["asof"], algorithm="probe").analyze() for _ in range(2))
    assert 0.01 < first.measured.compile_s < first.measured.duration_s
    assert second.measured.compile_s == 0
    assert re.search(r"^ {4}compiling +[\d.]+ s of it, once per process; the join itself took ", str(first), re.M)
    assert "compiling" not in str(second)


def test_phases_of_one_name_are_added_up() -> None:
    names = ("right", "left", "right")
    phases = tuple(Phase(name=name, start_s=float(start), duration_s=1.0) for start, name in enumerate(names))
    assert Measured(duration_s=3.0, output_rows=0, phases=phases).totals() == {"right": 2.0, "left": 1.0}


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        pytest.param(10**6, "peak of the process 2.0 GB, 1.0 MB before the join", id="grew"),
        pytest.param(2 * 10**9, "peak of the process 2.0 GB, reached before the join", id="stayed"),
    ],
)
def test_memory_is_what_the_process_held(earlier: int, said: str) -> None:
    from juncture.planner.explain.text import happened

    plan = jn.plan(LEFT, RIGHT, SPECS["asof"])
    run = Measured(
        duration_s=0.1, output_rows=0, spilled_bytes=3_000, peak_memory_bytes=2 * 10**9, earlier_peak_bytes=earlier
    )
    words = dict(happened(plan, run))
    assert words["memory"] == said
    assert words["spilled"] == "3.0 kB"
