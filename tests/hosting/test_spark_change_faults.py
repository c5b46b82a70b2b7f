"""A join of changes on Spark of which everything is killed, driver, JVM and workers: nothing is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import juncture as jn
from support.change_streams import LEFT, RIGHT, epochs, summed
from support.faulty_stream import CASES, run_with_kills
from support.streaming import write_files
from support.tables import canonical_rows

BATCHES, KILLS = 12, 5


# That a query goes on from its checkpoint is held by a test that is in each run; a life of a driver costs a JVM.
@pytest.mark.early
@pytest.mark.nightly
def test_killed(tmp_path):
    chance, spec = random.Random(7), CASES["changes-asof"].spec
    in_process = jn.changes(LEFT, RIGHT, spec)
    changes = {side: epochs(schema, chance, BATCHES)[0] for side, schema in (("left", LEFT), ("right", RIGHT))}
    for side, parts in changes.items():
        write_files(parts, tmp_path / side)
    answer = run_with_kills("changes-asof", tmp_path, batches=BATCHES, kills=KILLS, chance=chance)
    for left, right in zip(changes["left"], changes["right"], strict=True):
        in_process.apply(left=left, right=right)
    held = Counter(canonical_rows(in_process.result()))
    assert sum(held.values()) > 0
    assert summed(answer) == held
