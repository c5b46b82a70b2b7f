"""Files as tables of this process: text and Arrow by path, columns by name, and what paths may be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SpecError
from juncture.inputs.file_tables import open_files

ROWS = pa.table({"ts": [1, 5, 9], "k": ["a", "b", "a"], "v": [1.5, None, 3.0]})
RIGHT = pa.table({"ts": [0, 4, 8], "k": ["a", "a", "a"], "bid": [1.0, 2.0, 3.0]})
EXPECTED = jn.join_asof(ROWS, RIGHT, on="ts", by="k")


def write(path: Path, rows: pa.Table) -> None:
    """Write rows in the format of a path's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".csv" in path.suffixes or ".tsv" in path.suffixes:
        options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in path.suffixes else ",")
        pa.csv.write_csv(rows, path, options)
    elif path.suffix in (".json", ".jsonl", ".ndjson"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    elif path.suffix in (".arrow", ".feather"):
        pa.feather.write_feather(rows, path)
    else:
        pq.write_table(rows, path)


def write_stream(path: Path, rows: pa.Table) -> None:
    with pa.ipc.new_stream(path, rows.schema) as writer:
        writer.write_table(rows)


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.json", "t.jsonl", "t.ndjson", "t.arrow", "t.feather", "t.parquet", "T.CSV"]
)
def test_a_file_of_any_format(tmp_path, name):
    if name == "T.CSV":
        write(tmp_path / "t.csv", ROWS)
        (tmp_path / "t.csv").rename(tmp_path / name)
    else:
        write(tmp_path / name, ROWS)
    assert jn.join_asof(tmp_path / name, RIGHT, on="ts", by="k").equals(EXPECTED)
    assert jn.join_asof(str(tmp_path / name), RIGHT, on="ts", by="k", memory="64MB").equals(EXPECTED)
    assert jn.join(RIGHT, [tmp_path / name], on="ts", how="full").num_rows == 6


def test_compressed_text_and_a_stream_of_arrow(tmp_path):
    write(tmp_path / "t.csv", ROWS)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    write_stream(tmp_path / "t.arrow", ROWS)
    for name in ("t.csv.gz", "t.arrow"):
        assert jn.join_asof(tmp_path / name, RIGHT, on="ts", by="k").equals(EXPECTED)


@pytest.mark.parametrize("ending", ["csv", "json", "arrow"])
def test_a_folder_a_glob_and_a_list_of_text(tmp_path, ending):
    paths = []
    for row in range(3):
        paths.append(tmp_path / "t" / f"{row}.{ending}")
        write(paths[-1], ROWS.slice(row, 1))
        write(tmp_path / "t" / "_tmp" / f"{row}.{ending}", ROWS)
    (tmp_path / "t" / "_SUCCESS").write_text("")
    (tmp_path / "t" / "notes.txt").write_text("not a table")
    for path in (tmp_path / "t", f"{tmp_path}/t/*.{ending}", f"{tmp_path}/**/*.{ending}", paths):
        assert jn.join_asof(path, RIGHT, on="ts", by="k").cast(EXPECTED.schema).equals(EXPECTED)


def test_folders_of_text_stand_for_columns(tmp_path):
    for day in (1, 2):
        write(tmp_path / f"day={day}" / "rows.csv", ROWS)
    answer = jn.join(tmp_path, pa.table({"day": [2]}), on="day")
    assert (answer.num_rows, set(answer["day"].to_pylist())) == (3, {2})


def test_a_folder_of_parquet_holds_other_files_too(tmp_path):
    write(tmp_path / "t" / "a.csv", ROWS)
    write(tmp_path / "t" / "b.parquet", ROWS)
    assert jn.join_asof(tmp_path / "t", RIGHT, on="ts", by="k").equals(EXPECTED)


def test_a_format_may_be_named(tmp_path):
    write(tmp_path / "t.csv", ROWS)
    (tmp_path / "t.csv").rename(tmp_path / "export")
    assert jn.join_asof(jn.Files(tmp_path / "export", "csv"), RIGHT, on="ts", by="k").equals(EXPECTED)
    write(tmp_path / "p.parquet", ROWS)
    (tmp_path / "p.parquet").rename(tmp_path / "odd.csv")
    assert jn.join_asof(jn.Files(tmp_path / "odd.csv", "parquet"), RIGHT, on="ts", by="k").equals(EXPECTED)


