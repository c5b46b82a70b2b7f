"""Codes of keys in a narrow range, beside those of a hash table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.columnar.key_table import DenseKeys, KeyCodes
from juncture.kernels.hash_table import EMPTY
from juncture.runtime.scan import ends_of

TYPES = [
    (pa.int64(), pa.int64()),
    (pa.int8(), pa.uint64()),
    (pa.uint64(), pa.uint64()),
    (pa.date32(), pa.date64()),
    (pa.timestamp("ms"), pa.timestamp("s")),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    (pa.time64("ns"), pa.time64("ns")),
]
VALUES = st.lists(st.none() | st.integers(0, 100), max_size=20)


def array_of(values, data_type):
    """Return days, units of a time, or plain numbers."""
    if pa.types.is_date(data_type):
        return pa.array(values, pa.int32()).cast(pa.date32()).cast(data_type)
    return pa.array(values, pa.int64()).cast(data_type)


def codes_of(keys, array, *, added):
    codes = np.empty(len(array), np.int32)
    (keys.add if added else keys.find)([array], codes)
    return codes


@pytest.mark.parametrize("types", TYPES, ids=str)
@given(first=VALUES, second=VALUES)
def test_equal_keys_have_equal_codes(types, first, second):
    one, other = (array_of(values, each) for values, each in zip((first, second), types, strict=True))
    dense, hashed = DenseKeys.of(*types, ends_of(one), len(one)), KeyCodes(types[:1], types[1:], nulls_equal=False)
    if all(value is None for value in first):
        assert dense is None
        return
    found = [
        [codes_of(keys, array, added=added) for array, added in ((one, True), (other, False))]
        for keys in (dense, hashed)
    ]
    assert found[0][0].max() < dense.count
    pairs = [[a == b != EMPTY for a in added for b in sought] for added, sought in found]
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize(
    ("values", "rows", "is_dense"),
    [([0, 1_000], 2, True), ([0, 2_000], 2, False), ([0, 2_000], 600, True), ([-(2**63), 2**63 - 1], 10**6, False)],
)
def test_a_wide_range_needs_a_hash_table(values, rows, is_dense):
    ends = pa.array(values, pa.int64())
    assert (DenseKeys.of(pa.int64(), pa.int64(), ends, rows) is not None) == is_dense
    assert DenseKeys.of(pa.int64(), pa.int64(), None, rows) is None


def test_a_range_of_unsigned_keys_beyond_signed_ones_is_not_dense():
    kind = pa.uint64()
    assert DenseKeys.of(kind, kind, pa.array([1, 2**64 - 2], kind), 3) is None
