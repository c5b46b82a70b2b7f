"""Batches sorted through the disk: the order and all rows, whatever fits in memory, and equal rows as they came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.runtime.context import join_context
from juncture.runtime.sort import ExternalSorter, RangeSizes
from juncture.runtime.spill import SpillFolder

SCHEMA = pa.schema([("text", pa.string()), ("code", pa.int64()), ("place", pa.int64())])


RANGES = RangeSizes()


def batches(codes, sizes):
    place = 0
    for size in sizes:
        part = codes[place : place + size]
        places = range(place, place + len(part))
        yield pa.record_batch([[f"row {i}" for i in places], pa.array(part, pa.int64()), list(places)], schema=SCHEMA)
        place += size


def sorted_rows(codes, sizes, memory_bytes, thread_count=2, sample=None, cut=RANGES):
    with join_context(threads=thread_count, memory_bytes=memory_bytes) as context:
        sample = None if sample is None else np.array(sample, np.int64)
        context = replace(context, threads=context.threads.within(memory_bytes))
        sorter = ExternalSorter(SCHEMA, "code", context, sample, sizes=cut)
        return pa.Table.from_batches(sorter.sort(batches(codes, sizes)), SCHEMA), context.spill


def in_order(codes):
    return np.argsort(np.array(codes, np.int64), kind="stable").tolist()


@given(
    codes=st.lists(st.integers(-3, 3) | st.integers(0, 1_009) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=60),
    sizes=st.lists(st.integers(0, 9), min_size=60, max_size=60),
    memory_bytes=st.sampled_from([1, 500, 5_000, 10**9]),
    sample=st.none() | st.lists(st.integers(-3, 1_009), min_size=1, max_size=5) | st.just([-(2**63), 2**63 - 1]),
    ranges=st.sampled_from([2, 3, 256]),
    rows=st.sampled_from([1, 5, 1 << 16]),
)
def test_stable_order(codes, sizes, memory_bytes, sample, ranges, rows):
    codes = codes[: sum(sizes)]
    cut = RangeSizes(ranges_least=2, ranges_most=ranges, piece_bytes=50, batch_rows=rows)
    table, _ = sorted_rows(codes, sizes, memory_bytes, sample=sample, cut=cut)
    assert table["place"].to_pylist() == in_order(codes)
    assert table["text"].to_pylist() == [f"row {i}" for i in in_order(codes)]


def test_what_fits_is_not_written():
    assert sorted_rows(list(range(100)), [50, 50], 10**6)[1].spilled_bytes == 0
    assert sorted_rows(list(range(100)), [50, 50], 1_000)[1].spilled_bytes > 0


@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize("sample", [None, [0, 10**6]])
def test_many_rows_of_one_code_stream_through(sample, thread_count):
    table, spill = sorted_rows([7] * 5_000, [100] * 50, 20_000, thread_count, sample)
    assert spill.spilled_bytes > 0
    assert table["place"].to_pylist() == list(range(5_000))


@pytest.mark.parametrize("sample", [None, [10**6], range(0, 10**6, 1_000)], ids=["first rows", "one value", "wrong"])
@pytest.mark.parametrize("order", ["ascending", "descending", "none"])
def test_ranges_with_too_many_rows_are_cut_again(order, sample):
    codes = np.random.default_rng(1).integers(0, 50, 5_000)
    codes = {"ascending": np.sort(codes), "descending": -np.sort(-codes), "none": codes}[order].tolist()
    table, _ = sorted_rows(codes, [100] * 50, 20_000, sample=sample)
    assert table["place"].to_pylist() == in_order(codes)


def test_rows_are_written_once_where_the_sample_is_right():
    codes = np.random.default_rng(1).integers(0, 10**6, 50_000).tolist()
    sizes = [100] * 500
    right = sorted_rows(codes, sizes, 10**6, sample=range(0, 10**6, 1_000))[1].spilled_bytes
    wrong = sorted_rows(codes, sizes, 10**6, sample=[10**7])[1].spilled_bytes
    assert right < 0.6 * wrong


def test_files_are_removed_once_they_are_read(tmp_path):
    with SpillFolder(tmp_path) as spill, join_context(threads=2, memory_bytes=20_000) as context:
        codes = np.random.default_rng(1).integers(0, 50, 5_000).tolist()
        rows = ExternalSorter(SCHEMA, "code", replace(context, spill=spill)).sort(batches(codes, [100] * 50))
        assert list(tmp_path.glob("*/*"))
        for _ in rows:
            pass
        assert not list(tmp_path.glob("*/*"))
