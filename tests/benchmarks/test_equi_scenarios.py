from __future__ import annotations

from importlib.util import find_spec

import pyarrow.parquet as pq
import pytest

from juncture.errors import SpecError
from juncture_benchmarks.benchmark import run_benchmark
from juncture_benchmarks.datasets import write_keyed
from juncture_benchmarks.equi import scenarios
from juncture_benchmarks.equi import spark as spark_bench
from juncture_benchmarks.equi.benchmark import EQUI
from juncture_benchmarks.equi.local import JOINING, LIMITED, LocalTrial, contestant
from juncture_benchmarks.equi.page import write_equi_page
from juncture_benchmarks.equi.task import IDS, Task, expected_answer
from juncture_benchmarks.harness import save_results
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.session import observed_answer
from juncture_benchmarks.trial import measure

ENGINES = [name for name, (_, package, _) in (JOINING | LIMITED).items() if find_spec(package)]


def task(folder) -> Task:
    return Task.of(write_keyed(folder / "data", left_rows=300, right_rows=3_000, keys=600), 10**9)


@pytest.mark.parametrize("key_kind", ["text", "integer"])
def test_the_expected_answer_is_that_of_all_pairs(tmp_path, key_kind):
    tables = write_keyed(tmp_path / "data", left_rows=300, right_rows=3_000, keys=600, key_kind=key_kind)
    given = Task.of(tables)
    left, right = (pq.read_table(path).to_pylist() for path in (given.left, given.right))
    pairs = [(one["id"], other["id"]) for one in left for other in right if one["key"] == other["key"]]
    expected = expected_answer(given)
    assert expected.rows == len(pairs) > 1_000
    assert expected.sums[0] == sum(
        (1 + one * 1_000_003 % 9_973) * (1 + other * 1_000_003 % 9_973) for one, other in pairs
    )
    assert expected_answer(given) == expected


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_gives_the_expected_answer(tmp_path, name):
    given = task(tmp_path)
    measured = measure(LocalTrial(**contestant(name, given, given).arguments))
    assert expected_answer(given).difference(Answer(**measured["answer"])) is None


@pytest.mark.in_turn
@pytest.mark.parametrize("name", spark_bench.NAMES)
def test_every_query_on_spark_gives_the_expected_answer(spark, tmp_path, name):
    tables = write_keyed(tmp_path / "data", left_rows=300, right_rows=3_000, keys=600, hot_share=0.5)
    given = Task.of(tables)
    found = observed_answer(spark_bench.joined(name, given, spark), IDS)
    assert expected_answer(given).difference(found) is None


def test_a_run_from_tables_to_page(tmp_path, monkeypatch):
    monkeypatch.setitem(scenarios._ROWS, "tiny", (1_000, 100_000))
    measured = run_benchmark(EQUI, scale="tiny", repeat=1, only=["juncture-limited"], data=tmp_path)
    assert [each["name"] for each in measured] == ["local-limited"]
    [entry] = measured[0]["entries"]
    assert entry["status"] == "ok", entry["reason"]
    save_results(tmp_path / "equi-full.json", measured)
    page, *_ = write_equi_page(tmp_path / "equi.md", tmp_path)
    assert "Juncture, memory=" in page.read_text()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scale": "huge"}, "scale='huge' is not a scale"),
        ({"repeat": 0}, "repeat must be at least 1"),
        ({"scenarios": ["local-limted"]}, "Did you mean 'local-limited'?"),
    ],
)
def test_wrong_arguments(tmp_path, wrong, said):
    with pytest.raises(SpecError) as error:
        run_benchmark(EQUI, data=tmp_path, **wrong)
    assert said in str(error.value)


def test_names():
    assert EQUI.scenarios("full") == [
        "local-small-large",
        "local-large-small",
        "local-integers-small-large",
        "local-integers-large-small",
        "local-limited",
        "spark-even",
        "spark-hot",
    ]
