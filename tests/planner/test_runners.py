"""Each row of the planner has what runs it."""

from __future__ import annotations

from typing import Any

import pytest

from juncture.local.kinds import RUNNERS
from juncture.planner.choose import ALGORITHMS
from juncture.spark.plan import PLANNINGS
from support.kinds import SPECS


@pytest.mark.parametrize("kind", SPECS.values())
def test_every_algorithm_in_process_is_run_by_one_function(kind):
    assert {algorithm.name for algorithm in ALGORITHMS[kind]["local"]} <= RUNNERS[kind].keys()


@pytest.mark.parametrize("kind", SPECS.values())
def test_every_algorithm_on_spark_is_built_by_one_function(kind):
    planning: Any = PLANNINGS[kind]
    assert {algorithm.name for algorithm in ALGORITHMS[kind]["spark"]} <= planning._builders.keys()
