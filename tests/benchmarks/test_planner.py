from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import SpecError
from juncture_benchmarks.benchmark import Options, run_benchmark
from juncture_benchmarks.harness import Limits, Run, save_results
from juncture_benchmarks.planner import measure
from juncture_benchmarks.planner.benchmark import PLANNER
from juncture_benchmarks.planner.grid import workloads
from juncture_benchmarks.planner.page import planner_table, verdict, write_planner_page
from juncture_benchmarks.planner.worker import Job, Worker, on_spark
from juncture_benchmarks.planner.workload import Rows, Workload, write_rows

LIMITS = Limits(timeout_s=60.0, memory_bytes=8_000_000_000)
CROSS = jn.Where("abs(l.at - r.at) < 3", allow_cross=True)


def workload(**changes) -> Workload:
    sides = {side: Rows(count=500, keys=200, span=1_000) for side in ("left", "right")}
    given = {"name": "local-one", "title": "one", "spec": jn.Asof(on="at", by="key"), **sides}
    return Workload(**(given | changes))


def job(folder, given: Workload, **changes) -> Job:
    tables = write_rows(given, folder / "tables")
    made = Job(
        left=str(tables.left),
        right=str(tables.right),
        spec=given.spec,
        algorithm="auto",
        limit_s=60.0,
        shown=given.shown,
    )
    return replace(made, **changes)


def test_the_grid_has_enough_workloads_of_both_engines():
    grid = workloads()
    names = [each.name for each in grid]
    assert len(set(names)) == len(names) >= 40
    assert {each.engine for each in grid} == {"local", "spark"}
    assert {type(each.spec) for each in grid if each.engine == "spark"} == {
        jn.Asof,
        jn.Range,
        jn.Overlap,
        jn.Where,
        jn.Equi,
    }


@pytest.mark.parametrize("name", [each.name for each in workloads() if each.engine == "local" and not each.memory])
def test_several_algorithms_apply(tmp_path, name):
    given = next(each for each in workloads() if each.name == name).tiny()
    tables = write_rows(given, tmp_path / "tables")
    options = jn.plan(tables.left, tables.right, given.spec).choice.options
    assert sum(option.excluded is None for option in options) >= 2


def test_rows_are_as_described(tmp_path):
    left = Rows(count=3_000, keys=6_000, is_unique=True, is_text=True, span=10_000, is_sorted=True, length=50)
    right = Rows(count=3_000, keys=100, first_key=1_000, hot_share=0.5, span=10_000)
    tables = write_rows(workload(left=left, right=right), tmp_path / "tables")
    table = pq.read_table(tables.left)
    assert table.column_names == ["id", "key", "at", "stop", "val"]
    assert len(set(table["key"].to_pylist())) == 3_000
    places = table["at"].to_numpy()
    assert (np.diff(places) >= 0).all()
    assert (table["stop"].to_numpy() - places).mean() == pytest.approx(50, rel=0.1)
    keys = pq.read_table(tables.right)["key"].to_numpy()
    assert (keys == 1_000).mean() == pytest.approx(0.5, abs=0.05)
    assert keys.max() < 1_100


@pytest.mark.nightly
def test_what_takes_too_long_is_stopped_and_the_next_join_runs(tmp_path):
    rows = Rows(count=60_000, span=1_000_000)
    slow = job(tmp_path, workload(left=rows, right=rows, spec=CROSS), algorithm="nested_loop", limit_s=0.3)
    with Worker("local", LIMITS.memory_bytes) as worker:
        quick = job(tmp_path / "quick", workload())
        assert worker.run(slow, quick).status == "stopped"
        run = worker.run(quick, quick)
        assert run.status == "ok", run.reason
        assert run.measured["algorithm"] in ("probe", "merge")
        assert run.measured["answer"]["rows"] == 500
        refused = worker.run(replace(quick, algorithm="hash"), quick)
        assert (refused.status, "runs on Spark" in refused.reason) == ("refused", True)
        missing = worker.run(replace(quick, left=str(tmp_path / "nowhere")), quick)
        assert missing.status == "failed"


@pytest.mark.in_turn
def test_a_join_on_spark_is_timed_and_checked(tmp_path, spark):
    given = job(tmp_path, workload(name="spark-one"), as_frames=True)
    measured = on_spark(spark)(given)
    assert measured["answer"]["rows"] == 500
    assert measured["algorithm"] in measured["costs"]
    assert measured["seconds"] > 0


