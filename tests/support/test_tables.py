from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from support.tables import difference, read_table, read_type, write_table


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("int64", pa.int64()),
        ("float64", pa.float64()),
        ("timestamp[us]", pa.timestamp("us")),
        ("timestamp[ns, Asia/Tokyo]", pa.timestamp("ns", "Asia/Tokyo")),
        ("decimal256(50, 3)", pa.decimal256(50, 3)),
        ("binary(2)", pa.binary(2)),
        ("dictionary<string>", pa.dictionary(pa.int32(), pa.string())),
        ("map<string, list<int8>>", pa.map_(pa.string(), pa.list_(pa.int8()))),
        (
            "struct<a: decimal128(5, 2), b: list<string>>",
            pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.list_(pa.string()))]),
        ),
    ],
)
def test_types(text, data_type):
    assert read_type(text) == data_type


def test_cells():
    table = read_table(
        """
        i: int8 | f: float64 | d: decimal128(5, 2) | day: date32 | s: string | b: binary | l: list<int8>
        -1      | nan        | 1.5                 | 2026-01-02  | ''        | 00ff      | [1, null]
        null    | -inf       | null                | null        | null      | null      | null
        """
    )
    first, second = table.drop(["f"]).to_pylist()
    assert first == {
        "i": -1,
        "d": Decimal("1.50"),
        "day": date(2026, 1, 2),
        "s": "",
        "b": b"\x00\xff",
        "l": [1, None],
    }
    assert set(second.values()) == {None}
    assert write_table(table.select(["i", "f"])) == "i: int8 | f: double\n-1      | nan\nnull    | -inf"


def test_times_and_encodings():
    table = read_table(
        """
        t: timestamp[ns]              | m: duration[s] | h: time64[us] | k: dictionary<string>
        1969-12-31T23:59:59.999999999 | 5m             | 00:00:01      | x
        @5                            | null           | null          | null
        """
    )
    assert table["t"].cast(pa.int64()).to_pylist() == [-1, 5]
    assert table["m"].cast(pa.int64()).to_pylist() == [300, None]
    assert table["h"].cast(pa.int64()).to_pylist() == [1_000_000, None]
    assert table["k"].to_pylist() == ["x", None]


def test_differences():
    one = read_table("a: int64 | b: float64\n1 | nan\n2 | -0.0")
    same = read_table("a: int64 | b: float64\n2 | 0.0\n1 | nan")
    assert difference(one, same, ordered=False) is None
    assert "their order is not" in difference(one, same, ordered=True)
    assert "missing: [(2, 0.0)]" in difference(one.slice(0, 1), one, ordered=False)
    assert "surplus: [(1, 'nan')]" in difference(pa.concat_tables([one, one.slice(0, 1)]), one, ordered=False)
    assert "int32" in difference(one.cast(pa.schema([("a", pa.int32()), ("b", pa.float64())])), one, ordered=False)
