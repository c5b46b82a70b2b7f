"""Sorted runs on disk: the order and all rows, whatever fits in memory, and equal rows as they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.local import external_sort as module
from juncture.local.external_sort import ExternalSorter
from juncture.local.spill import SpillFolder
from juncture.local.threads import Threads

SCHEMA = pa.schema([("text", pa.string()), ("code", pa.int64()), ("place", pa.int64())])


def batches(codes, sizes):
    place = 0
    for size in sizes:
        part = codes[place : place + size]
        places = range(place, place + len(part))
        yield pa.record_batch([[f"row {i}" for i in places], pa.array(part, pa.int64()), list(places)], schema=SCHEMA)
        place += size


def sorted_rows(codes, sizes, memory_bytes):
    with SpillFolder() as spill, Threads(2) as threads:
        sorter = ExternalSorter(SCHEMA, "code", spill, memory_bytes, threads)
        for batch in batches(codes, sizes):
            sorter.add(batch)
        return pa.Table.from_batches(sorter.sorted(), SCHEMA), spill.spilled_bytes


@given(
    codes=st.lists(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=60),
    sizes=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    memory_bytes=st.sampled_from([1, 200, 1_000, 10**9]),
    runs=st.sampled_from([2, 3, 64]),
    rows=st.sampled_from([1, 5, 1 << 16]),
)
def test_stable_order(codes, sizes, memory_bytes, runs, rows):
    codes = codes[: sum(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RUNS_MOST", runs)
        patch.setattr(module, "_BATCH_ROWS", rows)
        table, _ = sorted_rows(codes, sizes, memory_bytes)
    order = np.argsort(np.array(codes, np.int64), kind="stable").tolist()
    assert table["place"].to_pylist() == order
    assert table["text"].to_pylist() == [f"row {i}" for i in order]


def test_what_fits_is_not_written():
    assert sorted_rows(list(range(100)), [50, 50], 10**6)[1] == 0
    assert sorted_rows(list(range(100)), [50, 50], 1_000)[1] > 0


def test_many_rows_of_one_code_stream_through():
    codes = [7] * 5_000
    table, spilled = sorted_rows(codes, [100] * 50, 20_000)
    assert spilled > 0
    assert table["place"].to_pylist() == list(range(5_000))
