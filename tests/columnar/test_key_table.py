"""Key codes at sizes at which their tables grow, from several threads, with shared dictionaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.columnar.key_table import KeyCodes, RowCodes
from juncture.kernels.hash_table import EMPTY
from juncture.runtime.threads import Threads

COUNT = 20_000


def numbered(kind: str, numbers) -> pa.Array:
    if kind == "int64":
        return pa.array([n * 7_919 for n in numbers], pa.int64())
    return pa.array([f"key-{n}" * (1 + n % 3) for n in numbers], pa.string())


def codes_of(method, *columns: pa.Array) -> np.ndarray:
    codes = np.full(len(columns[0]), -9, np.int32)
    method(list(columns), codes)
    return codes


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("coded", [False, True])
def test_many_keys_from_several_threads(kind, coded):
    keys = KeyCodes([numbered(kind, []).type], [numbered(kind, []).type])
    chance = np.random.default_rng(0)
    parts = [chance.integers(0, COUNT, 5_000) for _ in range(20)]

    def add(part: np.ndarray) -> np.ndarray:
        column = numbered(kind, part.tolist())
        return codes_of(keys.add, column.dictionary_encode() if coded else column)

    with Threads(3) as threads:
        found = list(threads.map(add, parts))
    numbers, codes = np.concatenate(parts), np.concatenate(found)
    assert keys.count == len(np.unique(numbers)) == len(np.unique(codes)) == codes.max() + 1
    assert len(np.unique(numbers * (COUNT + 1) + codes)) == keys.count
    known = np.unique(numbers)
    looked_up = codes_of(keys.find, numbered(kind, range(COUNT + 100)))
    assert set(np.flatnonzero(looked_up != EMPTY).tolist()) == set(known.tolist())
    assert dict(zip(numbers.tolist(), codes.tolist(), strict=True)) == {int(n): int(looked_up[n]) for n in known}


def test_slices_of_one_table_share_their_dictionary():
    column = pa.array(["a", "b", None, "c"] * 10).dictionary_encode()
    keys = KeyCodes([column.type], [pa.string()])
    first, second = codes_of(keys.add, column.slice(0, 20)), codes_of(keys.add, column.slice(20))
    assert first.tolist() == second.tolist() == [0, 1, EMPTY, 2] * 5
    assert codes_of(keys.find, pa.array(["c", "x", None, "a"])).tolist() == [2, EMPTY, EMPTY, 0]


def test_a_dictionary_that_was_looked_up_before_it_was_added():
    column = pa.array(["a", "b"]).dictionary_encode()
    keys = KeyCodes([column.type], [column.type])
    assert codes_of(keys.find, column).tolist() == [EMPTY, EMPTY]
    assert codes_of(keys.add, column.slice(1)).tolist() == [1]
    assert codes_of(keys.find, column).tolist() == [0, 1]


def test_a_dictionary_may_hold_nulls_and_a_value_twice():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3], pa.int8()), pa.array(["a", None, "a", "b"]))
    keys = KeyCodes([column.type], [pa.string()])
    assert codes_of(keys.add, column).tolist() == [0, EMPTY, 0, EMPTY, 1]


def test_a_dictionary_that_is_much_larger_than_its_rows():
    column = pa.DictionaryArray.from_arrays(pa.array([9_999, 0]), pa.array([str(i) for i in range(10_000)]))
    keys = KeyCodes([column.type], [column.type])
    assert codes_of(keys.add, column).tolist() == [0, 1]
    assert keys.count == 2


def test_columns_are_not_confused():
    ours = [pa.array(["a", "ab", "a", None, "x"]), pa.array(["bc", "c", "bc", "c", "y"])]
    keys = KeyCodes([pa.string()] * 2, [pa.string()] * 2)
    assert codes_of(keys.add, *ours).tolist() == [0, 1, 0, EMPTY, 2]
    theirs = [pa.array(["a", "ab", "a", "x"]), pa.array(["bc", "bc", "c", "y"])]
    assert codes_of(keys.find, *theirs).tolist() == [0, EMPTY, EMPTY, 2]


def test_without_columns_all_rows_have_one_key():
    keys = KeyCodes([], [])
    codes = np.full(3, -9, np.int32)
    keys.add([], codes)
    assert (codes.tolist(), keys.count) == ([0, 0, 0], 1)


KINDS = {
    "int64": pa.array([7, -1, None, 2**62, 0, 5]),
    "float64": pa.array([1.5, float("nan"), None, -0.0, 0.0, 9.0]),
    "string": pa.array(["a", "b", None, "", "a long one, longer than two words", "a long one, longer than two wordS"]),
    "decimal": pa.array([1, None, 3], pa.decimal128(38, 2)),
    "category": pa.array(["x", "y", None, "x"]).dictionary_encode(),
}


@given(
    kinds=st.lists(st.sampled_from(list(KINDS)), max_size=3),
    made=st.sampled_from(["nulls differ", "nulls equal", "rows"]),
    steps=st.lists(st.tuples(st.lists(st.integers(0, 215), max_size=8), st.integers(0, 3)), min_size=1, max_size=6),
)
def test_keys_of_both_sides_come_and_go(kinds, made, steps):
    types = [KINDS[kind].type for kind in kinds]
    nulls_equal, code_of = made != "nulls differ", {}
    keys = RowCodes(types) if made == "rows" else KeyCodes(types, types, nulls_equal=nulls_equal)
    for numbers, divisor in steps:
        rows = [tuple(number // 6**place % len(KINDS[kind]) for place, kind in enumerate(kinds)) for number in numbers]
        columns = [
            KINDS[kind].take(pa.array([row[place] for row in rows], pa.int64())) for place, kind in enumerate(kinds)
        ]
        values = [tuple(map(repr, row)) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
        values = [tuple("0.0" if each == "-0.0" else each for each in value) for value in values]
        if not columns:
            continue
        codes = codes_of(keys.add, *columns)
        for value, code in zip(values, codes.tolist(), strict=True):
            if "None" in value and not nulls_equal:
                assert code == EMPTY
            else:
                assert code_of.setdefault(value, code) == code
        assert len(set(code_of.values())) == len(code_of)
        if divisor:
            kept = np.zeros(keys.count, np.bool_)
            kept[[code for code in code_of.values() if code % divisor == 0]] = True
            mapping = keys.compact(kept)
            code_of = {value: int(mapping[code]) for value, code in code_of.items() if kept[code]}
            assert keys.count <= len(code_of) + nulls_equal
        if isinstance(keys, KeyCodes):
            expected = [code_of.get(value, EMPTY) for value in values]
            assert codes_of(keys.find, *columns).tolist() == expected


@given(
    least=st.sampled_from([-(2**63), -7, 0, 2**63 - 41]),
    steps=st.lists(
        st.tuples(st.lists(st.integers(0, 40), max_size=20), st.lists(st.integers(-3, 43), max_size=30)), max_size=4
    ),
    others=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
def test_integers_that_lie_close_together_are_found_however_often_they_are_looked_up(least, steps, others):
    keys, code_of = KeyCodes([pa.int64()], [pa.int64()]), {}
    for added, looked_up in steps:
        numbers = [least + number for number in added]
        for number, code in zip(numbers, codes_of(keys.add, pa.array(numbers, pa.int64())).tolist(), strict=True):
            assert code_of.setdefault(number, code) == code
        near = [least + number for number in looked_up if -(2**63) <= least + number < 2**63]
        asked = [*near, None, *others]
        for _ in range(3):
            assert codes_of(keys.find, pa.array(asked, pa.int64())).tolist() == [code_of.get(n, EMPTY) for n in asked]


def test_a_table_that_shrank_grows_again():
    keys = KeyCodes([pa.string()], [pa.string()])
    codes_of(keys.add, numbered("string", range(COUNT)))
    mapping = keys.compact(np.arange(COUNT) % 1_000 == 7)
    assert keys.count == COUNT // 1_000
    assert np.flatnonzero(mapping != EMPTY).tolist() == list(range(7, COUNT, 1_000))
    assert codes_of(keys.find, numbered("string", [7, 8, 1_007])).tolist() == [0, EMPTY, 1]
    codes = codes_of(keys.add, numbered("string", range(COUNT)))
    assert sorted(codes.tolist()) == list(range(COUNT))
