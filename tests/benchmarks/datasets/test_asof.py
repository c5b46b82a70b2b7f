from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from juncture.errors import DataError, SpecError
from juncture_benchmarks.datasets import SCALES, asof, write_asof

SIZES = {"left_rows": 5_000, "right_rows": 20_000, "rows_per_file": 8_000, "row_group_rows": 3_000}


def read(folder: Path) -> pa.Table:
    return pq.read_table(folder)


def test_the_scales_of_the_appendix():
    assert SCALES == {
        "small": (1_000_000, 10_000_000),
        "medium": (10_000_000, 100_000_000),
        "large": (50_000_000, 500_000_000),
    }


def test_rows_columns_and_files(tmp_path):
    tables = write_asof(tmp_path / "data", **SIZES)
    assert [path.name for path in sorted(tables.left.iterdir())] == ["part-00000.parquet"]
    assert [path.name for path in sorted(tables.right.iterdir())] == [f"part-{index:05d}.parquet" for index in range(3)]
    schema = pa.schema({"ts": pa.int64(), "entity": pa.string(), "val": pa.float64()})
    for folder, rows in ((tables.left, 5_000), (tables.right, 20_000)):
        table = read(folder)
        assert table.schema == schema
        assert table.num_rows == rows
        assert all(table[name].null_count == 0 for name in table.column_names)
    last = pq.ParquetFile(tables.right / "part-00002.parquet").metadata
    assert [last.row_group(index).num_rows for index in range(last.num_row_groups)] == [3_000, 1_000]
    assert last.row_group(0).column(0).compression == "SNAPPY"


def test_the_same_seed_gives_the_same_files_whatever_the_threads(tmp_path):
    one = write_asof(tmp_path / "one", **SIZES, threads=1)
    many = write_asof(tmp_path / "many", **SIZES, threads=4)
    other = write_asof(tmp_path / "other", **SIZES, seed=1)
    for path in sorted(one.folder.rglob("*.parquet")):
        assert path.read_bytes() == (many.folder / path.relative_to(one.folder)).read_bytes()
    assert not read(one.right).equals(read(other.right))
    assert not read(one.left)["ts"].equals(read(one.right)["ts"].slice(0, 5_000))


def test_entities_follow_zipf(tmp_path):
    tables = write_asof(tmp_path / "data", left_rows=0, right_rows=200_000, entities=100)
    counts = {row["entity"]: row["count_all"] for row in count_by_entity(read(tables.right))}
    harmonic = sum(1 / rank for rank in range(1, 101))
    for rank in (1, 2, 10, 100):
        assert counts[f"e{rank - 1:05d}"] == pytest.approx(200_000 / rank / harmonic, rel=0.15)


def count_by_entity(table: pa.Table) -> list[dict[str, object]]:
    return table.group_by("entity").aggregate([([], "count_all")]).to_pylist()


@pytest.mark.parametrize(("keys", "distinct"), [("single", 1), ("uniform", 100)])
def test_other_keys(tmp_path, keys, distinct):
    tables = write_asof(tmp_path / "data", left_rows=0, right_rows=50_000, entities=100, keys=keys)
    counts = [row["count_all"] for row in count_by_entity(read(tables.right))]
    assert len(counts) == distinct
    assert max(counts) < 1.4 * 50_000 / distinct
    assert tables.by == "entity"


def test_no_keys_means_no_entity_column(tmp_path):
    tables = write_asof(tmp_path / "data", left_rows=10, right_rows=10, keys="none")
    assert read(tables.right).column_names == ["ts", "val"]
    assert tables.by is None


def test_times_are_clustered_unsorted_and_repeat(tmp_path):
    tables = write_asof(tmp_path / "data", left_rows=0, right_rows=400_000, keys="single")
    table = read(tables.right)
    times = table["ts"].to_numpy()
    assert not np.all(np.diff(times) >= 0)
    assert pc.count_distinct(table["ts"]).as_py() < 400_000
    # Were they spread evenly over the 30 days, the median gap would be about 4.5 s.
    assert np.median(np.diff(np.sort(times))) < 2_000
    day_ms = 24 * 3_600_000
    assert np.ptp(times) < 31 * day_ms


def test_an_empty_side_still_has_its_columns(tmp_path):
    tables = write_asof(tmp_path / "data", left_rows=0, right_rows=5)
    assert read(tables.left).num_rows == 0
    assert read(tables.left).column_names == ["ts", "entity", "val"]


def test_a_finished_folder_is_kept(tmp_path):
    first = write_asof(tmp_path / "data", **SIZES)
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")}
    assert write_asof(tmp_path / "data", **SIZES, threads=1) == first
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")} == before


def test_a_folder_with_other_arguments_is_refused(tmp_path):
    write_asof(tmp_path / "data", **SIZES)
    with pytest.raises(DataError, match=r"other values of seed, zipf;"):
        write_asof(tmp_path / "data", **SIZES, seed=3, zipf=1.5)


def test_a_folder_of_someone_else_is_refused(tmp_path):
    with pytest.raises(DataError, match="was not written by write_asof"):
        write_asof(tmp_path, **SIZES)


def test_a_broken_manifest_is_refused(tmp_path):
    tables = write_asof(tmp_path / "data", **SIZES)
    (tables.folder / "manifest.json").write_text('{"format": ')
    with pytest.raises(DataError, match="was not written by write_asof"):
        write_asof(tmp_path / "data", **SIZES)


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_run_leaves_nothing(tmp_path, monkeypatch, failure):
    written = threading.Event()
    write = asof._write_file

    def fail_second(tables, path, side, index, rows):
        if written.is_set():
            raise failure
        write(tables, path, side, index, rows)
        written.set()

    monkeypatch.setattr(asof, "_write_file", fail_second)
    with pytest.raises(type(failure)):
        write_asof(tmp_path / "data", **SIZES, threads=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"left_rows": -1}, "left_rows must not be negative"),
        ({"entities": 0}, "entities must be from 1"),
        ({"entities": 40_000}, "entities must be from 1"),
        ({"rows_per_file": 0}, "rows_per_file must be at least 1"),
        ({"row_group_rows": 0}, "row_group_rows must be at least 1"),
        ({"keys": "hot"}, "keys must be one of zipf, uniform, single, none"),
        ({"seed": -1}, "seed must not be negative"),
        ({"zipf": float("nan")}, "zipf must be a finite number"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_wrong_arguments(tmp_path, wrong, message):
    with pytest.raises(SpecError, match=message):
        write_asof(tmp_path / "data", **{**SIZES, **wrong})
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_says_how_the_tables_were_made(tmp_path):
    tables = write_asof(tmp_path / "data", **SIZES)
    found = json.loads((tables.folder / "manifest.json").read_text())
    assert found == {"format": 1, "entities": 10_000, "zipf": 1.0, "keys": "zipf", "seed": 0, **SIZES}
