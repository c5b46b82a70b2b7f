"""Rows sorted in buckets, against the order of key, value, known code and row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.kernels import bucket_sort as kernels
from juncture.kernels import search

pytestmark = pytest.mark.usefixtures("each_way_to_run")

SPANS = {"dense": 3, "wide": 10**9, "extreme": 2**62}


def order(left, keys, on, known, partition_buckets, wanted):
    """Return the rows in order with the first of each group, what is left to sort, and the state of each partition."""
    starts = np.cumsum([0, *map(len, left)]).astype(np.int64)
    slots = np.concatenate([np.sort(each) for each in left])
    groups, firsts = np.zeros((len(left), search.GROUP_COLUMNS), np.int64), np.empty(len(left), np.int64)
    count = kernels.plan_buckets(slots, starts, wanted, groups, firsts)
    shift = partition_buckets.bit_length() - 1
    edges = [*range(0, count, 1 << shift), count]
    counts, buckets = np.zeros(len(edges) - 1, np.int64), np.empty(len(keys), np.int32)
    search.partition_count(keys, on, groups, False, False, shift, buckets, counts)
    ends = [0, *np.cumsum(counts).tolist()]
    offsets, size = np.cumsum(counts) - counts, ends[-1]
    moved = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    kernels.scatter(on, known, buckets, 1000, shift, offsets, *moved)
    out = [np.empty(size, np.int64) for _ in range(3)]
    out_starts, unsorted, states = np.full(len(left) + 1, size, np.int64), [], []
    for number, group in enumerate(np.searchsorted(firsts, edges[:-1]).tolist()):
        part = slice(ends[number], ends[number + 1])
        state, runs = np.zeros(kernels.STATES, np.int64), np.empty((size // kernels.LONG, 2), np.int64)
        moved_on, moved_known, moved_buckets, moved_pointers = (each[part] for each in moved)
        kernels.order_partition(
            moved_buckets, moved_on, moved_known, moved_pointers, part.start, edges[number], edges[number + 1], firsts,
            group, *(each[part] for each in out), out_starts, runs, state,
        )  # fmt: skip
        unsorted += [(part.start + a, part.start + b) for a, b in runs[: state[kernels.LONG_BUCKETS]].tolist()]
        states.append(state)
    return out, out_starts, unsorted, states


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    left_rows=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    rows=st.sampled_from([0, 1, 50, 3_000]),
    span=st.sampled_from(sorted(SPANS)),
    partition_buckets=st.sampled_from([1, 4, 1024]),
    share=st.sampled_from([0, 1, 3]),
)
def test_rows_come_by_group_value_known_code_and_row(seed, left_rows, rows, span, partition_buckets, share):
    chance, most = np.random.default_rng(seed), SPANS[span]
    left = [chance.integers(-most, most, count) for count in left_rows]
    keys = chance.integers(-1, len(left), rows).astype(np.int32)
    on, known = chance.integers(-most, most, rows), chance.integers(0, 5, rows)
    out, starts, unsorted, states = order(left, keys, on, known, partition_buckets, share * rows)

    serves = [key >= 0 and len(left[key]) > 0 and value <= left[key].max() for key, value in zip(keys, on, strict=True)]
    wanted = sorted((keys[row], on[row], known[row], row) for row in np.flatnonzero(serves).tolist())
    assert starts[:-1].tolist() == [sum(key < group for key, *_ in wanted) for group in range(len(left))]
    for start, end in unsorted:
        assert end - start > kernels.LONG
        by = np.lexsort([column[start:end] for column in (out[1], out[0])])
        for column in out:
            column[start:end] = column[start:end][by]
    assert list(zip(*(column.tolist() for column in out), strict=True)) == [
        (value, code, 1000 + row) for _, value, code, row in wanted
    ]
    equals = len({each[:3] for each in wanted}) < len(wanted)
    assert not equals or unsorted or any(state[kernels.TIED] for state in states)


def test_long_buckets_are_left_unless_they_are_sorted():
    rows = 4 * kernels.LONG
    keys, known = np.zeros(rows, np.int32), np.zeros(rows, np.int64)
    # All lie before the only left row, in one bucket.
    left = [np.array([rows])]
    falling = order(left, keys, np.arange(rows)[::-1].copy(), known, 4, rows)
    assert falling[2] == [(0, rows)]
    (on, _, pointers), _, unsorted, _ = order(left, keys, np.arange(rows), known, 4, rows)
    assert unsorted == []
    assert on.tolist() == list(range(rows))
    assert pointers.tolist() == list(range(1000, 1000 + rows))
