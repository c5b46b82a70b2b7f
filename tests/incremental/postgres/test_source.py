"""What PostgreSQL tells: values exactly, old rows, changed tables, slots; and what is said where it cannot be had."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import juncture as jn
from juncture.datasets.postgres_server import temporary_postgres
from juncture.errors import DataError, PlanError, SchemaError, SpecError, StateError
from juncture.incremental.postgres.connection import lsn_number
from juncture.incremental.postgres.values import read_array
from juncture.incremental.sources import postgres as module
from support.shop import EXPECTED, Database, answer, catch_up, change_shop, filled_shop, following, source_of

VALUES = {
    "bool": (pa.bool_(), ["true", "false"]),
    "int2": (pa.int16(), ["-32768", "32767"]),
    "int4": (pa.int32(), ["-2147483648", "7"]),
    "int8": (pa.int64(), ["-9223372036854775808", "9223372036854775807"]),
    "oid": (pa.uint32(), ["4294967295"]),
    "real": (pa.float32(), ["1.1", "NaN", "-Infinity", "-0"]),
    "float8": (pa.float64(), ["0.1", "1e-320", "1.7976931348623157e308", "NaN", "Infinity"]),
    "numeric(10, 2)": (pa.decimal128(10, 2), ["12345678.91", "-0.01"]),
    "numeric(5, -2)": (pa.decimal128(7, 0), ["1234567", "-149"]),
    "numeric(2, 4)": (pa.decimal128(4, 4), ["0.0099"]),
    "numeric(60, 20)": (pa.decimal256(60, 20), ["1234567890123456789012345678901234567890.12345678901234567891"]),
    "numeric(100, 2)": (pa.string(), ["1" * 98 + ".25"]),
    "numeric": (pa.string(), ["1.10", "NaN", "Infinity", "1" * 50 + "." + "2" * 50]),
    "text": (pa.string(), ["", "NULL", "\\N", 'a"b,c\n\r\t\\', "ü€😀", " x "]),
    "varchar(5)": (pa.string(), ["ab"]),
    "char(4)": (pa.string(), ["ab"]),
    "bytea": (pa.binary(), ["\\x", "\\x00ff22"]),
    "date": (pa.date32(), ["2026-11-22", "0044-03-15 BC", "12026-02-28", "0001-01-01"]),
    "time": (pa.time64("us"), ["00:00:00", "23:59:59.999999"]),
    "timestamp": (pa.timestamp("us"), ["2026-11-22 12:00:00.000001", "1969-12-31 23:59:59.5", "20000-01-01 00:00:00"]),
    "timestamptz": (pa.timestamp("us", "UTC"), ["2026-11-22 12:00:00.5+02", "1883-11-18 12:00:00+00"]),
    "timetz": (pa.string(), ["12:00:00+02"]),
    "interval": (pa.string(), ["1 month 2 days", "-3 hours"]),
    "uuid": (pa.string(), ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "json": (pa.string(), ['{"b": 1,  "a": [1.10]}']),
    "jsonb": (pa.string(), ['{"b": 1,  "a": [1.10]}']),
    "inet": (pa.string(), ["10.0.0.1/8"]),
    "int4[]": (pa.list_(pa.int32()), ["{1,NULL,-3}", "{}"]),
    "text[]": (pa.list_(pa.string()), ['{a,"b,\\"\\\\",NULL,"NULL","",ü}']),
    "numeric(6, 2)[]": (pa.list_(pa.decimal128(6, 2)), ["{1.5,-2.25}"]),
    "timestamptz[]": (pa.list_(pa.timestamp("us", "UTC")), ['{"2026-11-22 12:00:00+01"}']),
    "mood": (pa.string(), ["sad", "happy"]),
    "cents": (pa.decimal128(8, 2), ["1.25"]),
}


def literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def filled_with_values(database: Database, table: str) -> None:
    """Insert each value into a row of its own; the columns are c0, c1 and so on."""
    with database.connection.transaction(), database.connection.pipeline():
        for column, (_, values) in enumerate(VALUES.values()):
            for value in values:
                database.run(f"INSERT INTO {table} (c{column}) VALUES ({literal(value)})")


@pytest.fixture
def values(database: Database) -> Database:
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(VALUES))
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN cents AS numeric(8, 2) CHECK (VALUE > 0)",
        f"CREATE TABLE v (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {columns})",
        "ALTER TABLE v REPLICA IDENTITY FULL",
    )
    return database


def test_values_come_exactly_in_the_snapshot_and_in_the_log(values):
    filled_with_values(values, "v")
    with jn.postgres(values.dsn, ["v"]) as source:
        types = {name: field for name, (field, _) in zip(source.tables["v"].names[1:], VALUES.values(), strict=True)}
        assert {field.name: field.type for field in source.tables["v"]} == {"id": pa.int64(), **types}
        snapshot = source.snapshot(lambda *_: None)
        before = snapshot.tables["v"]
        source.start(snapshot.offset)
        filled_with_values(values, "v")
        after = pa.Table.from_batches(source.next(1, 10).changes["v"]).drop_columns("_weight")
    assert before.num_rows == after.num_rows == sum(len(each) for _, each in VALUES.values())
    values.run("SET intervalstyle = iso_8601")
    for column, (name, (data_type, _)) in enumerate(VALUES.items()):
        one, other = (table[f"c{column}"].combine_chunks() for table in (before, after))
        assert str(one.to_pylist()) == str(other.to_pylist()) if pa.types.is_floating(data_type) else one.equals(other)
        # Of what comes as text, PostgreSQL says itself what it is; as text, char(4) loses its blanks.
        if data_type == pa.string() and name != "char(4)":
            query = f"SELECT c{column}::text FROM v WHERE id <= {len(one)} ORDER BY id"
            assert one.to_pylist() == [value for (value,) in values.rows(query)], name
    found = {name: [each for each in before[name].to_pylist() if each is not None] for name in ("c7", "c15", "c20")}
    assert found == {
        "c7": [Decimal("12345678.91"), Decimal("-0.01")],
        "c15": ["ab  "],
        "c20": [datetime(2026, 11, 22, 10, 0, 0, 500_000, UTC), datetime(1883, 11, 18, 12, tzinfo=UTC)],
    }
    days = [each for each in before["c17"].cast(pa.int32()).to_pylist() if each is not None]
    there = values.rows("SELECT c17 - date '1970-01-01' FROM v WHERE c17 IS NOT NULL ORDER BY id")
    assert days * 2 == [each for (each,) in there]


def test_values_come_back(values):
    filled_with_values(values, "v")
    schema_of_one = pa.schema({"id": pa.int64()})
    one = pa.table({"id": pa.array(range(1, 200), pa.int64())})
    with jn.postgres(values.dsn, ["v"]) as source:
        table = source.snapshot(lambda *_: None).tables["v"]
    with jn.changes(table.schema, schema_of_one, jn.Equi(on="id", how="semi")) as join:
        sink = jn.into_postgres(values.dsn, "copy", key="id")
        sink.open(join.schema, "state")
        # Days that Python has no dates for are not read back by PostgreSQL from Arrow's text.
        kept = table.filter(pc.and_(pc.is_null(table["c17"]), pc.is_null(table["c19"])))
        sink.write(1, join.populate(left=kept, right=one))
        sink.close()
    for column, name in enumerate(VALUES):
        if name not in ("date", "timestamp"):
            query = f"SELECT id, c{column}::{name} FROM {{}} WHERE c{column} IS NOT NULL ORDER BY id"
            assert str(values.rows(query.format("copy"))) == str(values.rows(query.format("v"))), name


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("numeric(5, 2)", "NaN", "NaN"),
        ("timestamp", "infinity", "infinity"),
        ("int4[]", "{{1,2},{3,4}}", "{{1,2},{3,4}}"),
        ("time", "24:00:00", "24:00:00"),
    ],
)
def test_values_that_have_no_place(database, name, value, shown):
    database.run(f"CREATE TABLE v (c {name})", f"INSERT INTO v VALUES ('{value}')")
    said = r"'c' of public\.v has the value .*Pass types=\{'v\.c': pa\.string\(\)\}"
    with jn.postgres(database.dsn, ["v"], append_only=["v"]) as source, pytest.raises(DataError, match=said) as error:
        source.snapshot(lambda *_: None)
    assert shown in str(error.value)
    with jn.postgres(database.dsn, ["v"], append_only=["v"], types={"v.c": pa.string()}) as source:
        assert source.snapshot(lambda *_: None).tables["v"].to_pylist() == [{"c": shown}]


def test_arrays_of_several_dimensions_are_refused():
    with pytest.raises(ValueError, match="1,2"):
        read_array("{{1,2},{3,4}}")


def test_large_values_that_an_update_leaves_as_they_are(database):
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, large text)",
        "ALTER TABLE t REPLICA IDENTITY FULL, ALTER large SET STORAGE EXTERNAL",
        "INSERT INTO t VALUES (1, 1, repeat('abc', 10000))",
    )
    with jn.postgres(database.dsn, ["t"]) as source:
        source.start(source.snapshot(lambda *_: None).offset)
        database.run("UPDATE t SET n = 2", "UPDATE t SET n = n")
        (batch,) = source.next(1, 10).changes["t"]
    rows = [(row["n"], len(row["large"]), row["_weight"]) for row in batch.to_pylist()]
    assert rows == [(1, 30_000, -1), (2, 30_000, 1)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE sales ADD COLUMN more int", "column 'more' was added"),
        ("ALTER TABLE sales DROP COLUMN note", "column 'note' was dropped"),
        ("ALTER TABLE sales ALTER price TYPE numeric(12, 4)", "column 'price' has another type"),
    ],
)
def test_a_table_that_changes_its_columns(database, statement, said):
    filled_shop(database)
    with following(database) as follower:
        follower.start()
        database.run("DELETE FROM sales WHERE id = 1")
        before = database.rows(EXPECTED)
        database.run(statement, "DELETE FROM sales WHERE id = 2")
        # What came before is taken, and each further try stops at the same place.
        for _ in range(3):
            with pytest.raises(SchemaError, match=f"public.sales was altered: {said}"):
                follower.run(timeout_s=20)
            assert answer(database) == before


def test_a_value_without_a_place_is_not_skipped(database):
    database.run("CREATE TABLE v (c timestamp)", "ALTER TABLE v REPLICA IDENTITY FULL")
    with jn.postgres(database.dsn, ["v"]) as source:
        schema = source.tables["v"]
        view = jn.view(None, "SELECT c FROM v", sources={"v": schema})
        with jn.follow(view, source, lambda *_: None) as follower:
            follower.start()
            database.run("INSERT INTO v VALUES ('infinity')", "INSERT INTO v VALUES ('2026-01-01')")
            for _ in range(3):
                with pytest.raises(DataError, match=r"'c' of public\.v has the value 'infinity'"):
                    follower.step(10)
            assert view.epoch == 1


def test_a_source_that_is_closed(database):
    filled_shop(database)
    source = source_of(database)
    source.start(source.snapshot(lambda *_: None).offset)
    source.close()
    source.close()
    for call in (lambda: source.snapshot(lambda *_: None), lambda: source.start({}), lambda: source.next(1, 0)):
        with pytest.raises(PlanError, match=r"source is closed|not been started"):
            call()
    assert source.status().name == "juncture"
    source.drop()
    assert source.status() is None
    assert database.rows("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'juncture'") == [(0,)]


def test_old_rows_are_missing(database):
    filled_shop(database)
    database.run("ALTER TABLE sales REPLICA IDENTITY DEFAULT")
    with pytest.raises(PlanError, match=r"ALTER TABLE public\.sales REPLICA IDENTITY FULL.*append_only=\['sales'\]"):
        source_of(database)
    with source_of(database, append_only=["sales"]) as source:
        source.start(source.snapshot(lambda *_: None).offset)
        database.run("INSERT INTO sales VALUES (1000, 1, 1, '')")
        assert source.next(1, 10).rows == 1
        database.run("DELETE FROM sales WHERE id = 5")
        with pytest.raises(DataError, match=r"A delete of public\.sales arrived, although append_only="):
            source.next(1, 10)


def test_tables_that_are_not_there(database):
    filled_shop(database)
    database.run("CREATE VIEW shown AS SELECT * FROM sales")
    with pytest.raises(SchemaError, match=r"Table 'sale' does not exist in the database\. Did you mean 'sales'"):
        jn.postgres(database.dsn, ["sale"])
    with pytest.raises(SchemaError, match=r"public\.shown is not a table"):
        jn.postgres(database.dsn, ["shown"])
    with pytest.raises(SpecError, match=r"types= has 'sales\.prise'.*Did you mean 'sales\.price'"):
        source_of(database, types={"sales.prise": pa.string()})
    with pytest.raises(SpecError, match="append_only= has 'sale'"):
        source_of(database, append_only=["sale"])
    with pytest.raises(SpecError, match=r"tables=.* has no table names"):
        jn.postgres(database.dsn, [])
    with pytest.raises(SpecError, match="slot='A slot' is not a valid name"):
        source_of(database, slot="A slot")
    with pytest.raises(SpecError, match="dsn= is not a PostgreSQL connection string"):
        jn.postgres("nonsense", ["sales"])
    with pytest.raises(PlanError, match="cannot be reached"):
        jn.postgres(database.dsn.replace("dbname=", "dbname=not_there_"), ["sales"])


def test_users_who_may_not(database):
    filled_shop(database)
    database.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    dsn = database.dsn.replace("user=postgres", "user=reader")
    with pytest.raises(PlanError, match=r"'reader' has no REPLICATION privilege.*ALTER ROLE reader REPLICATION"):
        jn.postgres(dsn, ["sales"])
    database.run("ALTER ROLE reader REPLICATION")
    with pytest.raises(PlanError, match=r"may not read public\.sales\. Run GRANT SELECT"):
        jn.postgres(dsn, ["sales"])
    database.run("GRANT SELECT ON sales TO reader")
    with jn.postgres(dsn, ["sales"]) as source:
        with pytest.raises(PlanError, match="does not allow the user to create the publication 'juncture'"):
            source.snapshot(lambda *_: None)
        database.run("CREATE PUBLICATION juncture FOR TABLE customers")
        with pytest.raises(PlanError, match=r"ALTER PUBLICATION juncture ADD TABLE public\.sales"):
            source.snapshot(lambda *_: None)
        database.run("ALTER PUBLICATION juncture SET TABLE sales WHERE (id > 5)")
        with pytest.raises(PlanError, match="excludes rows or columns"):
            source.snapshot(lambda *_: None)
        database.run(
            "ALTER PUBLICATION juncture SET TABLE sales", "ALTER PUBLICATION juncture SET (publish = 'insert')"
        )
        with pytest.raises(PlanError, match="does not publish every kind of change"):
            source.snapshot(lambda *_: None)
        database.run("ALTER PUBLICATION juncture SET (publish = 'insert, update, delete, truncate')")
        assert source.snapshot(lambda *_: None).tables["sales"].num_rows == 200
        sink = jn.into_postgres(dsn, "answer", key="id")
        with pytest.raises(PlanError, match="does not allow the user to create the table 'answer'"):
            sink.open(pa.schema({"id": pa.int64(), "_weight": pa.int64()}), "state")
    database.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_server_that_does_not_log_changes():
    with temporary_postgres({"wal_level": "replica"}) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int)")
        with pytest.raises(PlanError, match=r"wal_level is 'replica'.*ALTER SYSTEM SET wal_level = 'logical'"):
            jn.postgres(dsn, ["t"])


def test_a_slot_in_use_and_one_that_is_there(database, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IN_USE_S", 0.2)
    filled_shop(database)
    with following(database, folder=tmp_path / "one") as follower:
        follower.start()
        said = "Slot 'juncture' exists already, but the state is empty"
        with following(database, print, tmp_path / "two") as other, pytest.raises(PlanError, match=said):
            other.start()
        with source_of(database) as source, pytest.raises(PlanError, match="'juncture' is in use: process"):
            source.start(source._offset(0))


def test_a_slot_that_has_gone_on_without_the_state(database, tmp_path):
    filled_shop(database)
    with source_of(database) as source:
        snapshot = source.snapshot(lambda *_: None)
        source.start(snapshot.offset)
        change_shop(database, 1, 1)
        source.acknowledge(source.next(1, 10).offset)
        until = time.monotonic() + 10
        while source.status().confirmed <= lsn_number(snapshot.offset["lsn"]):
            source.next(1, 0.05)
            assert time.monotonic() < until
        with pytest.raises(StateError, match=r"'juncture' is at .* older copy"):
            source.start(snapshot.offset)
        source.drop()
        with pytest.raises(StateError, match="'juncture' no longer exists"):
            source.start(snapshot.offset)
        with pytest.raises(StateError, match="populated from the server '7'"):
            source.start({**snapshot.offset, "system": "7"})
        with pytest.raises(StateError, match="is not one of PostgreSQL"):
            source.start({"file": 7})
        database.run("DROP TABLE sales", "CREATE TABLE sales (id int)", "ALTER TABLE sales REPLICA IDENTITY FULL")
    with source_of(database) as source, pytest.raises(StateError, match="dropped and created again"):
        source.start(snapshot.offset)


def test_a_slot_left_behind(database, monkeypatch, caplog):
    filled_shop(database)
    monkeypatch.setattr(module, "_KEPT_BYTES_MOST", 1000)
    with caplog.at_level(logging.INFO, "juncture"):
        with following(database) as follower:
            follower.start()
        assert "The slot 'juncture' stays, and the server keeps its log for it" in caplog.text
        change_shop(database, 1, 5)
        source_of(database).close()
        assert "of its log for the slot 'juncture', from which no process reads" in caplog.text


def test_changes_of_other_tables_let_the_server_forget(database, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_BYTES", 100_000)
    filled_shop(database)
    database.run("CREATE TABLE other (x text)")
    with following(database) as follower:
        follower.start()
        database.run("INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 5000)")
        progress = None
        until = time.monotonic() + 20
        while progress is None and time.monotonic() < until:
            progress = follower.step(0.2)
        assert (progress.transactions, progress.input_rows, progress.output_rows) == (0, 0, 0)
        change_shop(database, 1, 2)
        catch_up(follower, database)
        assert answer(database) == database.rows(EXPECTED)
