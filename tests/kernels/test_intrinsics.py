"""Instructions of the processor against loops over Python's own numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from juncture.kernels.array_types import Bytes, FloatTableOut, HalvesOut, Ints, IntsOut
from juncture.kernels.compiled import Kernel
from juncture.kernels.intrinsics import (
    LANES,
    WINDOW,
    at_least_in_window,
    below_in_lanes,
    below_in_window,
    bit_count,
    bits_as_float,
    equal_lanes,
    float_as_bits,
    lowest_bit,
    prefetch,
    word_at,
)

words = st.one_of(st.integers(-5, 5), st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))
halves = st.sampled_from([0, 1, 2**31, 2**32 - 1])


def both_ways(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a kernel as machine code and interpreted, with equal results and written arrays."""
    kernel = Kernel(function, interpreter_s=0.0)

    def run(*arguments):
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        result = kernel(*arguments)
        assert kernel.interpret(*copies) == result
        for copy, argument in zip(copies, arguments, strict=True):
            assert np.asarray(copy).tobytes() == np.asarray(argument).tobytes()
        return result

    return run


@both_ways
def below(array: Ints, start: int, length: int, value: int, inclusive: bool) -> int:
    return below_in_window(array, np.uint64(start), length, value, inclusive)


@both_ways
def below_few(array: Ints, start: int, value: int, inclusive: bool) -> int:
    return np.int64(below_in_lanes(array, np.uint64(start), value, inclusive))


@both_ways
def at_least(array: Ints, start: int, value: int) -> int:
    return at_least_in_window(array, np.uint64(start), value)


@both_ways
def equal(array: HalvesOut, start: int, value: int) -> int:
    return equal_lanes(array, np.uint64(start), np.uint32(value))


@both_ways
def bits(words: IntsOut) -> None:
    count, lowest = bit_count(words[0]), lowest_bit(words[0])
    words[1], words[2] = count, lowest


@both_ways
def reinterpreted(floats: FloatTableOut, words: IntsOut) -> None:
    words[0] = np.int64(float_as_bits(floats[0, 0]))
    floats[0, 1] = bits_as_float(words[0])


@both_ways
def word(data: Bytes, position: int) -> int:
    prefetch(data, np.uint64(position))
    return np.int64(word_at(data, np.uint64(position)))


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
