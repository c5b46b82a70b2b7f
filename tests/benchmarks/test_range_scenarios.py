from __future__ import annotations

from importlib.util import find_spec
from itertools import product

import pytest

from juncture.errors import SpecError
from juncture_benchmarks.benchmark import run_benchmark, scenarios_of
from juncture_benchmarks.datasets import write_events, write_intervals, write_points
from juncture_benchmarks.harness import Limits, run_once, save_results
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.range import spark as bench_spark
from juncture_benchmarks.range.answer import expected_answer
from juncture_benchmarks.range.benchmark import RANGE
from juncture_benchmarks.range.local import AGGREGATING, JOINING, LocalTrial, contestant
from juncture_benchmarks.range.page import write_range_page
from juncture_benchmarks.range.task import Task
from juncture_benchmarks.session import observed_answer
from juncture_benchmarks.trial import measure
from support.processes import no_session

SIZES = {"left_rows": 1_000, "right_rows": 2_000}
LIMITS = Limits(timeout_s=120.0, memory_bytes=8_000_000_000)


def task(folder, shape) -> Task:
    if shape == "events":
        return Task.of(write_events(folder / shape, **SIZES), lower=-100_000_000, upper=0, closed="right")
    if shape == "points":
        return Task.of(write_points(folder / shape, **SIZES, span=100_000), lower=-60, upper=50)
    return Task.of(write_intervals(folder / shape, **SIZES, span=100_000, length=90, long_share=0.002))


def installed(engines):
    return [name for name, (_, package, _) in engines.items() if find_spec(package)]


@pytest.mark.parametrize(
    ("name", "shape"),
    # What is done with NumPy is for points.
    [pair for pair in product(installed(JOINING), ["points", "intervals"]) if pair != ("numpy", "intervals")],
)
def test_every_engine_gives_the_expected_answer(tmp_path, name, shape):
    given = task(tmp_path, shape)
    measured = measure(LocalTrial(**contestant(name, given, given).arguments))
    assert expected_answer(given).difference(Answer(**measured["answer"])) is None


@pytest.mark.parametrize("name", installed(AGGREGATING))
def test_every_engine_aggregates_as_expected(tmp_path, name):
    given = task(tmp_path, "points")
    measured = measure(LocalTrial(**contestant(name, given, given).arguments))
    assert expected_answer(given, aggregated=True).difference(Answer(**measured["answer"])) is None


@pytest.mark.in_turn
@pytest.mark.parametrize("name", bench_spark.PEERS)
def test_peers_on_spark_give_the_expected_answer(tmp_path, spark, name):
    given = task(tmp_path, "events")
    answer = observed_answer(bench_spark.peer_query(name, given, spark), given.joined_ids)
    assert expected_answer(given).difference(answer) is None


@pytest.mark.early
@pytest.mark.nightly
def test_a_run_on_spark(tmp_path):
    given = task(tmp_path, "intervals")
    with no_session():
        run = run_once(bench_spark.ours(given, given), LIMITS)
    assert run.status == "ok", run.reason
    answer = run.measured["answer"]
    assert answer.pop("chosen") != "auto"
    assert expected_answer(given).difference(Answer(rows=answer["rows"], sums=tuple(answer["sums"]))) is None
    assert run.measured["java_peak_bytes"] > 0


def test_a_scenario_from_end_to_end(tmp_path):
    said, measured = [], []
    results = run_benchmark(
        RANGE,
        scale="tiny",
        repeat=1,
        scenarios=["local-overlap"],
        only=["duckdb", "juncture"],
        data=tmp_path,
        announce=said.append,
        finished=measured.append,
    )
    assert results == measured
    (result,) = results
    assert {each["contestant"]: each["status"] for each in result["entries"]} == {"juncture": "ok", "duckdb": "ok"}
    assert result["facts"]["left_rows"] == 10_000
    assert 9_000 < result["facts"]["expected_rows"] < 11_000
    assert said[0] == "local-overlap: preparing overlap join, about one match a row, 10,000 by 10,000 rows"
    assert len(said) == 3


