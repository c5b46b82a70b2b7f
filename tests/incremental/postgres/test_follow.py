"""Tables of PostgreSQL, followed to a table of PostgreSQL: the answer there is the query's."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, SpecError, StateError
from support.shop import (
    EXPECTED,
    SPEC,
    TABLES,
    answer,
    catch_up,
    change_shop,
    filled_shop,
    following,
    into_answer,
    source_of,
)


def test_an_answer_follows_its_tables(database):
    filled_shop(database)
    said = []
    with following(database, on_epoch=said.append) as follower:
        follower.start()
        assert answer(database) == database.rows(EXPECTED)
        assert (said[0].epoch, said[0].rows_in, said[0].transactions) == (1, 220, 0)
        for seed in range(5):
            change_shop(database, seed, transactions=3)
            catch_up(follower, database)
    assert sum(each.transactions for each in said) == 15
    assert [each.epoch for each in said] == list(range(1, len(said) + 1))


def test_epochs_are_whole_transactions(database):
    filled_shop(database)
    with following(database, lambda *_: None, epoch_rows=3) as follower:
        follower.start()
        with database.connection.transaction():
            database.run(*(f"INSERT INTO sales VALUES ({1000 + i}, 1, 1, '')" for i in range(10)))
        database.run("DELETE FROM sales WHERE id = 1", "DELETE FROM sales WHERE id = 2")
        epochs = [follower.step(10)]
        while sum(each.transactions for each in epochs) < 3:
            epochs.append(follower.step(10))
        assert follower.step(0.1) is None
    assert (epochs[0].transactions, epochs[0].rows_in) == (1, 10)
    assert sum(each.rows_in for each in epochs) == 12


def test_what_changes_while_the_tables_are_read_is_taken_once(database):
    filled_shop(database)
    done = threading.Event()

    def change(table: str, rows: int) -> None:
        if not done.is_set():
            done.set()
            change_shop(database, seed=7, transactions=5)

    with following(database, on_read=change) as follower:
        follower.start()
        assert done.is_set()
        assert answer(database) != database.rows(EXPECTED)
        catch_up(follower, database)


def test_a_state_goes_on_where_it_was_left(database, tmp_path):
    filled_shop(database)
    said = []
    for seed in range(3):
        with following(database, folder=tmp_path / "state", on_epoch=said.append) as follower:
            follower.start()
            catch_up(follower, database)
        change_shop(database, seed, transactions=2)
    assert [each.epoch for each in said] == list(range(1, len(said) + 1))
    assert sum(each.transactions for each in said) == 4


def test_stop_from_another_thread(database):
    filled_shop(database)
    with following(database, lambda *_: None) as follower:
        threading.Timer(0.2, follower.stop).start()
        began_s = time.monotonic()
        follower.run()
        assert time.monotonic() - began_s < 10
        follower.run(seconds=0.05)


def test_a_table_is_truncated(database):
    filled_shop(database)
    with following(database) as follower:
        follower.start()
        with database.connection.transaction():
            database.run("INSERT INTO sales VALUES (1000, 1, 1, '')", "TRUNCATE sales")
            database.run("INSERT INTO sales VALUES (1001, 1, 1, '')")
        catch_up(follower, database)
        assert answer(database) == [(1, "c1", 1001, 1, "")]
        database.run("TRUNCATE customers, sales")
        catch_up(follower, database)


def test_a_function_takes_the_changes(database):
    filled_shop(database, customers=2, sales=3)
    given = []
    with following(database, lambda *each: given.append(each)) as follower:
        follower.start()
        database.run("DELETE FROM sales WHERE id = 1")
        follower.step(5)
    assert [epoch for epoch, _ in given] == [1, 2]
    rows = [row for batch in given[1][1] for row in batch.to_pylist()]
    assert [(row["name"], row["id_right"], row["_weight"]) for row in rows] == [("c1", 1, -1)]


def test_a_target_of_another_state(database, tmp_path):
    filled_shop(database)

    def follow(name: str, **options: object) -> None:
        with following(database, into_answer(database, **options), tmp_path / name, slot=name) as follower:
            follower.start()
            catch_up(follower, database)

    follow("one")
    with pytest.raises(StateError, match=r"public\.answer holds rows that are not of this state"):
        follow("two")
    change_shop(database, 1, transactions=2)
    follow("two", replace=True)
    with pytest.raises(StateError, match="not of this state"):
        follow("one")


def test_a_target_that_something_else_changes(database):
    filled_shop(database)
    with following(database) as follower:
        follower.start()
        database.run("DELETE FROM answer WHERE id_right = 5", "DELETE FROM sales WHERE id = 5")
        with pytest.raises(StateError, match="lacks rows that were written to it"):
            follower.step(5)


def test_a_key_that_is_none(database):
    filled_shop(database)
    sink = jn.into_postgres(database.dsn, "answer", key="id")
    problem = r"key=\['id'\] does not tell the rows .* apart: Key \(id\)=\(\d+\)"
    with following(database, sink) as follower, pytest.raises(DataError, match=problem):
        follower.start()
    assert database.rows("SELECT count(*) FROM answer") == [(0,)]


def test_arguments(database):
    filled_shop(database)
    with source_of(database) as source:
        join = jn.changes(*source.tables.values(), SPEC)
        with pytest.raises(SpecError, match=r"tables= names 'sale'.*Did you mean 'sales'"):
            jn.follow(join, source, print, tables={"left": "customers", "right": "sale"})
        with pytest.raises(SpecError, match="takes no changes"):
            jn.follow(join, source, "answer", tables=TABLES)
        with pytest.raises(SpecError, match="epoch_rows=0"):
            jn.follow(join, source, print, tables=TABLES, epoch_rows=0)
        with pytest.raises(SpecError, match="key= names 'nope'"):
            jn.follow(join, source, jn.into_postgres(database.dsn, "answer", key="nope"), tables=TABLES).start()
    said = jn.changes(pa.schema({"id": pa.int64()}), pa.schema({"id": pa.int64()}), jn.Equi(on="id"), output="debezium")
    with source_of(database) as source, pytest.raises(SpecError, match="output='weight'"):
        jn.follow(said, source, print, tables=TABLES)


def test_a_view_of_three_tables_follows_them(database, tmp_path):
    filled_shop(database)
    database.run(
        "CREATE TABLE regions (customer int PRIMARY KEY, region text)",
        "ALTER TABLE regions REPLICA IDENTITY FULL",
        "INSERT INTO regions SELECT i, 'r' || i % 3 FROM generate_series(1, 20) i",
    )
    query = (
        "SELECT region, count(*) AS sales, sum(price) AS total FROM sales JOIN customers ON buyer_id = customers.id "
        "JOIN regions ON customer = customers.id GROUP BY region"
    )
    for seed in range(2):
        source = jn.postgres(database.dsn, ["sales", "customers", "regions"])
        sink = jn.into_postgres(database.dsn, "totals", key="region")
        with (
            jn.view(tmp_path / "state", query, sources=source.tables) as view,
            jn.follow(view, source, sink) as follower,
        ):
            follower.start()
            change_shop(database, seed, transactions=3)
            database.run("UPDATE regions SET region = 'r9' WHERE customer < 4")
            database.run("DELETE FROM regions WHERE customer = 9")
            until = time.monotonic() + 20
            expected = database.rows(f"{query} ORDER BY region")
            while database.rows("SELECT * FROM totals ORDER BY region") != expected:
                follower.step(0.1)
                assert time.monotonic() < until
            with database.connection.transaction():
                database.run("TRUNCATE sales", "INSERT INTO sales VALUES (1, 1, 2.5, NULL)")
            while database.rows("SELECT * FROM totals") != [("r9", 1, 2.5)]:
                follower.step(0.1)
                assert time.monotonic() < until


def test_a_connection_that_is_lost(database, tmp_path):
    filled_shop(database)
    lost = "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = 'juncture'"
    with following(database, folder=tmp_path / "state") as follower:
        follower.start()
        change_shop(database, 1, transactions=2)
        database.run(lost)
        with pytest.raises(StateError, match="connection to PostgreSQL was lost"):
            follower.run(seconds=20)
    with following(database, folder=tmp_path / "state") as follower:
        follower.start()
        catch_up(follower, database)
