"""Files that differ in what they say of themselves, or do not hold what they say."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.runtime import footers
from juncture.runtime.parquet import ParquetSource
from support.files import write_short


def read(*paths: object, columns: list[str] | None = None) -> pa.Table:
    source = ParquetSource([str(path) for path in paths])
    names = source.schema.names if columns is None else columns
    batches = [batch for part in range(len(source.part_rows)) for batch in source.read(part, names)]
    return pa.Table.from_batches(batches, pa.schema([source.schema.field(name) for name in names]))


def required(data_type: pa.DataType, name: str = "v") -> pa.Field:
    return pa.field(name, data_type, nullable=False)


INTS = pa.int64()
# Pairs of fields that differ in whether nulls may occur, the values of each, and the field of both.
NULLABILITY: dict[str, tuple[pa.Field, list[Any], pa.Field, list[Any], pa.Field]] = {
    "plain": (required(INTS), [1], pa.field("v", INTS), [None], pa.field("v", INTS)),
    "struct": (
        pa.field("v", pa.struct([required(INTS, "a")])),
        [{"a": 1}, None],
        required(pa.struct([pa.field("a", INTS)])),
        [{"a": None}],
        pa.field("v", pa.struct([pa.field("a", INTS)])),
    ),
    "list": (
        pa.field("v", pa.list_(required(INTS, "element"))),
        [[1, 2], []],
        pa.field("v", pa.list_(pa.field("item", INTS))),
        [[None], None],
        pa.field("v", pa.list_(INTS)),
    ),
    "large list": (
        pa.field("v", pa.large_list(required(INTS, "element"))),
        [[1, 2], []],
        pa.field("v", pa.large_list(pa.field("element", INTS))),
        [[None], None],
        pa.field("v", pa.large_list(INTS)),
    ),
    "list of fixed size": (
        pa.field("v", pa.list_(required(INTS, "element"), 2)),
        [[1, 2]],
        pa.field("v", pa.list_(pa.field("element", INTS), 2)),
        [[None, 3]],
        pa.field("v", pa.list_(INTS, 2)),
    ),
    "map": (
        pa.field("v", pa.map_(pa.string(), required(INTS, "value"))),
        [[("a", 1)]],
        pa.field("v", pa.map_(pa.string(), pa.field("value", INTS))),
        [[("b", None)], None],
        pa.field("v", pa.map_(pa.string(), INTS)),
    ),
    "deep": (
        pa.field("v", pa.list_(required(pa.struct([required(pa.list_(required(INTS)), "a")])))),
        [[{"a": [1]}]],
        pa.field("v", pa.list_(pa.field("element", pa.struct([pa.field("a", pa.list_(INTS))])))),
        [[{"a": None}, None], [{"a": [None]}]],
        pa.field("v", pa.list_(pa.struct([pa.field("a", pa.list_(INTS))]))),
    ),
}


def write(path: Path, field: pa.Field, values: list[Any], first: int) -> None:
    keys = pa.array(range(first, first + len(values)), INTS)
    table = pa.table([keys, pa.array(values, field.type)], schema=pa.schema([("k", INTS), field]))
    pq.write_table(table, path)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", NULLABILITY)
def test_files_that_differ_in_not_null(tmp_path, name, turned):
    strict, some, loose, others, expected = NULLABILITY[name]
    write(tmp_path / "a.parquet", *((loose, others) if turned else (strict, some)), 0)
    values = [*others, *some] if turned else [*some, *others]
    write(tmp_path / "b.parquet", *((strict, some) if turned else (loose, others)), len(others if turned else some))
    table = read(tmp_path)
    table.validate(full=True)
    assert table.schema.field("v") == expected
    assert table["v"].to_pylist() == values
    keys = pa.table({"k": pa.array(range(len(values)), INTS)})
    for answer in (
        jn.join(keys, tmp_path, on="k"),
        jn.join(keys, tmp_path, on="k", how="full", algorithm="external_sort_merge"),
        jn.join_asof(keys, tmp_path, on="k"),
        jn.join_range(tmp_path, keys, on="k", lower=0, upper=0).select(["k", "v"]),
    ):
        answer.validate(full=True)
        assert answer.sort_by("k")["v"].to_pylist() == values


def test_files_that_agree_keep_what_they_say(tmp_path):
    strict, some, *_ = NULLABILITY["deep"]
    for number in range(2):
        write(tmp_path / f"{number}.parquet", strict, some, number)
    assert read(tmp_path).schema.field("v") == strict


def test_types_that_differ_below_not_null_are_refused(tmp_path):
    write(tmp_path / "a.parquet", pa.field("v", pa.list_(required(INTS))), [[1]], 0)
    write(tmp_path / "b.parquet", pa.field("v", pa.list_(pa.int32())), [[1]], 1)
    with pytest.raises(
        DataError,
        match=r"'v' is list<element: int32> in '\S*b.parquet' and list<element: int64 not null> in '\S*a.parquet'",
    ):
        read(tmp_path)


TIMES = [datetime(1, 1, 1), datetime(1677, 9, 21), None, datetime(2024, 5, 6, 7, 8, 9, 123456), datetime(2262, 4, 12)]
TIMES += [datetime(9999, 12, 31, 23, 59, 59, 999999)]


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.timestamp("us"), TIMES),
        (pa.list_(pa.timestamp("us")), [TIMES, [], None, TIMES[:1]]),
        (pa.struct([("t", pa.timestamp("us")), ("v", INTS)]), [{"t": time, "v": 1} for time in TIMES]),
        (pa.map_(INTS, pa.timestamp("us")), [[(1, TIMES[0]), (2, None)], None, [(3, TIMES[-1])]]),
    ],
    ids=str,
)
def test_96_bit_timestamps_are_read_in_microseconds(tmp_path, data_type, values):
    table = pa.table({"k.k": range(len(values)), "t.t": pa.array(values, data_type)})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, row_group_size=3)
    leaves = pq.ParquetFile(tmp_path / "a.parquet").schema
    assert "INT96" in {leaves.column(number).physical_type for number in range(len(leaves))}
    found = read(tmp_path)
    assert found.schema.field("t.t").type == data_type
    assert found.to_pydict() == table.to_pydict()
    assert ParquetSource([str(tmp_path)]).extent(0, "t.t") is None


def test_96_bit_timestamps_as_keys(tmp_path):
    table = pa.table({"t": pa.array(TIMES, pa.timestamp("us")), "v": range(len(TIMES))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert jn.join_asof(table, tmp_path, on="t")["v_right"].to_pylist() == [0, 1, None, 3, 4, 5]
    assert jn.join(table, tmp_path, on="t")["v_right"].to_pylist() == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("nanos", [1, 999, -1, -(2**63) + 1, 2**63 - 1, 1_700_000_000_000_000_123])
def test_96_bit_timestamps_that_are_finer_are_refused(tmp_path, nanos):
    for data_type, values in (
        (pa.timestamp("ns"), [0, None, nanos]),
        (pa.list_(pa.timestamp("ns")), [[0, None], [nanos]]),
    ):
        column = pa.array(values, pa.list_(INTS) if pa.types.is_list(data_type) else INTS).cast(data_type)
        table = pa.table({"k": range(len(values)), "t": column})
        pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
        with pytest.raises(DataError, match=r"column 't' of .*a\.parquet' has 96-bit timestamps finer"):
            read(tmp_path)
        assert read(tmp_path, columns=["k"]).num_rows == len(values)


@pytest.mark.parametrize("short", [("ts", "k"), ("ts",), ("k",)])
def test_a_row_group_that_is_shorter_than_its_footer_says(tmp_path, short):
    pq.write_table(pa.table({"ts": [1], "k": ["y"]}), tmp_path / "a.parquet")
    write_short(tmp_path / "b.parquet", short)
    said = r"Row group 0 of the Parquet file .*b\.parquet' "
    with pytest.raises(DataError, match=said):
        read(tmp_path)
    for column in short:
        with pytest.raises(DataError, match=said + "has 10 rows, but 11 by its footer"):
            read(tmp_path, columns=[column])
    with pytest.raises(DataError, match=said):
        jn.join_asof(pa.table({"ts": [9], "k": ["x"]}), tmp_path, on="ts", by="k")
    assert read(tmp_path, columns=[]).num_columns == 0


def test_a_footer_that_is_longer_than_what_is_read_first(tmp_path, monkeypatch):
    table = pa.table({f"column {number}": [number] for number in range(50)})
    pq.write_table(table, tmp_path / "a.parquet")
    whole = footers.read_footers([*ParquetSource([str(tmp_path)])._files])[0]
    for tail_bytes in (8, 100, whole.metadata.serialized_size + 7, whole.metadata.serialized_size + 8):
        monkeypatch.setattr(footers, "_TAIL_BYTES", tail_bytes)
        assert read(tmp_path).equals(table)
        assert footers.read_footers([*ParquetSource([str(tmp_path)])._files])[0].digest == whole.digest
    rewritten = np.arange(50)
    pq.write_table(
        pa.table({f"column {number}": [rewritten[number] + 1] for number in range(50)}), tmp_path / "b.parquet"
    )
    assert footers.read_footers([*ParquetSource([str(tmp_path / "b.parquet")])._files])[0].digest != whole.digest


def test_files_without_rows_or_columns(tmp_path):
    pq.write_table(pa.table({"k": pa.array([], INTS)}), tmp_path / "a.parquet")
    with pq.ParquetWriter(tmp_path / "b.parquet", pa.schema([("k", INTS)])):
        pass
    assert pq.read_metadata(tmp_path / "b.parquet").num_row_groups == 0
    assert read(tmp_path).to_pydict() == {"k": []}
    assert jn.join(tmp_path, pa.table({"k": [1]}), on="k", how="right").to_pydict() == {"k": [1]}
    pq.write_table(pa.table({"k": [1]}), tmp_path / "c.parquet")
    assert jn.join(tmp_path, pa.table({"k": [1]}), on="k").to_pydict() == {"k": [1]}
    (tmp_path / "none").mkdir()
    pq.write_table(pa.table({}), tmp_path / "none" / "a.parquet")
    source = ParquetSource([str(tmp_path / "none")])
    assert (source.num_rows, source.schema.names) == (0, [])
