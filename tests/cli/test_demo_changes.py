"""The demo of tables that change, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo"


@pytest.mark.nightly
def test_the_demo():
    done = subprocess.run(
        [sys.executable, DEMO, "changes", "--seconds", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Equal to the query on the server: 7 rows" in done.stdout
    assert "since the start" in done.stdout
    assert " transactions and " in done.stdout
