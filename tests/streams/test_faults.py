"""Joins of streams on Spark of which everything is killed, driver, JVM and workers: nothing is lost or doubled."""

from __future__ import annotations

import random

import pytest

import juncture as jn
from support.faulty_stream import CASES, run_with_kills, write_input
from support.streaming import without_end
from support.tables import difference

# Each life of a query costs the start of a JVM.
pytestmark = [pytest.mark.early, pytest.mark.nightly]

BATCHES, KILLS = 20, 10


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.changes])
def test_killed(tmp_path, name):
    chance = random.Random(f"{name} {KILLS}")
    left, right = write_input(CASES[name], tmp_path, BATCHES, chance).values()
    answer = run_with_kills(name, tmp_path, batches=BATCHES, kills=KILLS, chance=chance)
    expected = without_end(jn.plan(left, right, CASES[name].spec).execute())
    assert expected.num_rows > 0
    problem = difference(without_end(answer), expected, ordered=False)
    assert problem is None, problem