def test_a_run_from_tables_to_page(tmp_path, monkeypatch):
    many = workload(name="local-two", title="two", spec=jn.Equi(on="key", how="semi"), shown=("id", "id"))
    monkeypatch.setattr(measure, "workloads", lambda: [workload(), many])
    monkeypatch.setattr("juncture_benchmarks.planner.benchmark.workloads", lambda: [workload(), many])
    monkeypatch.setattr("juncture_benchmarks.planner.page.workloads", lambda: [workload(), many])
    monkeypatch.setattr(measure, "ENOUGH_S", {"local": 0.0, "spark": 0.0})
    monkeypatch.setattr("juncture_benchmarks.planner.page._SHOWN_RATIO", 0.0)
    said = []
    results = run_benchmark(PLANNER, repeat=1, data=tmp_path / "data", limits=LIMITS, announce=said.append)
    assert [each["name"] for each in results] == ["local-one", "local-two"]
    statuses = {entry["contestant"]: entry["status"] for entry in results[0]["entries"]}
    assert statuses == {"auto": "ok", "probe": "ok", "merge": "ok"}
    assert list((tmp_path / "data").iterdir()) == []
    assert "local-one  probe: ok" in "\n".join(said)
    assert "| merge | " in planner_table(results[0])
    if find_spec("altair") and find_spec("vl_convert"):
        save_results(tmp_path / "planner.json", results)
        page, plot = write_planner_page(tmp_path / "docs" / "planner.md", tmp_path)
        assert "| `local-two` two | 500 by 500 | " in page.read_text()
        assert "Choices within 0 times the fastest: 0 of 2." in page.read_text()
        assert plot.read_text().startswith("<svg")


def result(chosen: str = "merge", **seconds: float | str) -> dict[str, object]:
    entries = [
        {"contestant": name, "status": "ok", "median": {"seconds": each}, "answer": {"chosen": chosen}}
        if isinstance(each, float)
        else {"contestant": name, "status": each}
        for name, each in seconds.items()
    ]
    return {"name": "local-one", "entries": entries}


@pytest.mark.parametrize(
    ("given", "ratio", "fastest", "is_near"),
    [
        pytest.param(result(auto=1.2, merge=1.0, probe=2.0), 1.2, "merge", True, id="near"),
        pytest.param(result(auto=3.0, merge=2.9, probe=2.0), 1.5, "probe", False, id="far"),
        pytest.param(result(auto=1.0, merge=1.1, probe="stopped"), 1.0, "merge", True, id="itself"),
        pytest.param(result(auto=0.06, merge=0.06, probe=0.02), 3.0, "probe", True, id="allowed"),
    ],
)
def test_the_choice_is_set_beside_the_fastest(given, ratio, fastest, is_near):
    found = verdict(given)
    assert found is not None
    assert found.ratio == pytest.approx(ratio)
    assert found.fastest == fastest
    assert found.is_within(1.3) == is_near
    assert found.is_within(1.3, allowed_s=0.0) == (ratio <= 1.3)


def test_without_an_alternative_there_is_no_choice():
    assert verdict(result(auto=1.0, merge=1.0, probe="refused")) is None


def test_wrong_answers_have_no_time(tmp_path, monkeypatch):
    answers = iter(range(100))

    def run(*_):
        return Run(
            status="ok", measured={"seconds": 1.0, "algorithm": "merge", "costs": {}, "answer": {"rows": next(answers)}}
        )

    monkeypatch.setattr(Worker, "run", run)
    monkeypatch.setattr(measure, "workloads", lambda: [workload()])
    options = Options(scale="full", repeat=1, only=(), data=tmp_path, limits=LIMITS, announce=lambda _: None, note="")
    [measured] = measure.run_workloads(["local-one"], options)
    assert [entry["status"] for entry in measured["entries"]][1:] == ["wrong answer", "wrong answer"]


def test_unknown_workloads_are_refused(tmp_path):
    with pytest.raises(SpecError, match="Did you mean 'local-asof-even'"):
        run_benchmark(PLANNER, scenarios=["local-asof-evn"], data=tmp_path)
