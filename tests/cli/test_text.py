"""CSV and JSON become Parquet with the types that all of their values fit."""

import datetime as dt
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.errors import DataError, SpecError
from juncture.files.text.options import TextOptions, column_types
from juncture.files.text.read import TextFiles
from juncture.files.text.write import write_rows


def read(tmp_path, content, text_format="csv", name=None, slice_bytes=1 << 20, **options):
    contents = content if isinstance(content, list) else [content]
    paths = []
    for number, each in enumerate(contents):
        path = tmp_path / (name or f"part{number}.{text_format}")
        path.write_bytes(each if isinstance(each, bytes) else each.encode())
        paths.append(path)
    target = tmp_path / "out.parquet"
    files = TextFiles(paths=paths, format=text_format, options=TextOptions(**options), slice_bytes=slice_bytes)
    files.write_parquet(target)
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
def test_a_column_keeps_one_type_over_slices(tmp_path, text_format):
    rows = [{"a": i, "b": None, "c": "2013-01-01", "d": i} for i in range(20)]
    rows += [{"a": 0.5, "b": 7, "c": "2013-01-01 05:00:00.123456789", "d": 20}]
    if text_format == "csv":
        content = "a,b,c,d\n" + "".join(
            ",".join("" if v is None else str(v) for v in row.values()) + "\n" for row in rows
        )
    else:
        content = lines(rows)
    table = read(tmp_path, content, text_format, slice_bytes=64)
    assert table.num_rows == 21
    assert table.schema.types == [pa.float64(), pa.int64(), pa.timestamp("ns"), pa.int64()]
    assert table["a"].to_pylist()[-2:] == [19.0, 0.5]


def test_csv_values_without_a_type_in_common_are_text(tmp_path):
    assert read(tmp_path, "a\n007\ntrue\n2013-01-01\n", slice_bytes=8)["a"].to_pylist() == ["007", "true", "2013-01-01"]


def test_json_values_without_a_type_in_common_are_an_error(tmp_path):
    with pytest.raises(DataError, match="'a', which has int64 values before"):
        read(tmp_path, lines([{"a": 1}, {"a": "x"}]), "json", slice_bytes=8)


def test_json_keeps_zones(tmp_path):
    table = read(
        tmp_path,
        lines([{"z": "2013-01-01T05:00:00.5Z", "t": "2013-01-01T05:00:00", "s": "2013-A", "n": {"k": [1]}}]),
        "json",
    )
    assert table.schema.types[:3] == [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()]
    assert table["n"].to_pylist() == [{"k": [1]}]


def test_json_objects_may_leave_columns_out(tmp_path):
    table = read(tmp_path, lines([{"a": 1}, {"b": "x"}, {"a": 2, "b": "y"}]), "json", slice_bytes=8)
    assert table.to_pydict() == {"a": [1, None, 2], "b": [None, "x", "y"]}


def test_a_line_longer_than_a_slice(tmp_path):
    table = read(tmp_path, "a,b\n1," + "x" * 100 + "\n2,y\n", slice_bytes=16)
    assert table["a"].to_pylist() == [1, 2]


def test_several_files_and_compression(tmp_path):
    assert read(tmp_path, ["a\n1\n", "a\n2.5\n"])["a"].to_pylist() == [1.0, 2.5]
    assert read(tmp_path, gzip.compress(b"a\n1\n"), name="x.csv.gz")["a"].to_pylist() == [1]


