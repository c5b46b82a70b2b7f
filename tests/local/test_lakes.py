"""Delta and Iceberg tables, joined by their folders: equal to the join of the rows that their own libraries read."""

from __future__ import annotations

import base64
import datetime
import json
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType
from pyroaring import BitMap
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app
from juncture.errors import DataError, SpecError
from support.tables import difference

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "day": pa.date32(),
        "place": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 2),
        "value": pa.float64(),
        "tags": pa.list_(pa.string()),
    }
)
B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
EXTRA = pa.field("extra", pa.string())
SPINE = pa.table({"id": pa.array([*range(12), None], pa.int32())})


def rows(chance: random.Random, count: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return random rows, with nulls and awkward partition values."""
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    values: dict[str, Callable[[], Any]] = {
        "id": lambda: chance.randrange(14),
        "day": lambda: datetime.date(2026, 1, chance.randint(1, 3)),
        "place": lambda: chance.choice(["a", "b/ c=%", "Zürich"]),
        "at": lambda: start + datetime.timedelta(seconds=chance.random()),
        "price": lambda: Decimal(chance.randrange(10_000)).scaleb(-2),
        "value": lambda: chance.choice([0.5, -0.0, float("nan"), 1e300]),
        "tags": lambda: chance.choice([[], ["x", None], ["y"]]),
        "extra": lambda: chance.choice(["p", "q"]),
    }
    made = [{name: None if chance.random() < 0.1 else values[name]() for name in schema.names} for _ in range(count)]
    return pa.Table.from_pylist(made, schema=schema)


def check(table: Any, expected: pa.Table) -> None:
    """Compare the joins of a lake table and of the rows that its library reads."""
    found, wanted = (jn.join(SPINE, each, on="id", how="full") for each in (table, expected))
    assert found.schema.names == wanted.schema.names
    assert not difference(found, wanted.cast(found.schema), ordered=False)


def seeds(few: int, many: int) -> list[Any]:
    """Return a few seeds for each run, and many for nightly ones."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(few, many))]


@pytest.mark.parametrize("seed", seeds(4, 50))
def test_delta_tables_have_the_rows_of_their_log(seed: int, tmp_path: Path) -> None:
    chance, folder, schema = random.Random(seed), str(tmp_path / "sales"), SCHEMA
    partitions = chance.choice([[], ["day"], ["day", "place"], ["place"]])
    write_deltalake(folder, rows(chance, chance.randint(1, 20)), partition_by=partitions or None)
    for _ in range(9):
        table, change = DeltaTable(folder), chance.randrange(7)
        if change == 0:
            table.delete(f"id = {chance.randrange(14)}")
        elif change == 1:
            table.update(updates={"value": "7.5"}, predicate=f"id < {chance.randrange(14)}")
        elif change == 2 and "extra" not in schema.names:
            schema = schema.append(EXTRA)
            write_deltalake(folder, rows(chance, 4, schema), mode="append", schema_mode="merge")
        elif change == 3:
            write_deltalake(folder, rows(chance, 6, schema), mode="overwrite")
        elif change == 4:
            table.optimize.compact()
        elif change == 5 and table.version():
            table.restore(chance.randrange(table.version()))
            schema = pa.schema([*SCHEMA, *([EXTRA] if len(DeltaTable(folder).schema().fields) > len(SCHEMA) else [])])
        else:
            write_deltalake(folder, rows(chance, chance.randint(1, 9), schema), mode="append")
        check(folder, DeltaTable(folder).to_pyarrow_table())
    version = chance.randrange(DeltaTable(folder).version() + 1)
    earlier = DeltaTable(folder, version=version)
    check(jn.Files(folder, version=version), earlier.to_pyarrow_table())
    check(earlier, earlier.to_pyarrow_table())


def with_deleted_rows(folder: Path, deleted: dict[int, list[int]]) -> None:
    """Mark rows of some files of a new Delta table as deleted by deletion vectors, which deltalake does not write."""
    log = folder / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    files = iter(range(len(actions)))
    for action in actions:
        if "protocol" in action:
            features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "add" in action and (rows := deleted.get(next(files))):
            # A magic number, the number of bitmaps, the upper half of their values, and a bitmap.
            content = struct.pack("<iqi", 1681511377, 1, 0) + BitMap(rows).serialize()
            text = base64.b85encode(content + bytes(-len(content) % 4)).translate(bytes.maketrans(B85, Z85)).decode()
            vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": len(rows)}
            action["add"]["deletionVector"] = vector
    log.write_text("\n".join(map(json.dumps, actions)) + "\n")


def test_rows_that_deletion_vectors_mark_are_excluded(tmp_path: Path) -> None:
    table = rows(random.Random(5), 3_000)
    by_place = [table.filter(pc.equal(table["place"], place).fill_null(False)) for place in ("a", "b/ c=%", "Zürich")]
    properties = WriterProperties(max_row_group_size=300)
    write_deltalake(str(tmp_path), pa.concat_tables(by_place), partition_by=["place"], writer_properties=properties)
    log = (tmp_path / "_delta_log" / "00000000000000000000.json").read_text()
    added = [action["add"] for action in map(json.loads, log.splitlines()) if "add" in action]
    stored = [pq.ParquetFile(tmp_path / unquote(each["path"])).read() for each in added]
    assert len(stored) == 3
    assert pq.ParquetFile(tmp_path / unquote(added[1]["path"])).num_row_groups > 1
    some = random.Random(6).sample(range(stored[1].num_rows), stored[1].num_rows // 2)
    deleted = {1: sorted(some), 2: list(range(stored[2].num_rows))}
    with_deleted_rows(tmp_path, deleted)
    live = []
    for number, (each, table) in enumerate(zip(added, stored, strict=True)):
        kept = sorted(set(range(table.num_rows)) - set(deleted.get(number, ())))
        places = pa.array([each["partitionValues"]["place"]] * len(kept), pa.string())
        live.append(table.take(pa.array(kept, pa.int64())).append_column("place", places).select(SCHEMA.names))
    check(str(tmp_path), pa.concat_tables(live).cast(SCHEMA))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    made.create_namespace("shop")
    return made


@pytest.mark.parametrize("seed", seeds(3, 50))
def test_iceberg_tables_have_the_rows_of_their_snapshot(seed: int, catalog: Catalog) -> None:
    chance, schema = random.Random(seed), SCHEMA
    table = catalog.create_table("shop.sales", schema=schema)
    for name, transform in chance.choice([(), (("day", IdentityTransform()),), (("place", IdentityTransform()),)]):
        with table.update_spec() as spec:
            spec.add_field(name, transform, f"{name}_part")
    table.append(rows(chance, chance.randint(1, 20)))
    for _ in range(9):
        change = chance.randrange(5)
        if change == 0:
            table.delete(f"id = {chance.randrange(14)}")
        elif change == 1 and "extra" not in schema.names:
            schema = schema.append(EXTRA)
            with table.update_schema() as columns:
                columns.add_column("extra", StringType())
        elif change == 2 and schema.field("id").type == pa.int32():
            schema = schema.set(0, pa.field("id", pa.int64()))
            with table.update_schema() as columns:
                columns.update_column("id", LongType())
        elif change == 3:
            table.overwrite(rows(chance, 6, schema))
        else:
            table.append(rows(chance, chance.randint(1, 9), schema))
        check(table, table.scan().to_arrow())
    check(table.location(), table.scan().to_arrow())
    snapshot = chance.choice(table.snapshots()).snapshot_id
    check(jn.Files(table.location(), version=snapshot), table.scan(snapshot_id=snapshot).to_arrow())


def test_renamed_columns_of_iceberg_tables_are_refused(catalog: Catalog) -> None:
    table = catalog.create_table("shop.sales", schema=SCHEMA)
    table.append(rows(random.Random(0), 5))
    with table.update_schema() as columns:
        columns.rename_column("value", "amount")
    with pytest.raises(DataError, match=r"column 'amount' is stored as 'value' in .*Compact or rewrite"):
        jn.join(SPINE, table, on="id")
    with table.update_schema() as columns:
        columns.delete_column("amount")
    with table.update_schema() as columns:
        columns.add_column("value", StringType())
    with pytest.raises(DataError, match=r"has another column of the name 'value'"):
        jn.join(SPINE, table, on="id")


def test_values_that_only_the_log_of_an_iceberg_table_has_are_refused(catalog: Catalog) -> None:
    table = catalog.create_table("shop.sales", schema=SCHEMA)
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day_part")
    table.append(rows(random.Random(0), 5))
    file = next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://")
    # As in folders that were imported from Hive.
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["day"]), file)
    with pytest.raises(DataError, match=r"lacks the column 'day', whose value the log has"):
        jn.join(SPINE, table, on="id")


