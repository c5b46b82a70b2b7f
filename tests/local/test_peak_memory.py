"""A budget is a promise: what a process takes to join files that exceed it, seen from outside the join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.runtime.memory import LEAST_MEMORY_BYTES, MemoryBudget
from juncture.runtime.parquet import ParquetSource
from support.peak import taken
from support.processes import in_new_process

ROWS = {"left": 33_000, "right": 33_000, "few": 16_500}
TEXT_BYTES = 1_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two files whose rows take 34 MB each, and one that takes 17 MB, in no order."""
    chance = np.random.default_rng(1)
    paths = {}
    for name, rows in ROWS.items():
        at = chance.integers(0, 40 * ROWS["left"], rows)
        letters = chance.integers(97, 123, rows * TEXT_BYTES, np.uint8)
        offsets = np.arange(rows + 1, dtype=np.int32) * TEXT_BYTES
        table = pa.table(
            {
                "at": at,
                "end": at + chance.integers(1, 40, rows),
                "key": chance.integers(0, 2, rows),
                "row": chance.permutation(rows),
                "text": pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]),
            }
        )
        paths[name] = str(tmp_path_factory.mktemp("files") / f"{name}.parquet")
        pq.write_table(table, paths[name], row_group_size=1 << 14, compression="none")
    return paths


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "algorithm", "right"),
    # Those of a nightly run hold what another one here does, by the same code.
    [
        ("asof", "probe", "right"),
        pytest.param("range", "external_merge", "right", marks=pytest.mark.nightly),
        pytest.param("range-agg", "external_merge", "right", marks=pytest.mark.nightly),
        ("overlap", "external_merge", "right"),
        pytest.param("where", "external_merge", "right", marks=pytest.mark.nightly),
        ("equi", "grace", "right"),
        pytest.param("equi", "external_sort_merge", "right", marks=pytest.mark.nightly),
        ("asof", "merge", "few"),
        ("range-agg", "binary_search", "few"),
        pytest.param("where", "interval_tree", "few", marks=pytest.mark.nightly),
        pytest.param("equi", "hash", "few", marks=pytest.mark.nightly),
        ("equi", "sort_merge", "few"),
    ],
)
def test_the_peak_stays_within_the_budget(kind: str, algorithm: str, right: str, files: dict[str, str]) -> None:
    rows, taken_bytes = in_new_process(taken, kind, algorithm, LEAST_MEMORY_BYTES, files["left"], files[right])
    assert rows >= ROWS[right] // 3
    assert taken_bytes <= LEAST_MEMORY_BYTES


def test_the_peak_of_an_asof_join_whose_output_just_fits_stays_within_the_budget(files: dict[str, str]) -> None:
    # Half of it is for the output: left rows of 34 MB, and right ones that take three times as much while gathered.
    memory_bytes = 2 * (34 + 3 * 34 + 4) * 10**6
    rows, taken_bytes = in_new_process(taken, "asof", "probe", memory_bytes, files["left"], files["right"])
    assert rows == ROWS["left"]
    assert taken_bytes <= memory_bytes


def test_a_thread_decodes_a_small_part_of_memory_at_once(files: dict[str, str]) -> None:
    # Arrow retains freed memory of several times a batch in each thread, until it decodes another one.
    source = ParquetSource([files["left"]]).within(MemoryBudget(LEAST_MEMORY_BYTES))
    batches = source.read(0, source.schema.names)
    assert max(batch.nbytes for batch in batches) <= LEAST_MEMORY_BYTES // 60
