"""A budget is a promise in tasks as well: what a task takes to join sides that exceed it, seen from outside."""

from __future__ import annotations

import pytest

from support.processes import in_new_process
from support.task_peak import SPECS, taken

ROWS = {"few": 1_000, "many": 30_000}
"""Of a side. Each takes 4 kB."""

MEMORY_BYTES = 96_000_000

# All kinds but as-of joins read and keep both sides alike, many left rows are kept as many right rows are, and each
# takes a while.
USUAL = [("range-agg", "few"), ("asof", "few")]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        pytest.param(kind, left, marks=[] if (kind, left) in USUAL else pytest.mark.nightly)
        for kind in SPECS
        for left in ROWS
    ],
)
def test_a_task_stays_within_its_budget(kind: str, left: str) -> None:
    rows, taken_bytes = in_new_process(taken, kind, MEMORY_BYTES, ROWS[left], ROWS["many"])
    assert rows > 100
    assert taken_bytes <= MEMORY_BYTES
