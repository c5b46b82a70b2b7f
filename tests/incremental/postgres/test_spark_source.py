"""PostgreSQL as a source of Spark: after each micro-batch, what was read adds up to the table as it was there."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import SpecError, StateError
from juncture.hosting.postgres import PostgresStream
from support.shop import Database
from support.streaming import run


@pytest.fixture
def table(database: Database) -> Database:
    database.run("CREATE TABLE t (id int, name text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    database.run("INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 200) n")
    return database


def reader_of(database: Database, **more: str) -> PostgresStream:
    return PostgresStream({"dsn": database.dsn, "table": "t", "slot": "s", **more})


def now(database: Database) -> Counter[tuple[int, str]]:
    return Counter(database.connection.execute("SELECT id, name FROM t").fetchall())


def change(database: Database, chance: random.Random) -> None:
    """Change the table in some transactions."""
    for _ in range(chance.randint(1, 3)):
        low = chance.randint(0, 200)
        with database.connection.transaction():
            database.run(
                f"DELETE FROM t WHERE id BETWEEN {low} AND {low + 5}",
                f"UPDATE t SET name = name || '{chance.randint(0, 9)}' WHERE id BETWEEN {low + 6} AND {low + 9}",
                f"INSERT INTO t SELECT n, 'new' FROM generate_series({low}, {low + 7}) n",
            )


def read(reader: PostgresStream, start: dict, end: dict, between=lambda: None) -> Counter[tuple[int, str]]:
    """Return what a micro-batch reads, by tasks that get the reader as Spark sends it."""
    found: Counter[tuple[int, str]] = Counter()
    parts = reader.partitions(start, end)
    between()
    for part in parts:
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))):
            for cells in batch.to_pylist():
                found[cells["id"], cells["name"]] += cells["_weight"]
    return found


def test_each_micro_batch(table):
    chance = random.Random(1)
    reader = reader_of(table, partitions="3")
    start = reader.initialOffset()
    held: Counter[tuple[int, str]] = Counter()
    for step in range(5):
        change(table, chance)
        end, wanted = reader.latestOffset(), now(table)
        for _ in range(chance.randint(1, 2)):
            # Read again by another process, since the one before was killed, while the table changes.
            reader.stop()
            reader = reader_of(table, partitions="3")
            got = read(reader, start, end, lambda: change(table, chance))
            after = Counter(held)
            for row, weight in got.items():
                after[row] += weight
            assert {row: count for row, count in after.items() if count} == dict(wanted), step
        held, start = after, end
        if chance.random() < 0.7:
            reader.commit(end)
    reader.stop()


def test_a_slot_that_has_gone_on(table):
    reader = reader_of(table)
    start = reader.initialOffset()
    change(table, random.Random(2))
    end = reader.latestOffset()
    reader.commit(end)
    with pytest.raises(StateError, match=r"'.*' is at .*, but the state is at"):
        reader.partitions({**start, "is_first": False}, end)
    with pytest.raises(SpecError, match="has no option 'tables'"):
        reader_of(table, tables="t").initialOffset()


def test_the_snapshot_has_partitions(table):
    reader = reader_of(table, partitions="3")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset())
    assert len(parts) == 4
    sizes = [sum(batch.num_rows for batch in reader.read(part)) for part in parts]
    assert (sum(sizes), sizes[-1]) == (200, 0)
    assert max(sizes[:-1]) < 120
    [batch, *_] = reader.read(parts[0])
    assert batch.schema.types == [pa.int32(), pa.string(), pa.int64()]
    reader.stop()


@pytest.mark.in_turn
def test_in_spark(spark, table, tmp_path):
    jn.register_postgres(spark)
    options = {"dsn": table.dsn, "table": "t", "slot": "s"}
    for step in range(2):
        stream = spark.readStream.format("juncture.postgres").options(**options).load()
        assert stream.columns == ["id", "name", "_weight"]
        answer = run(stream, tmp_path).answer
        found: Counter[tuple[int, str]] = Counter()
        for cells in answer.to_pylist():
            found[cells["id"], cells["name"]] += cells["_weight"]
        assert {row: count for row, count in found.items() if count} == dict(now(table))
        change(table, random.Random(step))
