"""A budget is a promise in tasks as well: what a task takes to join sides that exceed it, seen from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = {"few": 1_000, "many": 30_000}
"""Of a side. Each takes 4 kB."""

MEMORY_BYTES = 96_000_000


@pytest.mark.parametrize("kind", ["asof", "range", "range-agg", "overlap", "where"])
@pytest.mark.parametrize(("left", "right"), [("few", "many"), ("many", "many")])
def test_a_task_stays_within_its_budget(kind: str, left: str, right: str) -> None:
    script = Path(__file__).parents[1] / "support" / "task_peak.py"
    arguments = [sys.executable, str(script), kind, str(MEMORY_BYTES), str(ROWS[left]), str(ROWS[right])]
    answer = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    assert answer["rows"] > 100
    assert answer["taken_bytes"] <= MEMORY_BYTES
