"""Folders that stand for columns: the values, where they are columns of a join, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.runtime.parquet import ParquetSource
from support.engines import LOCAL, LOCAL_EQUI


def write(root: Path, *folders: str) -> None:
    """Write a file with the number of its folder into each."""
    for number, folder in enumerate(folders):
        (root / folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"v": [number]}), root / folder / "rows.parquet")


def read(*paths: object, coded: tuple[str, ...] = ()) -> pa.Table:
    source = ParquetSource([str(path) for path in paths])
    parts = range(len(source.part_rows))
    batches = [batch for part in parts for batch in source.read(part, source.schema.names, coded)]
    return pa.Table.from_batches(batches, None if coded else source.schema)


def values(root: Path, name: str = "k") -> tuple[pa.DataType, list[Any]]:
    column = read(root).sort_by("v")[name]
    return column.type, column.to_pylist()


NULL = "__HIVE_DEFAULT_PARTITION__"
TEXT, INT = pa.string(), pa.int32()
VALUES = [
    (["1", "02", "-3"], INT, [1, 2, -3]),
    (["2147483647", "-2147483648"], INT, [2147483647, -2147483648]),
    (["1", "2147483648"], TEXT, ["1", "2147483648"]),
    (["01", "x"], TEXT, ["01", "x"]),
    (["+5", " 5", "5.0", "1e3"], TEXT, ["+5", " 5", "5.0", "1e3"]),
    (["2024-01-01", "true"], TEXT, ["2024-01-01", "true"]),
    ([NULL, "3"], INT, [None, 3]),
    ([NULL, "null", ""], TEXT, [None, "null", ""]),
    (["a%20b", "a+b", "a=b", "%2Fx"], TEXT, ["a b", "a+b", "a=b", "/x"]),
    (["%C3%A9", "\u00e8", "%ZZ", "%2"], TEXT, ["\u00e9", "\u00e8", "%ZZ", "%2"]),
]


@pytest.mark.parametrize(("texts", "data_type", "expected"), VALUES)
def test_values_are_those_of_pyarrow(tmp_path, texts, data_type, expected):
    write(tmp_path, *(f"k={text}" for text in texts))
    assert values(tmp_path) == (data_type, expected)
    peer = ds.dataset(tmp_path, partitioning="hive").to_table().sort_by("v")
    assert (peer.schema.field("k").type, peer["k"].to_pylist()) == (data_type, expected)


def test_where_all_is_null_the_column_is_text(tmp_path):
    write(tmp_path, f"k={NULL}")
    assert values(tmp_path) == (TEXT, [None])


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("", {"year": [2025, 2026], "v": [0, 1], "month": ["a", "b"]}),
        ("year=2026", {"v": [1], "month": ["b"]}),
        ("year=2026/month=b", {"v": [1]}),
        ("year=2026/month=b/rows.parquet", {"v": [1]}),
        ("year=*", {"year": [2025, 2026], "v": [0, 1], "month": ["a", "b"]}),
        ("*/*/*.parquet", {"year": [2025, 2026], "v": [0, 1], "month": ["a", "b"]}),
        ("year=2026/*/rows.parquet", {"v": [1], "month": ["b"]}),
        ("year=2026/month=b/*", {"v": [1]}),
    ],
)
def test_what_lies_below_the_named_folder_or_before_a_wildcard_counts(tmp_path, path, columns):
    write(tmp_path, "year=2025/month=a", "year=2026/month=b")
    assert read(tmp_path / path).sort_by("v").to_pydict() == columns


def test_the_columns_come_last_and_in_the_order_of_the_folders(tmp_path):
    write(tmp_path, "x/b=1/deep/a=2/deeper")
    assert read(tmp_path).schema.names == ["v", "b", "a"]
    assert read(tmp_path).to_pylist() == [{"v": 0, "b": 1, "a": 2}]


def test_a_list_of_folders_has_the_columns_below_each(tmp_path):
    write(tmp_path, "year=2025/k=1", "year=2026/k=x")
    found = read(tmp_path / "year=2026", tmp_path / "year=2025")
    assert found.to_pydict() == {"v": [1, 0], "k": ["x", "1"]}


def test_names_of_columns_are_decoded(tmp_path):
    write(tmp_path, "a%20b=1/_c=2")
    assert read(tmp_path).to_pydict() == {"v": [0], "a b": [1], "_c": [2]}


def test_text_may_come_as_a_dictionary(tmp_path):
    write(tmp_path, "k=x/n=1", f"k={NULL}/n=2")
    table = read(tmp_path, coded=("k", "n")).sort_by("v")
    assert table.schema.types == [pa.int64(), pa.dictionary(pa.int32(), TEXT), INT]
    assert table.to_pydict() == {"v": [0, 1], "k": ["x", None], "n": [1, 2]}


def test_what_is_known_without_reading(tmp_path):
    write(tmp_path, "k=x/n=1", f"k={NULL}/n=2", "k=y/n=3")
    source = ParquetSource([str(tmp_path)])
    assert [source.extent(part, "n").to_pylist() for part in range(3)] == [[2, 2], [1, 1], [3, 3]]
    assert source.ends("n").to_pylist() == [1, 3]
    assert [source.extent(part, "k") is None for part in range(3)] == [True, False, False]
    assert (source.nulls("n"), source.nulls("k"), source.nulls("v")) == (0, 1, 0)
    assert not source.is_declared_sorted("n")
    assert source.plain_bytes_of(["n"]) == 12
    assert source.bytes_of(["k", "n"]) == 0
    assert source.first_rows(0, ["n", "k"], 5).to_pydict() == {"n": [2], "k": [None]}
    # Files are not decoded where only columns of their folders are needed.
    assert [batch.to_pydict() for batch in source.read(1, ["n"])] == [{"n": [1]}]


@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
def test_a_key(tmp_path, algorithm):
    write(tmp_path, "n=1/k=a", "n=2/k=b", f"n={NULL}/k=b")
    right = pa.table({"n": pa.array([1, 2], pa.int64()), "w": [10, 20]})
    answer = jn.join(tmp_path, right, on="n", how="left", algorithm=algorithm)
    assert answer.sort_by("v").to_pydict() == {
        "v": [0, 1, 2],
        "n": [1, 2, None],
        "k": ["a", "b", "b"],
        "w": [10, 20, None],
    }
    answer = jn.join(pa.table({"k": ["b", "c"]}), tmp_path, on="k", how="left", algorithm=algorithm)
    assert answer.sort_by([("k", "ascending"), ("v", "ascending")]).to_pydict() == {
        "k": ["b", "b", "c"],
        "v": [1, 2, None],
        "n": [2, None, None],
    }


@pytest.mark.parametrize("algorithm", LOCAL)
def test_by_and_on(tmp_path, algorithm):
    write(tmp_path, "n=1/k=a", "n=2/k=b", "n=5/k=b", f"n={NULL}/k=b")
    left = pa.table({"n": pa.array([4, 9, 9], pa.int64()), "k": ["b", "b", "a"]})
    answer = jn.join_asof(left, tmp_path, on="n", by="k", algorithm=algorithm)
    assert answer.to_pydict() == {"n": [4, 9, 9], "k": ["b", "b", "a"], "v": [1, 2, 0]}
    answer = jn.join_asof(tmp_path, left, on="n", by="k", direction="forward", algorithm=algorithm)
    assert answer.sort_by("v").to_pydict() == {"v": [0, 1, 2, 3], "n": [1, 2, 5, None], "k": ["a", "b", "b", "b"]}


def test_a_predicate_an_interval_and_a_window(tmp_path):
    write(tmp_path, "n=1/k=a", "n=2/k=b", f"n={NULL}/k=b")
    other = pa.table({"x": [1, 2, 3], "t": ["a", "a", "b"]})
    answer = jn.join_where(other, tmp_path, "l.x > r.n AND r.k = l.t")
    assert answer.to_pylist() == [
        {"x": 2, "t": "a", "v": 0, "n": 1, "k": "a"},
        {"x": 3, "t": "b", "v": 1, "n": 2, "k": "b"},
    ]
    answer = jn.join_range(tmp_path, other, left_on="n", right_on="x", lower=1, upper=1)
    assert answer.sort_by("v").select(["v", "x"]).to_pydict() == {"v": [0, 1], "x": [2, 3]}
    answer = jn.join_overlap(
        tmp_path, other, left_interval=("v", "n"), right_interval=("x", None), closed="both", how="anti"
    )
    assert answer.sort_by("v")["v"].to_pylist() == [2]


def test_folders_that_cannot_match_are_not_read(tmp_path):
    write(tmp_path, *(f"n={number}" for number in range(6)))
    for number in (0, 1, 4, 5):
        # Only its footer is whole.
        path = tmp_path / f"n={number}" / "rows.parquet"
        content = path.read_bytes()
        path.write_bytes(b"PAR1" + b"\xff" * 20 + content[24:])
    answer = jn.join(pa.table({"n": pa.array([2, 3], pa.int32())}), tmp_path, on="n")
    assert answer["v"].to_pylist() == [2, 3]


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["k=1", ""], "define no columns, but the folders of .* define the column 'k'"),
        (["k=1", "n=1"], "define the column 'n', but the folders of .* define the column 'k'"),
        (["k=1/n=1", "n=1/k=1"], "define the columns 'n', 'k', but the folders of .* define the columns 'k', 'n'"),
        (["k=1/k=2"], "folders of .* define the column 'k' twice"),
        (["v=1"], "has the column 'v', but a folder in its path also defines it"),
        (["k=%FF"], "'k=%FF' of .* is not UTF-8"),
    ],
)
def test_what_is_refused(tmp_path, folders, said):
    write(tmp_path, *folders)
    with pytest.raises(DataError, match=said):
        ParquetSource([str(tmp_path)])


def test_the_command_reads_them(tmp_path):
    from typer.testing import CliRunner

    from juncture.cli.main import app

    write(tmp_path / "in", "n=1/k=a", "n=2/k=b")
    pq.write_table(pa.table({"n": pa.array([2], pa.int32())}), tmp_path / "left.parquet")
    output = tmp_path / "out.parquet"
    arguments = ["join", "equi", str(tmp_path / "left.parquet"), str(tmp_path / "in"), "--on", "n", "-o", str(output)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(json.dumps(pq.read_table(output).to_pylist())) == [{"n": 2, "v": 1, "k": "b"}]
