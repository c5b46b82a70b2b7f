"""Rows as bytes: in the order of the rows, and different for different rows."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.columnar.row_bytes import encode_rows
from juncture.columnar.tie_order import order_keys

INTEGERS = {
    name: [0, 1, -1, 5, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    for name, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
}
VALUES: dict[pa.DataType, list[object]] = {
    **{pa.type_for_alias(name): values for name, values in INTEGERS.items()},
    pa.uint8(): [0, 1, 255],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.bool_(): [False, True],
    pa.float16(): [np.float16(x) for x in (0.0, 1.5, -1.5, math.inf, -math.inf, math.nan)],
    pa.float32(): [0.0, 1.5, -1.5, math.inf, -math.inf, math.nan],
    pa.float64(): [0.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan],
    pa.decimal32(5, 2): [Decimal("-999.99"), Decimal("0.00"), Decimal("1.50")],
    pa.decimal128(38, 3): [Decimal(10**34), Decimal(-(10**34)), Decimal("0.001")],
    pa.decimal256(60, 0): [Decimal(10**59), Decimal(-(10**59)), Decimal(0), Decimal(-1)],
    pa.date32(): [0, -1, 2**31 - 1],
    pa.timestamp("ns", "UTC"): [0, -1, 2**63 - 1],
    pa.time32("s"): [0, 86_399],
    pa.duration("us"): [0, -5, 2**62],
    pa.string(): ["", "a", "a\0", "a\0b", "ab", "\0", "é", "z" * 40],
    pa.large_binary(): [b"", b"\0", b"\0\xff", b"\0\0", b"\xff", b"a"],
    pa.binary(2): [b"\0\0", b"\0\xff", b"ab"],
    pa.list_(pa.int8()): [[], [0], [0, None], [None], [0, 1], [1]],
    pa.list_(pa.string()): [[], [""], ["", ""], ["a\0"], ["a"], [None, "a"]],
    pa.list_(pa.int16(), 2): [[0, 1], [None, 5], [0, None]],
    pa.large_list(pa.list_(pa.bool_())): [[], [[]], [[True], []], [None], [[None]]],
    pa.struct({"a": pa.int8(), "b": pa.string()}): [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": 1, "b": None}],
    pa.month_day_nano_interval(): [(0, 0, 0), (1, -2, 3), (1, -2, -(2**62)), (-1, 9, 9)],
    pa.null(): [],
}


def values_of(data_type: pa.DataType, rows: list[int]) -> pa.Array:
    """Return values of a type, chosen by numbers, of which null is one."""
    known = [*VALUES[data_type], None]
    chosen = [known[row % len(known)] for row in rows]
    if pa.types.is_temporal(data_type) and not pa.types.is_interval(data_type):
        width = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(chosen, width).view(data_type)
    return pa.array(chosen, data_type)


@given(
    types=st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3),
    rows=st.lists(st.tuples(*[st.integers(0, 20)] * 3), max_size=12),
    sliced=st.booleans(),
)
def test_bytes_order_as_rows_do(types, rows, sliced):
    columns = [values_of(data_type, [row[i] for row in rows]) for i, data_type in enumerate(types)]
    if sliced and rows:
        columns, rows = [column.slice(1) for column in columns], rows[1:]
    encoded = encode_rows(columns)
    order = sorted(range(len(rows)), key=encoded.to_arrow().to_pylist().__getitem__)
    keys = order_keys([pa.chunked_array([column]) for column in columns])
    expected = np.lexsort([np.zeros(len(rows), np.int64), *reversed(keys)])
    assert order == expected.tolist()
    texts = encoded.to_arrow().to_pylist()
    for one, other in combinations(range(len(rows)), 2):
        assert (texts[one] == texts[other]) == all(key[one] == key[other] for key in keys)


def test_different_maps_have_different_bytes():
    data_type = pa.map_(pa.string(), pa.int32())
    column = pa.array([[("a", 1), ("b", None)], None, [], [("z", 9)]], data_type)
    texts = encode_rows([column]).to_arrow().to_pylist()
    assert len(set(texts)) == len(texts)
    for first, rows in ((1, 3), (0, 3)):
        assert encode_rows([column.slice(first, rows)]).to_arrow().to_pylist() == texts[first : first + rows]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([None, 1, -1], pa.int16()), ["00", "01 80 00 00 00 00 00 00 01", "01 7f ff ff ff ff ff ff ff"]),
        (pa.array([2**64 - 1], pa.uint64()), ["01 ff ff ff ff ff ff ff ff"]),
        (pa.array([-0.0, math.nan]), ["01 80 00 00 00 00 00 00 00", "01 ff f8 00 00 00 00 00 00"]),
        (pa.array([True]), ["01 01"]),
        (pa.array(["a\0b", ""]), ["01 61 00 ff 62 00", "01 00"]),
        (pa.array([[True, None], []]), ["01 01 01 01 01 00 00", "01 00"]),
        (pa.array([Decimal("-0.1")], pa.decimal128(3, 1)), ["01 7f" + " ff" * 15]),
        (pa.nulls(1), ["00"]),
        (pa.array(["x"]).dictionary_encode(), ["01 78 00"]),
        (
            pa.array([(1, -1, 0)], pa.month_day_nano_interval()),
            ["01 80" + " 00" * 6 + " 01 7f" + " ff" * 7 + " 80" + " 00" * 7],
        ),
    ],
    ids=[
        "integers",
        "unsigned",
        "floats",
        "booleans",
        "strings",
        "lists",
        "decimals",
        "null",
        "dictionaries",
        "intervals",
    ],
)
def test_the_layout_is_as_documented(array, expected):
    assert [row.hex(" ") for row in encode_rows([array]).to_arrow().to_pylist()] == expected


def test_maps_may_have_their_entries_in_the_order_of_keys():
    data_type = pa.list_(pa.map_(pa.string(), pa.map_(pa.int8(), pa.string())))
    one, other = [[("b", [(2, "x"), (1, "y")]), ("a", [])]], [[("a", []), ("b", [(1, "y"), (2, "x")])]]
    column = pa.array([one, other, None, [[("a", [(1, "z")])]], one[:0]], data_type)
    texts = encode_rows([column], by_key=True).to_arrow().to_pylist()
    assert texts[0] == texts[1] == encode_rows([column]).to_arrow().to_pylist()[1]
    assert texts[2] < texts[4] < texts[0] < texts[3]


def test_a_type_without_an_order_is_refused():
    union = pa.sparse_union([pa.field("number", pa.int64()), pa.field("text", pa.string())])
    with pytest.raises(TypeError, match="have no order"):
        encode_rows([pa.nulls(0, union)])
