"""DataFrames that are nothing but a scan of Parquet files are found out, and told from all others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.spark.input.plain_scan import files_behind
from support.engines import is_connect
from support.lakes import LOGS, write_lake

ROWS = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "a"], "day": pa.array([0, 1, None], pa.date32())})
PARTS = [f"part {part}.parquet" for part in range(3)]

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "absolute": str,
    "with a slash": lambda path: f"{path}/",
    "as a URI": Path.as_uri,
    "as Hadoop writes URIs": lambda path: f"file:{path}",
    "relative": os.path.relpath,
    "relative, dotted": lambda path: f"./{os.path.relpath(path)}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "many").mkdir()
    for number, name in enumerate(PARTS):
        pq.write_table(ROWS.slice(number, 1), tmp_path / "many" / name)
    pq.write_table(ROWS, tmp_path / "one.parquet")
    return tmp_path


@pytest.fixture
def classic(spark: Any) -> Any:
    """A classic session, whose driver is this process."""
    return None if is_connect(spark) else spark


@pytest.fixture
def parts(classic: Any) -> list[str]:
    """What is found of the files in the folder."""
    return PARTS if classic else []


def found(frame: Any) -> list[str]:
    side = files_behind(frame, cores=2)
    return [] if side is None else [Path(unit.file).name for unit in side.units()]


def test_files_are_found_however_they_were_named(spark, classic, parts, folder):
    one = ["one.parquet"] if classic else []
    for spelling, spell in SPELLINGS.items():
        assert found(spark.read.parquet(spell(folder / "one.parquet"))) == one, spelling
        assert found(spark.read.parquet(spell(folder / "many"))) == parts, spelling
    assert found(spark.read.parquet(*(str(folder / "many" / name) for name in PARTS))) == parts


def test_many_files_of_several_folders_are_left_to_spark(spark, folder):
    names = [folder / f"{number % 2}" / f"{number}.parquet" for number in range(34)]
    for name in names:
        name.parent.mkdir(exist_ok=True)
        pq.write_table(ROWS, name)
    assert found(spark.read.parquet(*map(str, names))) == []


OTHERS: dict[str, Callable[[Any, str], Any]] = {
    "filtered": lambda spark, path: spark.read.parquet(path).where("ts > 1"),
    "fewer columns": lambda spark, path: spark.read.parquet(path).select("ts", "k"),
    "other columns": lambda spark, path: spark.read.parquet(path).selectExpr("ts + 1 AS ts", "k", "day"),
    "other names": lambda spark, path: spark.read.parquet(path).withColumnRenamed("k", "key"),
    "limited": lambda spark, path: spark.read.parquet(path).limit(2),
    "twice": lambda spark, path: spark.read.parquet(path).unionAll(spark.read.parquet(path)),
    "other types": lambda spark, path: spark.read.schema("ts int, k string, day date").parquet(path),
    "with an option": lambda spark, path: spark.read.option("modifiedAfter", "2001-01-01T00:00:00").parquet(path),
    "columns of one name": lambda spark, path: spark.read.parquet(path).toDF("ts", "k", "k"),
    "no file": lambda spark, _: spark.range(3),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_more_than_a_scan_is_left_to_spark(spark, folder, other):
    assert found(OTHERS[other](spark, str(folder / "one.parquet"))) == []


def test_kept_rows_are_not_read_again(spark, folder):
    frame = spark.read.parquet(str(folder / "one.parquet")).cache()
    assert found(frame) == []
    frame.unpersist()


def test_columns_in_the_names_of_folders_are_left_to_spark(spark, folder):
    for day in (1, 2):
        (folder / "days" / f"n={day}").mkdir(parents=True)
        pq.write_table(ROWS, folder / "days" / f"n={day}" / "rows.parquet")
    assert found(spark.read.parquet(str(folder / "days"))) == []


@pytest.mark.parametrize(
    ("version", "notes"),
    [("2.4.8", {}), ("3.5.1", {"org.apache.spark.legacyDateTime": ""})],
    ids=["old", "legacy"],
)
def test_files_of_the_julian_calendar_are_left_to_spark(spark, folder, version, notes):
    table = ROWS.replace_schema_metadata({"org.apache.spark.version": version, **notes})
    pq.write_table(table, folder / "old.parquet")
    assert found(spark.read.parquet(str(folder / "old.parquet"))) == []


@pytest.mark.parametrize("table", LOGS)
def test_files_of_a_table_with_a_log_are_refused(spark, classic, folder, table):
    write_lake(folder / "lake", table, ROWS)
    for path in ("lake/day=1", "lake/day=1/part-0.parquet") if classic else ():
        with pytest.raises(DataError, match=rf"lake' is an? {table} table"):
            files_behind(spark.read.parquet(str(folder / path)), cores=2)


def test_a_setting_to_read_otherwise_is_respected(spark, folder):
    name = "spark.sql.files.ignoreCorruptFiles"
    spark.conf.set(name, "true")
    try:
        assert found(spark.read.parquet(str(folder / "one.parquet"))) == []
    finally:
        spark.conf.unset(name)


def test_what_was_added_since_is_not_read(spark, parts, folder):
    frame = spark.read.parquet(str(folder / "many"))
    pq.write_table(ROWS, folder / "many" / "later.parquet")
    assert found(frame) == parts


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", ["auto", "range", "window"])
def test_a_join_of_scans(spark, classic, folder, algorithm):
    frames = [spark.read.parquet(str(folder / name)) for name in ("one.parquet", "many")]
    plan = jn.plan(*frames, jn.Asof(on="ts", by="k"), algorithm=algorithm)
    assert ("Parquet footers" in plan.explain()) == bool(classic)
    answer = plan.execute()
    assert answer.schema.names == ["ts", "k", "day", "day_right"]
    assert answer.toArrow().sort_by("ts").to_pydict() == jn.join_asof(ROWS, ROWS, on="ts", by="k").to_pydict()