def delta_table(folder: Path) -> str:
    write_deltalake(str(folder), rows(random.Random(1), 9), partition_by=["day"])
    return str(folder)


def test_a_version_that_does_not_exist_is_refused(tmp_path: Path, catalog: Catalog) -> None:
    folder = delta_table(tmp_path / "sales")
    with pytest.raises(DataError, match=r"version=7 of the table '.*sales' cannot be read"):
        jn.join(SPINE, jn.Files(folder, version=7), on="id")
    table = catalog.create_table("shop.sales", schema=SCHEMA)
    with pytest.raises(DataError, match=r"version=7 of the table .* cannot be read: it has no such snapshot"):
        jn.join(SPINE, jn.Files(table.location(), version=7), on="id")
    plain = tmp_path / "plain.parquet"
    pq.write_table(rows(random.Random(1), 3), plain)
    with pytest.raises(SpecError, match=r"version=7 applies to one Delta or Iceberg table"):
        jn.join(SPINE, jn.Files(plain, version=7), on="id")


@pytest.mark.parametrize("path", ["{0}/day=2026-01-01", "{0}/*", "{0}/*/*.parquet"])
def test_files_within_a_table_are_refused(path: str, tmp_path: Path) -> None:
    folder = delta_table(tmp_path / "sales")
    with pytest.raises(DataError, match=r"is a Delta table, .* Pass '.*sales' as the only path of a table"):
        jn.join(SPINE, path.format(folder), on="id")


