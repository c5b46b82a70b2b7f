"""Hash tables of integers and byte strings against a dict."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import keys
from juncture.kernels.hash import hash_integers

integers = st.lists(st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=60)
strings = st.lists(st.one_of(st.none(), st.binary(max_size=3), st.binary(max_size=40)), max_size=60)


def expect(known, looked_up):
    codes = {}
    for value in known:
        if value is not None:
            codes.setdefault(value, len(codes))
    return [codes.get(v, -1) for v in known], [codes.get(v, -1) for v in looked_up]


def wanted(values):
    return np.array([keys.EMPTY if v is None else 0 for v in values], np.int32)


@given(known=integers, looked_up=integers)
def test_integers(known, looked_up):
    looked_up = looked_up + known
    slots, room = np.zeros(2, np.uint64), np.empty(200, np.int64)
    values, codes = np.array([v or 0 for v in known], np.int64), wanted(known)
    position = count = 0
    while (position := keys.add_integers(values, position, slots, room, count, codes)) < len(values):
        count = int(codes[:position].max()) + 1
        slots = np.zeros(2 * len(slots), np.uint64)
        keys.refill_integers(room, count, slots)
    found = wanted(looked_up)
    keys.find_integers(np.array([v or 0 for v in looked_up], np.int64), slots, room, found)
    assert (codes.tolist(), found.tolist()) == expect(known, looked_up)


def flatten(values):
    offsets = np.cumsum([0] + [len(v or b"") for v in values]).astype(np.int64)
    data = np.frombuffer(b"".join(v or b"" for v in values), np.uint8)
    hashes = np.empty(len(values), np.uint64)
    keys.hash_bytes(offsets, data, hashes)
    return offsets, data, hashes


@given(known=strings, looked_up=strings)
def test_bytes(known, looked_up):
    looked_up = looked_up + known
    offsets, data, hashes = flatten(known)
    slots, known_offsets, room = np.zeros(2, np.uint64), np.zeros(1_000, np.int64), np.zeros(1, np.uint8)
    codes = wanted(known)
    position = count = 0
    while True:
        position = keys.add_bytes(offsets, data, hashes, position, slots, known_offsets, room, count, codes)
        if position == len(hashes):
            break
        count = int(codes[:position].max(initial=-1)) + 1
        if 2 * count >= len(slots):
            slots = np.zeros(2 * len(slots), np.uint64)
            keys.refill_bytes(known_offsets, room, count, slots)
        else:
            room = np.concatenate([room, np.zeros(len(room) + 8, np.uint8)])
    found = wanted(looked_up)
    keys.find_bytes(*flatten(looked_up), slots, known_offsets, room, found)
    assert (codes.tolist(), found.tolist()) == expect(known, looked_up)


def test_strings_with_equal_hashes_are_told_apart():
    offsets, data = np.array([0, 1, 2, 3], np.int64), np.frombuffer(b"abc", np.uint8)
    same = np.array([7, 7, 7], np.uint64)
    slots, known_offsets, room = np.zeros(8, np.uint64), np.zeros(9, np.int64), np.zeros(9, np.uint8)
    codes = np.zeros(2, np.int32)
    assert keys.add_bytes(offsets[:3], data, same[:2], 0, slots, known_offsets, room, 0, codes) == 2
    assert codes.tolist() == [0, 1]
    found = np.zeros(3, np.int32)
    keys.find_bytes(offsets, data, same, slots, known_offsets, room, found)
    assert found.tolist() == [0, 1, keys.EMPTY]


def test_integers_with_half_a_hash_in_common_are_told_apart():
    # Their hashes are 0x12345678_00000008 and 0x12345678_00000010.
    values = np.array([-1_691_969_155_114_827_316, -4_774_195_145_602_228_063], np.int64)
    hashes = np.empty(2, np.uint64)
    hash_integers(values, hashes)
    assert (hashes >> np.uint64(32)).tolist() == [0x12345678] * 2
    slots, room, codes = np.zeros(8, np.uint64), np.empty(5, np.int64), np.zeros(1, np.int32)
    assert keys.add_integers(values[:1], 0, slots, room, 0, codes) == 1
    found = np.zeros(2, np.int32)
    keys.find_integers(values, slots, room, found)
    assert found.tolist() == [0, keys.EMPTY]


@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=30))
def test_map_codes(indices):
    mapping = np.array([4, -1, 2, 0, 7], np.int32)
    codes = wanted(indices)
    keys.map_codes(np.array([i or 0 for i in indices], np.int32), mapping, codes)
    assert codes.tolist() == [-1 if i is None else mapping[i] for i in indices]
