from __future__ import annotations

from importlib.util import find_spec

import pytest

from juncture_benchmarks.features import spark as spark_bench
from juncture_benchmarks.features.local import JOINING, LocalTrial, contestant
from juncture_benchmarks.features.scenarios import make_scenario, scenario_names
from juncture_benchmarks.features.task import Task, expected_answer, write_tables
from juncture_benchmarks.pairs import Answer
from juncture_benchmarks.trial import measure

ENGINES = [name for name, (_, package, _) in JOINING.items() if find_spec(package)]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return write_tables(tmp_path_factory.mktemp("features"), 2_000, 4_000)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_gives_the_expected_answer(task: Task, name: str) -> None:
    measured = measure(LocalTrial(**contestant(name, task, task).arguments))
    assert expected_answer(task).difference(Answer(**measured["answer"])) is None


@pytest.mark.one_in(4)
@pytest.mark.spark
@pytest.mark.in_turn
@pytest.mark.parametrize("name", spark_bench.NAMES)
def test_every_query_on_spark_gives_the_expected_answer(spark, task: Task, name: str) -> None:
    found = spark_bench.observed(spark_bench.joined(name, task, spark))
    assert expected_answer(task).difference(found) is None


def test_scenarios_have_ours_and_the_peers(tmp_path) -> None:
    for name in scenario_names():
        scenario = make_scenario(name, "tiny", tmp_path, lambda _: None)
        assert scenario.contestants[0].name == "juncture"
        assert scenario.facts["tables"] == 10
