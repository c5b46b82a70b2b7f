"""Hash tables of integers and byte strings against a dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import hash_table, keys
from juncture.kernels.hash import hash_integers

pytestmark = pytest.mark.usefixtures("each_way_to_run")

integers = st.lists(st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=60)
strings = st.lists(st.one_of(st.none(), st.binary(max_size=3), st.binary(max_size=40)), max_size=60)


def expect(known, looked_up):
    codes = {}
    for value in known:
        if value is not None:
            codes.setdefault(value, len(codes))
    return [codes.get(v, -1) for v in known], [codes.get(v, -1) for v in looked_up]


def wanted(values):
    return np.array([hash_table.EMPTY if v is None else 0 for v in values], np.int32)


def unmix(value):
    """Return what `mix` makes this value of."""
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        value ^= value >> 33
        value = value * pow(factor, -1, 1 << 64) % (1 << 64)
    return value ^ value >> 33


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


class Integers:
    """A table of integers as small as it can be."""

    def __init__(self):
        self.table, self.known, self.count = hash_table.empty_table(1), np.empty(200, np.int64), 0

    def add(self, known):
        values, codes, position = np.array([v or 0 for v in known], np.int64), wanted(known), 0
        while True:
            position = keys.add_integers(values, position, self.table, self.known, self.count, codes)
            self.count = max(self.count, int(codes[:position].max(initial=-1)) + 1)
            if position == len(known):
                return codes.tolist()
            assert self.count == hash_table.most_keys(self.table)
            self.table = hash_table.empty_table(2 * self.count)
            keys.refill_integers(self.known, self.count, self.table)

    def find(self, looked_up):
        found = wanted(looked_up)
        keys.find_integers(np.array([v or 0 for v in looked_up], np.int64), self.table, self.known, found)
        return found.tolist()


class Strings:
    """A table of byte strings as small as it can be."""

    def __init__(self):
        self.table, self.count = hash_table.empty_table(1), 0
        self.known = np.empty(400, np.uint64), np.zeros(201, np.int64), np.zeros(1, np.uint8)

    def add(self, known):
        codes, position = wanted(known), 0
        while True:
            position = keys.add_bytes(*flatten(known), position, self.table, *self.known, self.count, codes)
            self.count = max(self.count, int(codes[:position].max(initial=-1)) + 1)
            if position == len(known):
                return codes.tolist()
            words, offsets, room = self.known
            if self.count == hash_table.most_keys(self.table):
                self.table = hash_table.empty_table(2 * self.count)
                keys.refill_bytes(words, self.count, self.table)
            else:
                self.known = words, offsets, np.concatenate([room, np.zeros(len(room) + 8, np.uint8)])

    def find(self, looked_up):
        found = wanted(looked_up)
        keys.find_bytes(*flatten(looked_up), self.table, *self.known, found)
        return found.tolist()


def flatten(values):
    offsets = np.cumsum([0] + [len(v or b"") for v in values]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(v or b"" for v in values), np.uint8)


def hashes_of(values):
    hashes = np.empty(len(values), np.uint64)
    keys.hash_bytes(*flatten(values), hashes)
    return hashes.tolist()


@given(known=integers, looked_up=integers)
def test_integers(known, looked_up):
    looked_up = looked_up + known
    table = Integers()
    assert (table.add(known), table.find(looked_up)) == expect(known, looked_up)


@given(known=strings, looked_up=strings)
def test_bytes(known, looked_up):
    looked_up = looked_up + known
    table = Strings()
    assert (table.add(known), table.find(looked_up)) == expect(known, looked_up)


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1_000])
def test_a_table_is_made_of_whole_cache_lines(size):
    table = hash_table.empty_table(size)
    assert table.ctypes.data % 64 == 0 and len(table) % 16 == 0 and not table.any()
    assert size <= hash_table.most_keys(table) < max(2 * size, 5)


def test_integers_with_one_tag_are_told_apart_in_their_bucket_and_beyond():
    # More of them than a bucket has lanes, all with the bits that choose the first bucket.
    alike = [signed(unmix(0x12345679_00000000 | (number << 8))) for number in range(25)]
    hashes = np.empty(len(alike), np.uint64)
    hash_integers(np.array(alike), hashes)
    assert {int(hashed) >> 32 for hashed in hashes} == {0x12345679}
    table, others = Integers(), alike[20:]
    known = alike[:20]
    assert table.add(known + known) == [*range(20), *range(20)]
    assert table.find([*others, *known, None]) == [*[hash_table.EMPTY] * 5, *range(20), hash_table.EMPTY]


def test_short_strings_with_one_tag_are_told_apart():
    alike = []
    for number in range(1 << 14):
        # What is mixed to the hash is the string's second word beside what its first one makes of it.
        mixed = unmix(0x12345679_00000000 | (number << 4))
        word = mixed ^ 0x9E3779B97F4A7C15
        if word >> 56 == 15:
            alike.append(bytes(8) + (word & ((1 << 56) - 1)).to_bytes(7, "little"))
    assert len(alike) > 20 and {hashed >> 32 for hashed in hashes_of(alike)} == {0x12345679}
    table, others = Strings(), alike[20:]
    assert table.add(alike[:20] * 2) == [*range(20), *range(20)]
    assert table.find([*others, *alike[:20]]) == [*[hash_table.EMPTY] * len(others), *range(20)]


def test_long_strings_with_one_hash_are_told_apart():
    # What is mixed of the first word loses its highest bit.
    state = 24 * 0x9E3779B97F4A7C15 % (1 << 64)
    mixed = [0x12345678_9ABCDEF0, 0x12345678_9ABCDEF0 | 1 << 63]
    one, other = ((unmix(value) ^ state).to_bytes(8, "little") + b"0123456789abcdef" for value in mixed)
    assert one != other and len(set(hashes_of([one, other]))) == 1
    table = Strings()
    assert table.add([one]) == [0]
    assert table.find([other, one]) == [hash_table.EMPTY, 0]
    assert table.add([other, one]) == [1, 0]
    assert table.find([other, one]) == [1, 0]


@pytest.mark.parametrize("length", range(24))
def test_a_string_is_read_alike_amid_others_and_at_the_end_of_memory(length):
    text = bytes(range(1, length + 1))
    table = Strings()
    assert table.add([text]) == [0]
    # Words reach into what follows; zeros must not pass for a string's own.
    assert table.find([text, b"x" * 40, text + b"\0", text, b"\0"]) == [0, -1, -1, 0, -1]


@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=30))
def test_map_codes(indices):
    mapping = np.array([4, -1, 2, 0, 7], np.int32)
    codes = wanted(indices)
    keys.map_codes(np.array([i or 0 for i in indices], np.int32), mapping, codes)
    assert codes.tolist() == [-1 if i is None else mapping[i] for i in indices]
