"""Radix passes against NumPy's stable sort; runs of equal values against a loop."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import sort

pytestmark = pytest.mark.usefixtures("each_way_to_run")

words = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=80)


@given(codes=words, cut=st.integers(0, 80))
def test_passes_over_two_slices_sort_stably(codes, cut):
    codes = np.array(codes, np.uint64)
    given_codes, rows = codes.copy(), np.arange(len(codes), dtype=np.int32)
    slices = [slice(0, min(cut, len(codes))), slice(min(cut, len(codes)), len(codes))]
    for shift in range(0, 64, 8):
        counts = np.empty((2, sort.RADIX), np.int64)
        for number, part in enumerate(slices):
            sort.count_digits(codes[part], shift, counts[number])
        offsets = (np.cumsum(counts.T.ravel()) - counts.T.ravel()).reshape(sort.RADIX, 2).T.copy()
        moved, moved_rows = np.empty_like(codes), np.empty_like(rows)
        for number, part in enumerate(slices):
            sort.move_by_digit(codes[part], rows[part], shift, offsets[number], moved, moved_rows)
        codes, rows = moved, moved_rows
    assert rows.tolist() == np.argsort(given_codes, kind="stable").tolist()
    assert codes.tolist() == sorted(given_codes.tolist())


@given(partitions=st.lists(words, max_size=4), first_bit=st.integers(0, 9), digits=st.integers(1, 7))
def test_partitions_are_sorted_stably_by_some_bits(partitions, first_bit, digits):
    codes = np.array([code for partition in partitions for code in partition], np.uint64)
    starts = np.cumsum([0, *map(len, partitions)]).astype(np.int64)
    rows, out_codes, out_rows = (
        np.arange(len(codes), dtype=np.int32),
        np.zeros_like(codes),
        np.zeros(len(codes), np.int32),
    )
    end_bit = first_bit + 8 * digits - 3
    # The bits above are those of the partition.
    codes &= np.uint64(2**end_bit - 1)
    given_codes, last = codes.copy(), len(partitions)
    sort.sort_partitions(codes, rows, starts, 0, last, first_bit, end_bit, out_codes, out_rows)
    order = [
        start + np.argsort(given_codes[start:end] >> np.uint64(first_bit), kind="stable")
        for start, end in itertools.pairwise(starts.tolist())
    ]
    assert out_rows.tolist() == [row for rows in order for row in rows.tolist()]
    assert out_codes.tolist() == given_codes[out_rows].tolist()


@given(codes=words)
def test_is_ascending(codes):
    assert sort.is_ascending(np.array(codes, np.uint64)) == (codes == sorted(codes))


@given(groups=st.lists(st.lists(st.integers(0, 4), max_size=12), max_size=5))
def test_mark_runs(groups):
    on = np.array([v for group in groups for v in sorted(group)], np.int64)
    starts = np.cumsum([0] + [len(group) for group in groups]).astype(np.int64)
    ends = np.empty(len(on), np.int32)
    repeated = sort.mark_runs(on, starts, ends)
    expected, alone = [], 0
    for group, start in zip(groups, starts, strict=False):
        ordered = sorted(group)
        expected += [int(start) + len([v for v in ordered if v <= value]) for value in ordered]
        alone += sum(ordered.count(value) == 1 for value in ordered)
    assert ends.tolist() == expected
    assert repeated == len(on) - alone