def test_rows_without_a_header_line_end(tmp_path):
    assert read(tmp_path, "a\r\n1\r\n2")["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "a,b\n,\n"])
def test_a_column_without_a_value_goes_with_any_type(tmp_path, content):
    assert read(tmp_path, content).schema.types == [pa.null(), pa.null()]
    assert read(tmp_path, '{"a": null}\n', "json").schema.types == [pa.null()]


@pytest.mark.parametrize(
    ("content", "text_format", "message"),
    [
        ("", "csv", "is empty"),
        ("", "json", "is empty"),
        ("a,b\n1,2,3\n", "csv", "Expected 2 columns, got 3"),
        (["a\n1\n", "b\n1\n"], "csv", "same header"),
        ('[{"a": 1}, 2]', "json", "a list of objects"),
        ('[{"a": 1} {"a": 2}]', "json", "a list of objects"),
        ('[{"a": 1}, {"a"', "json", "ends within an object"),
        ("a,a\n1,2\n", "csv", "2 columns named 'a'"),
        ('{"l": [12345678901234567890123, 0.5]}', "json", "the nested number 12345678901234567890123 in column 'l'"),
        ('{"a": 12345678901234567890123}\n{"a": 1e300}\n', "json", "no type represents exactly"),
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
    write_rows(source, text_format, tmp_path / "out", advance=written.append)
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
    write_rows(table, "json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "b": "AP8=",
        "d": "1.50",
        "ns": "1970-01-01 00:00:00.000000001",
        "l": ["2013-01-01 00:00:00"],
    }


def test_csv_refuses_what_it_cannot_hold(tmp_path):
    with pytest.raises(DataError, match=r"column 'l' of type list.* cannot be written as CSV"):
        write_rows(pa.table({"l": [[1]]}), "csv", tmp_path / "out.csv")


@pytest.mark.parametrize("slice_bytes", [16, 1 << 20])
@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        (["1", "-2", "9223372036854775807"], pa.int64()),
        (["12345678901234567890123", "12345678901234567890124"], pa.decimal128(38, 0)),
        (["1", "12345678901234567890123"], pa.decimal128(38, 0)),
        (["9223372036854775808"], pa.decimal128(38, 0)),
        (["00123", "123"], pa.string()),
        (["1", "2.5", "00.5"], pa.string()),
        (["0", "-0", "10"], pa.int64()),
        (["0.5", "1e3", "nan"], pa.float64()),
        (["9007199254740993", "0.5"], pa.decimal128(38, 1)),
        (["9007199254740992", "0.5"], pa.float64()),
        (["9007199254740993", "1e3"], pa.string()),
        (["1" * 39], pa.string()),
        (["1", "x"], pa.string()),
    ],
)
def test_no_digit_of_a_number_changes(tmp_path, values, data_type, slice_bytes):
    column = read(tmp_path, "n,s\n" + "".join(f"{value},a\n" for value in values), slice_bytes=slice_bytes)["n"]
    assert column.type == data_type
    if data_type == pa.string():
        assert column.to_pylist() == values
    else:
        assert [str(value) for value in column.to_pylist()] == [
            str(pa.scalar(value).cast(data_type).as_py()) for value in values
        ]


@pytest.mark.parametrize("slice_bytes", [16, 1 << 20])
def test_no_digit_of_a_number_in_json_changes(tmp_path, slice_bytes):
    rows = '{"n": 12345678901234567890123, "x": 0.5}\n{"n": 1, "x": 9007199254740993}\n'
    table = read(tmp_path, rows, "json", slice_bytes=slice_bytes)
    assert table["n"].type == pa.decimal128(38, 0)
    assert [int(value) for value in table["n"].to_pylist()] == [12345678901234567890123, 1]
    assert [str(value) for value in table["x"].to_pylist()] == ["0.5", "9007199254740993.0"]


def test_types_are_what_the_user_says(tmp_path):
    content = "id,at,x\n00123,2013-01-01,1\n7,2013-01-02,2\n"
    types = column_types(["id=decimal(30, 0)", "x=double"], argument="--type")
    assert read(tmp_path, content, types=types).schema.types == [pa.decimal128(30, 0), pa.date32(), pa.float64()]
    assert read(tmp_path, content, is_all_text=True, types={"x": pa.int8()}).schema.types == [
        pa.string(),
        pa.string(),
        pa.int8(),
    ]
    with pytest.raises(DataError, match="abc"):
        read(tmp_path, "id\nabc\n", types={"id": pa.int64()})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["id"], "is not a column and a type"),
        (["id=number"], "is not a type"),
        (["id=int", "id=bigint"], "'id' has two types"),
    ]
    + [([f"id=decimal({size})"], "is not a valid decimal") for size in ("39", "0", "3, 4")],
)
def test_types_that_there_are_not(texts, message):
    with pytest.raises(SpecError, match=message):
        column_types(texts, argument="--type")


def test_csv_without_a_header_and_by_another_delimiter(tmp_path):
    table = read(tmp_path, "1;a,b\n2;c\n", delimiter=";", has_header=False)
    assert table.to_pydict() == {"f0": [1, 2], "f1": ["a,b", "c"]}


@pytest.mark.parametrize("slice_bytes", [16, 1 << 20])
def test_a_list_of_objects(tmp_path, slice_bytes):
    rows = [{"a": each, "s": "x\ny [{,", "n": {"k": [each, 2]}} for each in range(20)]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), "\n " + json.dumps(rows)):
        assert read(tmp_path, content, "json", slice_bytes=slice_bytes).to_pylist() == rows


@pytest.mark.parametrize("row_format", ["arrow", "tsv", "parquet"])
def test_other_formats_that_are_written(tmp_path, row_format):
    target = tmp_path / "out"
    assert write_rows(TABLE, row_format, target) == 2
    if row_format == "tsv":
        assert target.read_text().splitlines()[0] == '"n"\t"x"\t"s"\t"t"'
    else:
        table = pa.ipc.open_file(target).read_all() if row_format == "arrow" else pq.read_table(target)
        assert table.equals(TABLE)


def test_text_is_compressed_where_the_ending_says_so(tmp_path):
    write_rows(TABLE, "csv", tmp_path / "out", ending=".gz")
    assert gzip.decompress((tmp_path / "out").read_bytes()).startswith(b'"n","x"')
