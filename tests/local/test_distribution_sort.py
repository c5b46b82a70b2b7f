"""Rows distributed over ranges of their numbers: the order and all rows, whatever fits, and equal rows as they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.local import distribution_sort as module
from juncture.local.distribution_sort import DistributionSorter
from juncture.local.spill import SpillFolder
from juncture.local.threads import Threads

SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64()), ("place", pa.int64())])


def batches(numbers, sizes):
    place = 0
    for size in sizes:
        part = numbers[place : place + size]
        places = range(place, place + len(part))
        yield pa.record_batch([[f"row {i}" for i in places], pa.array(part, pa.int64()), list(places)], schema=SCHEMA)
        place += size


def sorted_rows(numbers, sizes, limits, memory_bytes, thread_count=2):
    with SpillFolder() as spill, Threads(thread_count, frugal=True) as threads:
        sorter = DistributionSorter(SCHEMA, "number", limits, spill, memory_bytes, threads)
        return pa.Table.from_batches(sorter.sort(batches(numbers, sizes)), SCHEMA), spill.spilled_bytes


@given(
    numbers=st.lists(st.integers(0, 9) | st.integers(0, 1_009), max_size=60),
    sizes=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    limits=st.sampled_from([(0, 10, 1_010), (0, 1_010), (0, 0, 1_010), (0, 1_010, 1_010)]),
    memory_bytes=st.sampled_from([1, 500, 5_000, 10**9]),
    ranges=st.sampled_from([2, 3, 256]),
    rows=st.sampled_from([1, 5, 1 << 16]),
)
def test_stable_order(numbers, sizes, limits, memory_bytes, ranges, rows):
    numbers = numbers[: sum(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RANGES_MOST", ranges)
        patch.setattr(module, "_PIECE_BYTES", 50)
        patch.setattr(module, "_BATCH_ROWS", rows)
        table, _ = sorted_rows(numbers, sizes, limits, memory_bytes)
    order = np.argsort(np.array(numbers, np.int64), kind="stable").tolist()
    assert table["place"].to_pylist() == order
    assert table["text"].to_pylist() == [f"row {i}" for i in order]


def test_what_fits_is_not_written():
    assert sorted_rows(list(range(100)), [50, 50], (0, 100), 10**6)[1] == 0
    assert sorted_rows(list(range(100)), [50, 50], (0, 100), 1_000)[1] > 0


@pytest.mark.parametrize("thread_count", [1, 2])
def test_many_rows_of_one_number_stream_through(thread_count):
    table, spilled = sorted_rows([7] * 5_000, [100] * 50, (0, 1_000_000), 20_000, thread_count)
    assert spilled > 0
    assert table["place"].to_pylist() == list(range(5_000))


def test_a_range_with_too_many_rows_is_cut_again():
    numbers = np.random.default_rng(1).integers(0, 50, 5_000).tolist()
    table, _ = sorted_rows(numbers, [100] * 50, (0, 1_000_000), 20_000)
    assert table["place"].to_pylist() == np.argsort(numbers, kind="stable").tolist()
