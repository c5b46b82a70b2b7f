"""Each row of the planner has what runs it."""

from __future__ import annotations

import pytest

from juncture.local.kinds import RUNNERS
from juncture.planner.choose import ALGORITHMS
from support.kinds import SPECS


@pytest.mark.parametrize("kind", SPECS.values())
def test_every_algorithm_in_process_is_run_by_one_function(kind):
    assert {algorithm.name for algorithm in ALGORITHMS[kind]["local"]} <= RUNNERS[kind].keys()
