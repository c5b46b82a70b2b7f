"""Folders of Delta, Iceberg and Hudi tables are no folders of Parquet files: their logs say which rows there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app
from juncture.errors import DataError
from juncture.runtime.paths import files_of, listed_on
from support.lakes import LOGS, write_lake

ROWS = pa.table({"ts": [1, 2], "k": ["a", "b"]})
REMEDIES = {"Delta": "as the only path", "Iceberg": "as the only path", "Hudi": "hudi.HudiTableBuilder"}
REFUSED = r"'.*/lake/orders' is an? {} table, whose Parquet files include deleted and overwritten rows"


@pytest.fixture(params=LOGS)
def table(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, table: str) -> Path:
    write_lake(tmp_path / "lake" / "orders", table, ROWS)
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    return tmp_path


PATHS = {
    "at it": "lake/orders",
    "above it": "lake",
    "far above it": ".",
    "below it": "lake/orders/day=1",
    "a file of it": "lake/orders/day=1/part-0.parquet",
    "a glob of folders": "lake/*",
    "a glob of files": "lake/*/day=*/*.parquet",
    "a glob at any depth": "**/*.parquet",
    "a glob below it": "lake/orders/day=1/*",
    "a file by its ending": "lake/orders/**/part-0.parquet",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_path_to_a_table_is_refused(folder, table, path):
    with pytest.raises(DataError, match=REFUSED.format(table)) as raised:
        files_of(f"{folder}/{path}")
    assert REMEDIES[table] in str(raised.value)
    assert f"spark.read.format('{table.lower()}').load('{folder}/lake/orders')" in str(raised.value)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_path_elsewhere_to_a_table_is_refused(folder, table, path):
    elsewhere = pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())
    with pytest.raises(DataError, match=rf"lake/orders' is an? {table} table"):
        listed_on(elsewhere, "" if path == "." else path)


def test_links_into_a_table_are_refused(folder, table):
    (folder / "links").mkdir()
    for link, target in {
        "folder": "lake/orders",
        "part": "lake/orders/day=1",
        "file.parquet": "lake/orders/day=1/part-0.parquet",
        "links/above": "lake",
    }.items():
        (folder / link).symlink_to(folder / target)
        with pytest.raises(DataError, match=rf"is an? {table} table"):
            files_of(str(folder / link))
    with pytest.raises(DataError, match=rf"is an? {table} table"):
        files_of(str(folder / "links"))


def test_a_table_without_files_is_refused(tmp_path, table):
    (tmp_path / LOGS[table]).parent.mkdir()
    (tmp_path / LOGS[table]).write_text("{}")
    with pytest.raises(DataError, match=rf"is an? {table} table"):
        files_of(str(tmp_path))


def test_what_lies_beside_a_table_is_read(folder):
    (folder / "metadata").mkdir()
    (folder / "metadata" / "notes.json").write_text("{}")
    assert len(files_of(str(folder / "plain.parquet"))) == len(files_of(f"{folder}/*.parquet")) == 1


def read_many(path: str, plain: str) -> Any:
    return jn.join_many(plain, {"orders": jn.Right(path, jn.Asof(on="ts"))})


def read_list(path: str, plain: str) -> Any:
    return jn.join([plain, f"{path}/day=1/part-0.parquet"], plain, on="k")


READERS: dict[str, Any] = {
    "left": lambda path, plain: jn.join_asof(path, plain, on="ts"),
    "right": lambda path, plain: jn.plan(plain, path, jn.Equi(on="k")),
    "many": read_many,
    "a list": read_list,
    "grid": lambda path, _: jn.grid(path, every=1),
    "interpolate": lambda path, plain: jn.interpolate(plain, path, on="ts", columns="v"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_function_refuses_a_table(tmp_path, read):
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    write_lake(tmp_path / "lake" / "orders", "Hudi", ROWS)
    with pytest.raises(DataError, match=REFUSED.format("Hudi")):
        read(str(tmp_path / "lake" / "orders"), str(tmp_path / "plain.parquet"))


@pytest.mark.parametrize("options", [(), ("--format", "csv"), ("--format", "parquet")])
def test_the_command_line_refuses_a_table(folder, table, options):
    for path in ("lake", "lake/orders/day=1/*"):
        arguments = ["join", "asof", str(folder / path), str(folder / "plain.parquet"), "--on", "ts", *options]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2
        assert f"{folder}/lake/orders' is a" in done.stderr


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("source", ['path = "lake/*"\nformat = "csv"', 'path = "lake"'])
def test_a_pipeline_refuses_a_table(folder, table, source, engine):
    text = f'[sources.plain]\npath = "plain.parquet"\n[sources.orders]\n{source}\n'
    (folder / "juncture.toml").write_text(text)
    with pytest.raises(jn.SpecError, match=rf"juncture.toml:4: sources.orders.path: .*is an? {table} table"):
        jn.Pipeline.from_toml(folder / "juncture.toml").check(engine=engine)


@pytest.mark.parametrize("table", ["Delta", "Iceberg"])
def test_a_pipeline_leaves_the_reader_of_a_table_to_spark(folder, table):
    text = f'[sources.orders]\npath = "lake/orders"\nformat = "{table.lower()}"\n'
    (folder / "juncture.toml").write_text(text)
    assert jn.Pipeline.from_toml(folder / "juncture.toml").check(engine="spark") == {"orders": None}
