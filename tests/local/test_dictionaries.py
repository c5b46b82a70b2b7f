"""Dictionary-encoded columns whose chunks have different dictionaries: of every type of values, in every place."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from support.engines import LOCAL_EQUI

NAN = float("nan")
INTS = (1, 2, 3, 4)
DECIMALS = [Decimal(value) / 10 for value in INTS]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES_OF_32_BITS = [pa.date32(), pa.time32("s"), pa.time32("ms")]
TIMES_OF_64_BITS = [pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("ns")]

VALUES: list[pa.Array] = [
    *(pa.array(INTS, data_type) for data_type in INTEGERS),
    *(pa.array(INTS, pa.int32()).view(data_type) for data_type in TIMES_OF_32_BITS),
    *(pa.array([1_000 * value for value in INTS], pa.int64()).view(kind) for kind in TIMES_OF_64_BITS),
    pa.array([86_400_000 * value for value in INTS], pa.int64()).view(pa.date64()),
    *(pa.array([1.5, -0.0, NAN, 0.1], data_type) for data_type in (pa.float32(), pa.float64())),
    pa.array([True, False, True, False]),
    *(pa.array(["a", "", "ccc", "d" * 30], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(pa.array([b"a", b"", b"\xff", b"d" * 30], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    pa.array([b"aa", b"bb", b"cc", b"dd"], pa.binary(2)),
    *(pa.array(DECIMALS, data_type) for data_type in (pa.decimal128(20, 1), pa.decimal256(50, 1))),
    pa.array([pa.MonthDayNano([value, 0, 0]) for value in INTS]),
    pa.nulls(4),
]
NO_KEYS = ("month_day_nano_interval", "null")


def chunks(values: pa.Array) -> pa.Table:
    """Return a table in two chunks, each with two of the values, a null, and a dictionary of its own."""
    batches = []
    for part, indices in enumerate(([1, 0, None], [0, 1, 0])):
        coded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values.slice(2 * part, 2))
        batches.append(pa.record_batch([pa.array(range(3 * part, 3 * part + 3)), coded], names=["t", "d"]))
    return pa.Table.from_batches(batches)


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "reader": lambda table: table.to_reader(),
}
TIMES = pa.table({"t": [5, 1, 3, 2]})
JOINS: dict[str, tuple[Callable[[Any], pa.Table], list[int]]] = {
    "as-of, left": (lambda table: jn.join_asof(table, TIMES, on="t"), [0, 1, 2, 3, 4, 5]),
    "as-of, right": (lambda table: jn.join_asof(TIMES, table, on="t"), [5, 1, 3, 2]),
    "range, left": (lambda table: jn.join_range(table, TIMES, on="t", lower=0, upper=0), [1, 2, 3, 5]),
    "range, right": (lambda table: jn.join_range(TIMES, table, on="t", lower=0, upper=0), [5, 1, 3, 2]),
    **{
        f"equi by {name}, {side}": (
            lambda table, name=name, side=side: jn.join(
                *((table, TIMES) if side == "left" else (TIMES, table)), on="t", algorithm=name
            ),
            [1, 2, 3, 5] if side == "left" else [5, 1, 3, 2],
        )
        for name in LOCAL_EQUI
        for side in ("left", "right")
    },
}


def shown(values: list[Any]) -> list[str]:
    """Return values so that NaN equals NaN, and -0.0 not 0.0."""
    return [repr(value) for value in values]


def plain(values: pa.Array) -> list[Any]:
    return [values[1].as_py(), values[0].as_py(), None, values[2].as_py(), values[3].as_py(), values[2].as_py()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("values", VALUES, ids=lambda values: str(values.type))
def test_payload(values, form):
    table, expected = chunks(values), plain(values)
    for name, (join, rows) in JOINS.items():
        answer = join(FORMS[form](table))
        answer.validate(full=True)
        assert answer.schema.field("d").type == table.schema.field("d").type, name
        assert shown(answer["d"].to_pylist()) == shown([expected[row] for row in rows]), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "values", [each for each in VALUES if str(each.type) not in NO_KEYS], ids=lambda values: str(values.type)
)
def test_keys(values, form):
    table, distinct = chunks(values), len(set(shown(values.to_pylist())))
    expected = plain(values)
    numbers = {text: number for number, text in enumerate(shown(values.to_pylist()))}
    lookup = pa.table({"d": values.slice(4 - distinct), "y": list(numbers.values())})
    assert len(lookup) == distinct
    found = [None if value is None else numbers[repr(value)] for value in expected]
    for algorithm in LOCAL_EQUI:
        answer = jn.join(FORMS[form](table), lookup, on="d", how="left", algorithm=algorithm)
        assert answer["y"].to_pylist() == found, algorithm
    answer = jn.join_asof(FORMS[form](table), lookup.append_column("t", pa.array([0] * distinct)), on="t", by="d")
    assert answer["y"].to_pylist() == found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
def test_more_values_than_one_dictionary_holds(form, algorithm):
    words = [f"word {number}" for number in range(200)]
    batches = [
        pa.record_batch([pa.array(range(first, first + 100)), coded(words[first : first + 100])], names=["t", "d"])
        for first in (0, 100)
    ]
    table, times = pa.Table.from_batches(batches), pa.table({"t": range(200)})
    for sides in ((FORMS[form](table), times), (times, FORMS[form](table))):
        answer = jn.join(*sides, on="t", algorithm=algorithm)
        answer.validate(full=True)
        assert answer.schema.field("d").type == pa.dictionary(pa.int8(), pa.string())
        assert answer["d"].to_pylist() == words


def coded(words: list[str]) -> pa.Array:
    return pa.array(words).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))


def dictionary_of(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), values)


HALF = dictionary_of(pa.array([np.float16(1)]))
AWKWARD: list[pa.Array] = [
    HALF,
    dictionary_of(pa.array([Decimal(1)], pa.decimal32(5, 0))),
    dictionary_of(pa.array([Decimal(1)], pa.decimal64(15, 0))),
    dictionary_of(pa.array([[1]])),
    dictionary_of(pa.array([{"a": 1}])),
    dictionary_of(coded(["a"])),
    dictionary_of(pa.array([b"a" * 16], pa.uuid())),
    pa.StructArray.from_arrays([HALF], ["a"]),
    pa.ListArray.from_arrays([0, 1, 2], HALF),
    pa.MapArray.from_arrays([0, 1, 2], [1, 2], HALF),
    pa.RunEndEncodedArray.from_arrays([1, 2], coded(["a", "b"])),
]
"""Dictionaries that Arrow garbles, or does not put together."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("array", AWKWARD, ids=lambda array: str(array.type))
def test_what_arrow_garbles_or_does_not_join(array, form):
    table, times = pa.table({"t": [1, 2], "d": array}), pa.table({"t": [2, 1]})
    for answer in (
        jn.join(FORMS[form](table), times, on="t"),
        jn.join_asof(FORMS[form](table), times, on="t"),
        jn.join_where(FORMS[form](table), times, "l.t = r.t", suffix="_other"),
    ):
        assert answer.schema.field("d").type == array.type
        assert answer["d"].to_pylist() == array.to_pylist()
    answer = jn.join_asof(times, FORMS[form](table), on="t")
    assert answer.schema.field("d").type == array.type
    assert answer["d"].to_pylist() == array.to_pylist()[::-1]
