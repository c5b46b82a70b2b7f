"""CSV and JSON become Parquet with the types that all of their values fit."""

import datetime as dt
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.cli import text
from juncture.errors import DataError


def read(tmp_path, content, text_format="csv", name=None, **options):
    contents = content if isinstance(content, list) else [content]
    paths = []
    for number, each in enumerate(contents):
        path = tmp_path / (name or f"part{number}.{text_format}")
        path.write_bytes(each if isinstance(each, bytes) else each.encode())
        paths.append(path)
    target = tmp_path / "out.parquet"
    text.read_text(paths, text_format, target, **options)
    return pq.read_table(target)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_csv_types(tmp_path):
    table = read(tmp_path, 'n,x,s,t,z,d\n1,1.5,a,2013-01-01 05:00:00,2013-01-01T05:00:00+01:00,2013-01-01\n,,"",,,\n')
    assert table.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.date32(),
    ]
    assert table.to_pylist()[1] == {"n": None, "x": None, "s": "", "t": None, "z": None, "d": None}
    assert table["z"][0].as_py() == dt.datetime(2013, 1, 1, 4, tzinfo=dt.UTC)


def test_csv_null_is_what_the_user_says(tmp_path):
    assert read(tmp_path, "n,s\n1,NA\nNA,b\n")["n"].to_pylist() == ["1", "NA"]
    table = read(tmp_path, "n,s\n1,NA\nNA,b\n", nulls=["NA"])
    assert table.to_pydict() == {"n": [1, None], "s": [None, "b"]}


@pytest.mark.parametrize("text_format", ["csv", "json"])
def test_a_column_keeps_one_type_over_slices(tmp_path, monkeypatch, text_format):
    monkeypatch.setattr(text, "SLICE_BYTES", 64)
    rows = [{"a": i, "b": None, "c": "2013-01-01", "d": i} for i in range(20)]
    rows += [{"a": 0.5, "b": 7, "c": "2013-01-01 05:00:00.123456789", "d": 20}]
    if text_format == "csv":
        content = "a,b,c,d\n" + "".join(
            ",".join("" if v is None else str(v) for v in row.values()) + "\n" for row in rows
        )
    else:
        content = lines(rows)
    table = read(tmp_path, content, text_format)
    assert table.num_rows == 21
    assert table.schema.types == [pa.float64(), pa.int64(), pa.timestamp("ns"), pa.int64()]
    assert table["a"].to_pylist()[-2:] == [19.0, 0.5]


def test_csv_values_without_a_type_in_common_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SLICE_BYTES", 8)
    assert read(tmp_path, "a\n007\ntrue\n2013-01-01\n")["a"].to_pylist() == ["007", "true", "2013-01-01"]


def test_json_values_without_a_type_in_common_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SLICE_BYTES", 8)
    with pytest.raises(DataError, match="'a', which held int64 before"):
        read(tmp_path, lines([{"a": 1}, {"a": "x"}]), "json")


def test_json_keeps_zones(tmp_path):
    table = read(
        tmp_path,
        lines([{"z": "2013-01-01T05:00:00.5Z", "t": "2013-01-01T05:00:00", "s": "2013-A", "n": {"k": [1]}}]),
        "json",
    )
    assert table.schema.types[:3] == [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()]
    assert table["n"].to_pylist() == [{"k": [1]}]


def test_json_objects_may_leave_columns_out(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SLICE_BYTES", 8)
    table = read(tmp_path, lines([{"a": 1}, {"b": "x"}, {"a": 2, "b": "y"}]), "json")
    assert table.to_pydict() == {"a": [1, None, 2], "b": [None, "x", "y"]}


def test_a_line_longer_than_a_slice(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SLICE_BYTES", 16)
    table = read(tmp_path, "a,b\n1," + "x" * 100 + "\n2,y\n")
    assert table["a"].to_pylist() == [1, 2]


def test_several_files_and_compression(tmp_path):
    assert read(tmp_path, ["a\n1\n", "a\n2.5\n"])["a"].to_pylist() == [1.0, 2.5]
    assert read(tmp_path, gzip.compress(b"a\n1\n"), name="x.csv.gz")["a"].to_pylist() == [1]


def test_rows_without_a_header_line_end(tmp_path):
    assert read(tmp_path, "a\r\n1\r\n2")["a"].to_pylist() == [1, 2]
    assert read(tmp_path, "a,b\n").schema.types == [pa.string(), pa.string()]


@pytest.mark.parametrize(
    ("content", "text_format", "message"),
    [
        ("", "csv", "is empty"),
        ("", "json", "is empty"),
        ("a,b\n1,2,3\n", "csv", "Expected 2 columns, got 3"),
        (["a\n1\n", "b\n1\n"], "csv", "same header"),
        ('[{"a": 1}]', "json", "one object per line"),
        ('{"a": 1', "json", "one object per line"),
        ('{"a": 1}\n{"a": {"b": 1}}\n', "json", "one object per line"),
    ],
)
def test_what_cannot_be_read(tmp_path, content, text_format, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, text_format)


TABLE = pa.table(
    {
        "n": pa.array([1, None], pa.int64()),
        "x": [0.5, None],
        "s": ["ä", None],
        "t": pa.array([1, None], pa.timestamp("us", "UTC")),
    }
)


@pytest.mark.parametrize("text_format", ["csv", "json"])
@pytest.mark.parametrize("by_way_of_parquet", [False, True])
def test_what_is_written_can_be_read(tmp_path, text_format, by_way_of_parquet):
    source = TABLE
    if by_way_of_parquet:
        source = tmp_path / "rows"
        source.mkdir()
        pq.write_table(TABLE, source / "part-0.parquet")
    written = []
    text.write_text(source, text_format, tmp_path / "out", advance=written.append)
    assert sum(written) == 2
    assert read(tmp_path, (tmp_path / "out").read_bytes(), text_format).equals(TABLE)


def test_json_holds_any_type(tmp_path):
    import decimal

    table = pa.table(
        {
            "b": [b"\x00\xff"],
            "d": [decimal.Decimal("1.50")],
            "ns": pa.array([1], pa.timestamp("ns")),
            "l": [[dt.datetime(2013, 1, 1)]],
        }
    )
    text.write_text(table, "json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "b": "AP8=",
        "d": "1.50",
        "ns": "1970-01-01 00:00:00.000000001",
        "l": ["2013-01-01 00:00:00"],
    }


def test_csv_refuses_what_it_cannot_hold(tmp_path):
    with pytest.raises(DataError, match="CSV cannot hold the column 'l'"):
        text.write_text(pa.table({"l": [[1]]}), "csv", tmp_path / "out.csv")