def test_a_table_without_rows_joins(tmp_path: Path, catalog: Catalog) -> None:
    folder = delta_table(tmp_path / "sales")
    DeltaTable(folder).delete()
    check(folder, DeltaTable(folder).to_pyarrow_table())
    table = catalog.create_table("shop.sales", schema=SCHEMA)
    check(table, table.scan().to_arrow())


def test_a_file_that_was_vacuumed_is_named(tmp_path: Path) -> None:
    folder = delta_table(tmp_path / "sales")
    DeltaTable(folder).delete()
    DeltaTable(folder).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(DataError, match=r"which the log of its table lists, does not exist"):
        jn.join(SPINE, jn.Files(folder, version=0), on="id")


def test_the_command_line_and_pipelines_read_tables(tmp_path: Path, catalog: Catalog) -> None:
    folder = delta_table(tmp_path / "sales")
    DeltaTable(folder).delete("id < 7")
    pq.write_table(SPINE, tmp_path / "spine.parquet")
    arguments = ["join", "equi", str(tmp_path / "spine.parquet"), folder, "--on", "id", "--how", "full"]
    target = tmp_path / "joined.parquet"
    done = CliRunner().invoke(app, [*arguments, "--output", str(target)])
    assert done.exit_code == 0, done.stderr
    expected = jn.join(SPINE, DeltaTable(folder).to_pyarrow_table(), on="id", how="full")
    assert not difference(pq.read_table(target), expected, ordered=False)
    table = catalog.create_table("shop.sales", schema=SCHEMA)
    table.append(rows(random.Random(3), 8))
    (tmp_path / "juncture.toml").write_text(
        f"""
        [sources.spine]
        path = "spine.parquet"
        [sources.sales]
        path = "sales"
        version = 0
        [sources.places]
        path = "{Path(table.location().removeprefix("file://")).relative_to(tmp_path)}"
        [steps.joined]
        join = "equi"
        left = "spine"
        right = "sales"
        on = "id"
        how = "full"
        """
    )
    pipeline = jn.Pipeline.from_toml(tmp_path / "juncture.toml")
    earlier = DeltaTable(folder, version=0).to_pyarrow_table()
    wanted = jn.join(SPINE, earlier, on="id", how="full")
    assert not difference(pipeline.step("joined"), wanted, ordered=False)
    assert not difference(
        pipeline.step("places"), table.scan().to_arrow().cast(pipeline.step("places").schema), ordered=False
    )
