"""A budget is a promise: what a process takes to join files that exceed it, seen from outside the join."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.local.memory import LEAST_MEMORY_BYTES

ROWS = 48_000
TEXT_BYTES = 1_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files whose rows take 50 MB each, in no order."""
    chance = np.random.default_rng(1)
    paths = []
    for name in ("left", "right"):
        at = chance.integers(0, 2 * 10**6, ROWS)
        letters = chance.integers(97, 123, ROWS * TEXT_BYTES, np.uint8)
        offsets = np.arange(ROWS + 1, dtype=np.int32) * TEXT_BYTES
        table = pa.table(
            {
                "at": at,
                "end": at + chance.integers(1, 40, ROWS),
                "key": chance.integers(0, 2, ROWS),
                "row": chance.permutation(ROWS),
                "text": pa.Array.from_buffers(pa.string(), ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]),
            }
        )
        paths.append(str(tmp_path_factory.mktemp("files") / f"{name}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=1 << 14, compression="none")
    return paths


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("asof", "probe"),
        ("range", "external_merge"),
        ("range-agg", "external_merge"),
        ("overlap", "external_merge"),
        ("where", "external_merge"),
        ("equi", "grace"),
        ("equi", "external_sort_merge"),
    ],
)
def test_the_peak_stays_within_the_budget(kind: str, algorithm: str, files: list[str]) -> None:
    script = Path(__file__).parents[1] / "support" / "peak.py"
    arguments = [sys.executable, str(script), kind, algorithm, str(LEAST_MEMORY_BYTES), *files]
    answer = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    assert answer["rows"] >= ROWS // 3
    assert answer["taken_bytes"] <= LEAST_MEMORY_BYTES