READERS: dict[str, Any] = {
    "plan": lambda path: jn.plan(path, RIGHT, jn.Asof(on="ts", by="k")).execute(),
    "many": lambda path: jn.join_many(path, {"r": jn.Right(RIGHT, jn.Asof(on="ts", by="k"))}),
    "grid": lambda path: jn.grid(path, every=4, by="k"),
    "interpolate": lambda path: jn.interpolate(RIGHT, path, on="ts", by="k", columns="v"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_function_reads_text(tmp_path, read):
    write(tmp_path / "t.csv", ROWS)
    assert read(tmp_path / "t.csv").equals(read(ROWS))


def test_text_is_read_again_and_not_if_it_has_changed(tmp_path):
    write(tmp_path / "t.csv", ROWS)
    plan = jn.plan(tmp_path / "t.csv", RIGHT, jn.Asof(on="ts", by="k"))
    assert plan.execute().equals(plan.execute())
    write(tmp_path / "t.csv", ROWS.slice(1))
    with pytest.raises(DataError, match=r"The file '\S*t\.csv' has changed since the join was planned"):
        plan.execute()


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("gone.csv", DataError, r"The path '\S*gone\.csv' does not exist\. Expected csv files"),
        ("gone/*.json", DataError, r"The path '\S*' does not exist\. Expected json files"),
        ("empty.csv", DataError, "its columns are unknown"),
        ("mixed", DataError, r"files of several formats, such as '\S*a\.csv' and '\S*b\.json'"),
        (["a.csv", "p.parquet"], SpecError, r"'\S*a\.csv' has csv files, but '\S*p\.parquet' has parquet files"),
        ("s3://bucket/a.csv", DataError, "which can only be read from local disk"),
        ("broken.arrow", DataError, "cannot be read as Arrow"),
        ("broken.json", DataError, "cannot be read as JSON"),
        ("notes", DataError, "is a folder without Parquet files"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, path, error, said):
    for name, content in {"empty.csv": "", "broken.arrow": "ARROW1??", "broken.json": "{", "notes/a.txt": "x"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for name in ("a.csv", "p.parquet", "mixed/a.csv", "mixed/b.json"):
        write(tmp_path / name, ROWS)
    paths = [path] if isinstance(path, str) else path
    with pytest.raises(error, match=said):
        jn.join([each if "://" in each else str(tmp_path / each) for each in paths], RIGHT, on="ts")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": 5}, r"path=5 \(int\) is not a path"),
        ({"path": []}, r"path=\[\] \(list\) is not a path"),
        ({"path": " "}, "path=' ' is empty"),
        ({"path": ["a", ""]}, "path='' is empty"),
        ({"path": "a", "format": "xml"}, "format='xml'"),
        ({"path": "a", "union_by_name": "yes"}, "union_by_name='yes'"),
    ],
)
def test_wrong_arguments_of_files(arguments, said):
    with pytest.raises(SpecError, match=said):
        jn.Files(**arguments)


def test_columns_that_files_lack_are_null(tmp_path):
    write(tmp_path / "t" / "1.parquet", ROWS.drop(["v"]))
    write(tmp_path / "t" / "2.parquet", ROWS.select(["v", "ts"]))
    with pytest.raises(DataError, match=r"column 'k' is missing in '\S*2\.parquet'; column 'v' exists only in"):
        jn.join(RIGHT, tmp_path / "t", on="ts")
    spine = pa.table({"ts": [1, 9]})
    answer = jn.join(spine, jn.Files(tmp_path / "t", union_by_name=True), on="ts").sort_by([("ts", "ascending")])
    assert answer.schema.names == ["ts", "k", "v"]
    assert sorted(map(str, answer.to_pylist())) == sorted(
        str(row)
        for row in (
            {"ts": 1, "k": "a", "v": None},
            {"ts": 1, "k": None, "v": 1.5},
            {"ts": 9, "k": "a", "v": None},
            {"ts": 9, "k": None, "v": 3.0},
        )
    )
    with pytest.raises(SpecError, match="union_by_name=True applies to Parquet files"):
        open_files(jn.Files("a.csv", union_by_name=True))


def test_tasks_on_spark_read_no_text(spark, tmp_path):
    write(tmp_path / "p.parquet", ROWS)
    for name, call in {"t.csv": "spark.read.csv", "t.json": "spark.read.json", "t.arrow": "spark.createData"}.items():
        write(tmp_path / name, ROWS)
        with pytest.raises(PlanError, match=r"but Spark tasks read only Parquet files from a path\. Pass ") as raised:
            jn.join(tmp_path / "p.parquet", tmp_path / name, on="ts", spark=spark)
        assert call in str(raised.value)


def test_the_name_of_a_table_on_spark_is_no_path(spark, tmp_path):
    write(tmp_path / "p.parquet", ROWS)
    for name in ("trades", "db.trades", "catalog.db.trades"):
        with pytest.raises(DataError, match=rf"'{name}' does not exist\. If it is the name of a table") as raised:
            jn.join(tmp_path / "p.parquet", name, on="ts", spark=spark)
        assert f"pass spark.table('{name}')" in str(raised.value)
