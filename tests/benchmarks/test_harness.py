from __future__ import annotations

import json
import os
import sys
import textwrap

import pytest

from juncture.errors import DataError
from juncture_benchmarks.harness import (
    Contestant,
    Limits,
    Run,
    Scenario,
    load_results,
    run_once,
    run_scenario,
    save_results,
)
from juncture_benchmarks.process import _stats, _tree

TRIALS = """
    import subprocess, sys, time

    class Fake:
        def __init__(self, kind="quick", answer=42):
            self.kind, self.value, self.warm = kind, answer, False

        def warm_up(self):
            self.warm = True

        def run(self):
            assert self.warm
            if self.kind == "fail":
                raise ValueError("out of ideas")
            if self.kind == "sleep":
                time.sleep(60)
            if self.kind == "grandchild":
                subprocess.run([sys.executable, "-c", "import time; print('slept', flush=True); time.sleep(60)"])
            if self.kind == "eat":
                self.eaten = bytearray(b"x") * 400_000_000
                time.sleep(60)
            return self.value

        def answer(self, result):
            return {"value": result}
"""

LIMITS = Limits(timeout_s=30.0, memory_bytes=2_000_000_000)


@pytest.fixture(autouse=True)
def fake_trials(tmp_path, monkeypatch):
    (tmp_path / "fake_trials.py").write_text(textwrap.dedent(TRIALS))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def fake(name: str = "fake", package: str = "pyarrow", **arguments: object) -> Contestant:
    return Contestant(
        name=name, title=name.title(), package=package, ours=False, trial="fake_trials:Fake", arguments=arguments
    )


def scenario(*contestants: Contestant) -> Scenario:
    def check(_: Contestant, answer: dict[str, object]) -> str | None:
        return None if answer == {"value": 42} else f"found {answer['value']}"

    return Scenario(name="guess", title="Guess", facts={"rows": 1}, contestants=contestants, check=check)


def test_a_good_run_has_time_memory_and_answer():
    run = run_once(fake(), LIMITS)
    assert run.status == "ok"
    assert run.measured["answer"] == {"value": 42}
    assert 0 <= run.measured["seconds"] < 1
    assert run.measured["own_peak_bytes"] > 10_000_000
    assert run.measured["peak_bytes"] >= run.measured["own_peak_bytes"]
    assert run.measured["java_peak_bytes"] == 0


def test_a_run_that_fails_says_why():
    run = run_once(fake(kind="fail"), LIMITS)
    assert run == Run(status="failed", reason="ValueError: out of ideas")


def test_a_run_that_takes_too_long_is_stopped():
    run = run_once(fake(kind="sleep"), Limits(timeout_s=1.0, memory_bytes=LIMITS.memory_bytes))
    assert run == Run(status="not finished", reason="stopped after 1 s")


@pytest.mark.skipif(sys.platform != "linux", reason="descendants are found through /proc")
def test_descendants_of_a_stopped_run_are_stopped_too():
    before = set(_tree(os.getpid(), _stats()))
    run = run_once(fake(kind="grandchild"), Limits(timeout_s=2.0, memory_bytes=LIMITS.memory_bytes))
    assert run.status == "not finished"
    assert set(_tree(os.getpid(), _stats())) <= before


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_run_that_takes_too_much_memory_is_stopped():
    run = run_once(fake(kind="eat"), Limits(timeout_s=30.0, memory_bytes=300_000_000))
    assert run == Run(status="out of memory", reason="stopped at 0.3 GB")


def test_a_missing_package_is_reported():
    run = run_once(fake(package="no_such_package"), LIMITS)
    assert run == Run(status="missing", reason="the package 'no_such_package' is not installed")


def test_contestants_take_turns_and_a_wrong_answer_has_no_time():
    said = []
    right, wrong, absent = fake("right"), fake("wrong", answer=41), fake("absent", package="no_such_package")
    result = run_scenario(scenario(right, wrong, absent), repeat=2, limits=LIMITS, announce=said.append, note="a test")
    assert [line.split(":")[0] for line in said] == [
        "guess 1/2  Right",
        "guess 1/2  Wrong",
        "guess 1/2  Absent",
        "guess 2/2  Right",
    ]
    entries = {entry["contestant"]: entry for entry in result["entries"]}
    assert len(entries["right"]["runs"]) == 2
    assert entries["right"]["median"]["seconds"] >= 0
    assert entries["right"]["answer"] == {"value": 42}
    assert entries["wrong"]["status"] == "wrong answer"
    assert entries["wrong"]["reason"] == "found 41"
    assert entries["wrong"]["runs"] == []
    assert "median" not in entries["wrong"]
    assert entries["absent"]["status"] == "missing"
    assert result["note"] == "a test"
    assert result["machine"]["cores"] >= 1
    assert result["versions"]["python"]
    assert json.loads(json.dumps(result)) == result


def test_results_replace_scenarios_of_the_same_name_only(tmp_path):
    path = tmp_path / "results" / "asof.json"
    assert load_results(path) == []
    save_results(path, [{"name": "a", "value": 1}, {"name": "b", "value": 2}])
    save_results(path, [{"name": "a", "value": 3}])
    assert load_results(path) == [{"name": "a", "value": 3}, {"name": "b", "value": 2}]
    assert [each.name for each in path.parent.iterdir()] == ["asof.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_file_that_holds_something_else_is_refused(tmp_path, text):
    (tmp_path / "asof.json").write_text(text)
    with pytest.raises(DataError, match="does not hold benchmark results"):
        load_results(tmp_path / "asof.json")
