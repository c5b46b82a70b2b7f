from __future__ import annotations

from importlib.util import find_spec
from itertools import product
from types import SimpleNamespace

import pytest

from juncture.errors import SpecError
from juncture_benchmarks.asof import scenarios
from juncture_benchmarks.asof import spark as bench_spark
from juncture_benchmarks.asof.answer import Answer, expected_answer, found_answer
from juncture_benchmarks.asof.benchmark import ASOF
from juncture_benchmarks.asof.local import ENGINES, LocalTrial, Task, contestant
from juncture_benchmarks.benchmark import run_benchmark
from juncture_benchmarks.datasets import AsofTables, write_asof
from juncture_benchmarks.harness import Limits, run_once
from juncture_benchmarks.trial import measure
from support.processes import no_session

INSTALLED = [name for name, (_, package, _, _) in ENGINES.items() if find_spec(package)]


def tables(folder, keys) -> AsofTables:
    return write_asof(folder / keys, left_rows=2_000, right_rows=20_000, entities=20, keys=keys)


@pytest.mark.parametrize(
    ("name", "keys"),
    # Without a key there is nothing to make a category of.
    [pair for pair in product(INSTALLED, ["zipf", "none"]) if pair != ("polars-categorical", "none")],
)
def test_every_engine_gives_the_expected_answer(tmp_path, name, keys):
    given = tables(tmp_path, keys)
    expected, ties = expected_answer(given)
    entrant = contestant(name, given, ties, given)
    measured = measure(LocalTrial(**entrant.arguments))
    assert expected.difference(Answer(**measured["answer"]), ties_decided=entrant.ours) is None


@pytest.mark.in_turn
def test_the_peer_on_spark_gives_the_expected_answer(tmp_path, spark):
    data = tables(tmp_path, "zipf")
    expected, ties = expected_answer(data)
    task = Task(str(data.left), str(data.right), data.by)
    batches = bench_spark.union_and_window(task, spark).toArrow().to_batches()
    assert expected.difference(found_answer(batches, data.by, ties), ties_decided=False) is None


@pytest.mark.in_turn
def test_a_trial_on_spark(tmp_path, spark, monkeypatch):
    data = tables(tmp_path, "zipf")
    expected, ties = expected_answer(data)
    # A folder of this process, which is not where the JVM is.
    monkeypatch.setattr(bench_spark, "tempfile", SimpleNamespace(mkdtemp=lambda **_: str(tmp_path / "first")))
    monkeypatch.setattr(bench_spark, "bench_session", lambda _: spark)
    # It ends its session, which other tests share.
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    answer = measure(bench_spark.SparkTrial(**bench_spark.ours(data, ties, "paths").arguments))["answer"]
    assert answer.pop("chosen") != "auto"
    assert expected.difference(Answer(**answer), ties_decided=True) is None


@pytest.mark.early
@pytest.mark.nightly
def test_a_run_on_spark(tmp_path):
    data = tables(tmp_path, "zipf")
    expected, ties = expected_answer(data)
    with no_session():
        run = run_once(bench_spark.ours(data, ties, "paths"), Limits(timeout_s=120.0, memory_bytes=8_000_000_000))
    assert run.status == "ok", run.reason
    answer = run.measured["answer"]
    assert answer.pop("chosen") != "auto"
    assert expected.difference(Answer(**answer), ties_decided=True) is None
    assert run.measured["java_peak_bytes"] > 0


def test_a_scenario_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(scenarios, "SCALES", {"small": (1_000, 5_000)})
    said = []
    measured = []
    results = run_benchmark(
        ASOF,
        scale="small",
        engines=["local"],
        repeat=1,
        scenarios=["local-small"],
        only=["polars"],
        data=tmp_path,
        announce=said.append,
        finished=measured.append,
    )
    assert results == measured
    assert [each["name"] for each in results] == ["local-small"]
    entries = {each["contestant"]: each["status"] for each in results[0]["entries"]}
    assert entries == {"polars": "ok", "polars-in-memory": "ok", "polars-categorical": "ok"}
    assert results[0]["facts"]["left_rows"] == 1_000
    assert said[0] == "local-small: preparing small, 1,000 by 5,000 rows"
    assert len(said) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "smal"}, "Did you mean 'small'"),
        ({"scale": "small", "engines": ["sparc"]}, "Did you mean 'spark'"),
        ({"scale": "small", "repeat": 0}, "repeat must be at least 1"),
        ({"scale": "small", "scenarios": ["local-smal"]}, "Did you mean 'local-small'"),
        ({"scale": "large", "engines": ["spark"]}, "has no scenario"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message):
    with pytest.raises(SpecError, match=message):
        run_benchmark(ASOF, **arguments, data=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unknown_contestants_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(scenarios, "SCALES", {"small": (100, 500)})
    with pytest.raises(SpecError, match="no contestant of local-small is called 'polar'"):
        run_benchmark(ASOF, scale="small", engines=["local"], scenarios=["local-small"], only=["polar"], data=tmp_path)