def test_all_scenarios_have_names():
    names = RANGE.scenarios("full")
    assert names[:3] == ["local-band", "local-overlap", "local-agg"]
    assert [name for name in names if name.startswith("spark-seed-")][-1] == "spark-seed-10000000"
    assert sum("-skew-" in name for name in names) == 8
    assert scenarios_of(RANGE, "tiny", ["local"]) == [name for name in names if name.startswith("local")]


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("shape", ["points", "intervals"])
def test_skewed_tables_have_about_as_many_matches(tmp_path, monkeypatch, engine, shape):
    monkeypatch.setattr("juncture_benchmarks.benchmark.run_scenario", lambda scenario, **_: scenario.facts)
    even, skewed = run_benchmark(RANGE, scale="tiny", data=tmp_path, scenarios=[f"{engine}-skew-{shape}"])
    assert skewed["expected_rows"] == pytest.approx(even["expected_rows"], rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "ful"}, "Did you mean 'full'"),
        ({"engines": ["sparc"]}, "Did you mean 'spark'"),
        ({"repeat": 0}, "repeat must be at least 1"),
        ({"scenarios": ["local-bend"]}, "Did you mean 'local-band'"),
        ({"engines": ["spark"], "scenarios": ["local-band"]}, "has no scenario"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message):
    with pytest.raises(SpecError, match=message):
        run_benchmark(RANGE, **arguments, data=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unknown_contestants_are_refused(tmp_path):
    with pytest.raises(SpecError, match="no contestant of local-overlap is called 'duckdbb'"):
        run_benchmark(RANGE, scale="tiny", scenarios=["local-overlap"], only=["duckdbb"], data=tmp_path)


def entry(contestant, seconds):
    common = {"contestant": contestant, "title": contestant.title(), "ours": "juncture" in contestant, "reason": ""}
    if seconds is None:
        return {**common, "status": "not finished", "runs": []}
    memory = dict.fromkeys(("own_peak_bytes", "java_peak_bytes", "worker_peak_bytes"), 0)
    median = {"seconds": seconds, "peak_bytes": seconds * 1e9, "cpu_s": seconds, **memory}
    return {**common, "status": "ok", "median": median, "runs": [median]}


def result(name, rows, **seconds):
    return {
        "name": name,
        "title": name,
        "facts": {"left_rows": rows, "right_rows": rows, "expected_rows": 360 * rows},
        "entries": [entry(contestant.replace("_", "-"), each) for contestant, each in seconds.items()],
        "machine": {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**34, "system": "Linux"},
        "versions": {"python": "3.11"},
        "date": "2025-01-01T00:00:00",
        "repeat": 1,
        "load_average": 0.0,
        "note": "",
    }


@pytest.mark.skipif(not (find_spec("altair") and find_spec("vl_convert")), reason="the plot needs both")
def test_the_page_compares(tmp_path):
    save_results(
        tmp_path / "range-full.json",
        [
            result("spark-seed-1000000", 1_000_000, juncture_auto=9.0, naive=None),
            result("spark-seed-50000", 50_000, naive=36.0),
            result("local-band", 10, duckdb=8.0, juncture=2.0),
        ],
    )
    page, plot = write_range_page(tmp_path / "docs" / "range.md", tmp_path)
    text = page.read_text()
    assert plot.exists()
    assert "| Band join, Juncture against DuckDB | 0.25 x | 0.25 x |" in text
    assert "| Spark, Juncture at 1,000,000 rows against the condition alone at 50,000 | 0.25 x | 0.25 x |" in text
    assert "| 50,000 | 18,000,000 | 36.00 s |  |" in text
    assert "| 1,000,000 | 360,000,000 | not finished | 9.00 s |" in text
    assert text.index("local-band") < text.index("spark-seed-1000000")
    assert "spark-seed-50000" not in text  # only a row of the table above
