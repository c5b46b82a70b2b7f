"""Instructions of the processor against loops over Python's own numbers."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels import intrinsics
from juncture.kernels.array_types import Bytes, FloatTableOut, HalvesOut, Ints, IntsOut
from juncture.kernels.compiled import compiled
from juncture.kernels.intrinsics import LANES, WINDOW

words = st.one_of(st.integers(-5, 5), st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))
halves = st.sampled_from([0, 1, 2**31, 2**32 - 1])


@compiled
def below(array: Ints, start: int, length: int, value: int, inclusive: bool) -> int:
    return intrinsics.below_in_window(array, np.uint64(start), length, value, inclusive)


@compiled
def below_few(array: Ints, start: int, value: int, inclusive: bool) -> int:
    return np.int64(intrinsics.below_in_lanes(array, np.uint64(start), value, inclusive))


@compiled
def at_least(array: Ints, start: int, value: int) -> int:
    return intrinsics.at_least_in_window(array, np.uint64(start), value)


@compiled
def equal(array: HalvesOut, start: int, value: int) -> int:
    return intrinsics.equal_lanes(array, np.uint64(start), np.uint32(value))


@compiled
def bits(words: IntsOut) -> None:
    count, lowest = intrinsics.bit_count(words[0]), intrinsics.lowest_bit(words[0])
    words[1], words[2] = count, lowest


@compiled
def reinterpreted(floats: FloatTableOut, words: IntsOut) -> None:
    words[0] = np.int64(intrinsics.float_as_bits(floats[0, 0]))
    floats[0, 1] = intrinsics.bits_as_float(words[0])


@compiled
def word(data: Bytes, position: int) -> int:
    intrinsics.prefetch(data, np.uint64(position))
    return np.int64(intrinsics.word_at(data, np.uint64(position)))


@given(
    items=st.lists(words, min_size=WINDOW, max_size=WINDOW),
    before=st.integers(0, 3),
    length=st.integers(0, WINDOW),
    value=words,
    inclusive=st.booleans(),
)
def test_windows(items, before, length, value, inclusive):
    items = sorted(items)
    array = np.array([0] * before + items, np.int64)
    wanted = sum(item < value or (inclusive and item == value) for item in items[:length])
    assert below(array, before, length, value, inclusive) == wanted
    few = sum(item < value or (inclusive and item == value) for item in items[:LANES])
    assert below_few(array, before, value, inclusive) == few
    assert at_least(array, before, value) == sum((item >= value) << place for place, item in enumerate(items))


@given(
    items=st.lists(halves, min_size=LANES, max_size=LANES),
    before=st.integers(0, 3),
    value=halves,
)
def test_lanes(items, before, value):
    array = np.array([0] * before + items, np.uint32)
    assert equal(array, before, value) == sum((item == value) << lane for lane, item in enumerate(items))


@given(st.integers(1, 2**63 - 1))
def test_bits(number):
    state = np.array([number, 0, 0], np.int64)
    bits(state)
    assert state.tolist() == [number, number.bit_count(), (number & -number).bit_length() - 1]


@given(st.floats())
def test_floats_as_bits(number):
    floats, state = np.array([[number, 0.0]]), np.zeros(1, np.int64)
    reinterpreted(floats, state)
    assert struct.pack("<q", state[0]) == struct.pack("<d", number) == floats[0, 1].tobytes()


@given(data=st.binary(min_size=8, max_size=20), position=st.integers(0, 12))
def test_words_at_any_place(data, position):
    position = min(position, len(data) - 8)
    assert word(np.frombuffer(data, np.uint8), position) == int.from_bytes(
        data[position : position + 8], "little", signed=True
    )
