"""Sources: which files a path leads to, how parts are read, what statistics tell, and what is refused."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.local.asof.join import find
from juncture.runtime.context import join_context
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import TableSource

TABLE = pa.table({"ts": pa.array(range(10), pa.int64()), "k": list("aabbccddee"), "v": [i / 2 for i in range(10)]})


def rows(source, columns=("ts",), coded=()):
    batches = [b for part in range(len(source.part_rows)) for b in source.read(part, list(columns), coded)]
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def test_a_table_is_cut_into_slices():
    source = TableSource(TABLE, 4)
    assert source.part_rows == [4, 4, 2]
    assert source.bounds.tolist() == [0, 4, 8, 10]
    assert rows(source, ["v", "ts"]) == list(zip(TABLE["v"].to_pylist(), range(10), strict=True))
    assert source.bytes_of(["ts"]) == 80


def test_a_table_without_rows_has_no_parts():
    source = TableSource(TABLE.slice(0, 0))
    assert (source.part_rows, source.num_rows) == ([], 0)


@pytest.fixture
def folder(tmp_path):
    """A folder as Spark writes it: parts at two depths, markers, and hidden files that are not Parquet at all."""
    (tmp_path / "deep").mkdir()
    pq.write_table(TABLE.slice(0, 4), tmp_path / "part-0.snappy.parquet", row_group_size=3)
    pq.write_table(TABLE.slice(4, 4), tmp_path / "part-1.PARQUET")
    pq.write_table(TABLE.slice(8), tmp_path / "deep" / "x.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-0.snappy.parquet.crc").write_text("crc")
    (tmp_path / "_metadata.parquet").write_text("not a table")
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([""], [8, 9, *range(8)]),
        (["part-1.PARQUET"], [4, 5, 6, 7]),
        (["*.parquet"], [0, 1, 2, 3]),
        (["**/*.parquet"], [8, 9, 0, 1, 2, 3]),
        (["part-?.*"], list(range(8))),
        (["de*"], [8, 9]),
        (["part-1.PARQUET", "deep", "part-1.PARQUET"], [4, 5, 6, 7, 8, 9, 4, 5, 6, 7]),
    ],
)
def test_paths_lead_to_files(folder, paths, expected):
    source = ParquetSource([f"{folder}/{path}" for path in paths])
    assert [row[0] for row in rows(source)] == expected


def test_a_relative_glob(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert ParquetSource([f"{folder.name}/part-*"]).num_rows == 8


def test_a_uri(folder):
    assert ParquetSource([f"file://{folder}/deep"]).num_rows == 2


def test_row_groups_are_parts_and_can_be_chosen(folder):
    path = f"{folder}/part-0.snappy.parquet"
    assert ParquetSource([path]).part_rows == [3, 1]
    chosen = ParquetSource([path]).only([1])
    assert rows(chosen) == [(3,)]
    assert chosen.bounds.tolist() == [0, 1]


def test_a_long_row_group_comes_in_batches(folder):
    source = ParquetSource([f"{folder}/part-1.PARQUET"])
    # A batch has a 64th of little memory.
    source = source.within(MemoryBudget(64 * source.plain_bytes_of(["ts"]) // 2))
    assert [batch.num_rows for batch in source.read(0, ["ts"])] == [2, 2]


def test_strings_that_repeat_may_come_coded(tmp_path):
    path = tmp_path / "strings.parquet"
    table = pa.table({"k": ["c", "c", "d", "e"] * 50, "id": [f"number {row}" for row in range(200)]})
    pq.write_table(table, path)
    source = ParquetSource([str(path)])
    [batch] = source.read(0, ["k", "id"], ["k", "id"])
    assert pa.types.is_dictionary(batch.schema.field("k").type)
    # Arrow would make a dictionary of them, at several times the cost of the strings.
    assert batch.schema.field("id").type == pa.string()
    assert pa.table(batch).cast(table.schema).equals(table)
    [batch] = source.read(0, ["k"])
    assert batch.schema.field("k").type == pa.string()


def test_bytes_come_from_the_footers(folder):
    source = ParquetSource([f"{folder}/deep"])
    assert 0 < source.bytes_of(["ts"]) < source.bytes_of(["ts", "k", "v"])


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([3, None, -7], pa.int64()),
        ([3, None, -7], pa.int16()),
        ([1.5, float("nan"), -2.0], pa.float64()),
        ([date(2024, 1, 2), date(1969, 1, 1)], pa.date32()),
        ([datetime(2024, 1, 1), datetime(1900, 1, 1)], pa.timestamp("us")),
        ([1_700_000_000_000_000_001, -5], pa.timestamp("ns", "UTC")),
        ([datetime(2024, 1, 1), datetime(2025, 1, 1)], pa.timestamp("ms", "Europe/Paris")),
        (["b", None, "a\u00fc", ""], pa.string()),
        (["b", "ab"], pa.large_string()),
        ([b"\xff\x00", b"\x01"], pa.binary()),
    ],
)
def test_extents_are_those_of_the_statistics(tmp_path, values, data_type):
    array = pa.array(values, pa.int64()).cast(data_type) if values[-1] == -5 else None
    array = pa.array(values, data_type) if array is None else array
    pq.write_table(pa.table({"ts": array}), tmp_path / "a.parquet")
    extent = ParquetSource([str(tmp_path)]).extent(0, "ts")
    present = array.drop_null()
    if pa.types.is_floating(data_type):
        present = pa.array([v for v in present.to_pylist() if v == v], data_type)
    ordered = present.sort()
    assert extent.type == data_type
    assert extent.equals(pa.concat_arrays([ordered[:1], ordered[-1:]]))


def test_extents_that_are_not_known(tmp_path):
    table = pa.table({"ts": pa.array([None], pa.int64()), "s": pa.array([1], pa.duration("s"))})
    pq.write_table(table, tmp_path / "a.parquet")
    source = ParquetSource([str(tmp_path)])
    assert source.extent(0, "ts") is None
    assert source.extent(0, "s") is None
    assert TableSource(table).extent(0, "ts") is None


@pytest.mark.parametrize(
    ("direction", "tolerance", "skipped"),
    [
        ("backward", None, 2),
        ("backward", 5, 5),
        ("backward", 30, 2),
        ("forward", None, 3),
        ("forward", 1, 5),
        ("nearest", None, 0),
        ("nearest", 12, 3),
        ("backward", "limit", 4),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(tmp_path, direction, tolerance, skipped):
    # Row groups hold 0-9, 10-19, 20-29, 30-39, 40-49 and 50-59; the left rows are at 35 and 36.
    right = pa.table({"ts": pa.array(range(60), pa.int64()), "v": list(range(60))})
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=10)
    left = pa.table({"ts": pa.array([35, 36], pa.int64()), "limit": pa.array([3, 8], pa.int64())})
    spec = jn.Asof(on="ts", direction=direction, tolerance=tolerance)
    join = spec.resolve(left.schema, right.schema)
    with join_context() as context:
        found = find(join, TableSource(left), ParquetSource([str(tmp_path)]), context)
    assert found.counts["parts_skipped"] == skipped
    assert found.pointers[:, 0].tolist() == [35, 36]


def test_a_column_within_a_struct_does_not_pass_for_another(tmp_path):
    table = pa.table({"a": [{"b": 5}] * 3, "a.b": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    source = ParquetSource([str(tmp_path)])
    assert source.extent(0, "a.b").to_pylist() == [1, 3]
    assert rows(source, ["a.b"]) == [(1,), (2,), (3,)]


def test_a_file_that_is_cut_off(folder):
    path = folder / "part-1.PARQUET"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"part-1\.PARQUET.*truncated or damaged"):
        ParquetSource([str(folder)])


def test_a_file_that_vanishes_after_it_was_opened(folder):
    source = ParquetSource([str(folder)])
    (folder / "part-1.PARQUET").unlink()
    with pytest.raises(DataError, match=r"part-1\.PARQUET' was removed .* Plan it again"):
        rows(source)


@pytest.mark.parametrize("other", [TABLE, TABLE.slice(0, 4).replace_schema_metadata({"written": "again"})])
def test_a_file_that_is_written_again_after_it_was_opened(folder, other):
    source = ParquetSource([str(folder)])
    pq.write_table(other, folder / "part-1.PARQUET")
    with pytest.raises(DataError, match=r"part-1\.PARQUET' has changed since the join was planned\. Plan it again"):
        rows(source)


def test_a_file_of_equal_size_that_is_written_again(folder):
    path = folder / "part-1.PARQUET"
    source = ParquetSource([str(folder)])
    before = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(DataError, match="has changed since"):
        rows(source)


def test_a_file_that_may_not_be_read(folder, monkeypatch):
    # Root may read every file.
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(DataError, match=r"cannot be read: .*Permission denied\. Grant permission"):
        ParquetSource([str(folder)])


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (TABLE.drop(["v"]), r"column 'v' is missing in '\S*z\.parquet'"),
        (
            TABLE.set_column(2, "v", TABLE["ts"]),
            r"column 'v' is int64 in '\S*z\.parquet' and double in '\S*x\.parquet'",
        ),
        (TABLE.append_column("w", TABLE["ts"]), r"column 'w' exists only in '\S*z\.parquet'"),
    ],
)
def test_files_of_different_schemas(folder, other, difference):
    pq.write_table(other, folder / "z.parquet")
    with pytest.raises(DataError, match=rf"have different columns: {difference}\. .*union_by_name=True"):
        ParquetSource([str(folder)])


def test_a_column_that_one_of_several_files_lacks(folder):
    for name in ("y", "z"):
        pq.write_table(TABLE.append_column("w", TABLE["ts"]), folder / f"{name}.parquet")
    with pytest.raises(DataError, match=r"column 'w' is missing in '\S*x\.parquet'"):
        ParquetSource([str(folder)])


def test_columns_in_another_order(folder):
    pq.write_table(TABLE.select(["v", "k", "ts"]), folder / "z.parquet")
    source = ParquetSource([str(folder)])
    assert source.schema.names == TABLE.schema.names
    assert rows(source, ["k", "ts"])[-10:] == list(zip(*TABLE.select(["k", "ts"]).to_pydict().values(), strict=True))


@pytest.mark.parametrize("union_by_name", [False, True])
def test_columns_that_files_lack(folder, union_by_name):
    pq.write_table(TABLE.append_column("w", TABLE["k"]).drop(["v"]), folder / "z.parquet")
    if not union_by_name:
        with pytest.raises(DataError, match="union_by_name=True"):
            ParquetSource([str(folder)])
        return
    source = ParquetSource([str(folder)], union_by_name=True)
    assert source.schema.names == ["ts", "k", "v", "w"]
    for coded in ((), ("k", "w")):
        batches = [batch for part in range(len(source.part_rows)) for batch in source.read(part, ["w", "v"], coded)]
        columns = [pa.chunked_array([batch.column(name) for batch in batches]) for name in ("w", "v")]
        assert [column.null_count for column in columns] == [TABLE.num_rows, TABLE.num_rows]
    assert source.ends("v") is None
    assert source.nulls("w") is None


TYPES = {
    "offsets of text": (pa.string(), pa.large_string(), pa.large_string()),
    "views of text": (pa.string_view(), pa.string(), pa.string()),
    "dictionaries": (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.large_string()),
    "two dictionaries": (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.string()), pa.string()),
    "bytes": (pa.binary(), pa.large_binary(), pa.large_binary()),
    "lists": (pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.large_list(pa.large_string())),
    "structs": (
        pa.struct([("a", pa.list_(pa.string()))]),
        pa.struct([("a", pa.list_(pa.large_string()))]),
        pa.struct([("a", pa.list_(pa.large_string()))]),
    ),
    "maps": (
        pa.map_(pa.string(), pa.large_string()),
        pa.map_(pa.large_string(), pa.string()),
        pa.map_(pa.large_string(), pa.large_string()),
    ),
    "zones": (pa.timestamp("us", "Europe/Paris"), pa.timestamp("us", "America/Lima"), pa.timestamp("us", "UTC")),
    "dates": (pa.date32(), pa.date64(), pa.date32()),
    "decimals": (pa.decimal128(9, 2), pa.decimal256(9, 2), pa.decimal128(9, 2)),
}
_VALUES = {
    "lists": [["a", None], [], None],
    "structs": [{"a": ["x"]}, {"a": None}, None],
    "maps": [[("k", "v")], [], None],
    "zones": [datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
    "dates": [date(2026, 1, 1), date(1969, 1, 1), None],
    "decimals": [Decimal("1.25"), Decimal("-3.00"), None],
    "bytes": [b"x", b"", None],
}


@pytest.mark.parametrize("name", TYPES)
def test_types_that_are_one_in_parquet(tmp_path, name):
    one, other, common = TYPES[name]
    values = _VALUES.get(name, ["x", "", None])
    for number, data_type in enumerate((one, other)):
        column = pa.array(values).cast(data_type) if pa.types.is_dictionary(data_type) else pa.array(values, data_type)
        pq.write_table(pa.table({"v": column}), tmp_path / f"{number}.parquet")
    for paths in ((0, 1), (1, 0)):
        source = ParquetSource([str(tmp_path / f"{number}.parquet") for number in paths])
        # Whichever file comes first.
        assert source.schema.field("v").type == common
        for coded in ((), ("v",)):
            batches = [batch for part in range(2) for batch in source.read(part, ["v"], coded)]
            assert len({str(batch.schema.types[0]) for batch in batches}) == 1
            assert [value for batch in batches for value in batch.column(0).to_pylist()] == values * 2
        found = source.extent(0, "v"), source.extent(1, "v")
        assert found[0] is None or found[0].equals(found[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int32(), pa.int64()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("ns")),
        (pa.string(), pa.binary()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
        (pa.list_(pa.int8()), pa.list_(pa.int16())),
    ],
)
def test_types_that_are_two_in_parquet(tmp_path, one, other):
    for number, data_type in enumerate((one, other)):
        pq.write_table(pa.table({"v": pa.nulls(1, data_type)}), tmp_path / f"{number}.parquet")
    with pytest.raises(DataError, match=r"column 'v' is .* in '\S*1\.parquet' and .* in '\S*0\.parquet'"):
        ParquetSource([str(tmp_path)])
