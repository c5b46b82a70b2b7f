"""Tables of PostgreSQL, followed to a table of PostgreSQL: the answer there is the query's."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, SpecError, StateError
from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
from juncture.incremental.state.policy import MemoryPolicy
from juncture.local.resources import resources_here
from support.faults import Failing, Faults, counted, summed
from support.shop import (
    EXPECTED,
    SPEC,
    TABLES,
    Database,
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
        assert (said[0].epoch, said[0].input_rows, said[0].transactions) == (1, 220, 0)
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
    assert (epochs[0].transactions, epochs[0].input_rows) == (1, 10)
    assert sum(each.input_rows for each in epochs) == 12


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
        follower.run(timeout_s=0.05)


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
    with pytest.raises(StateError, match=r"public\.answer has rows of another state"):
        follow("two")
    change_shop(database, 1, transactions=2)
    follow("two", replace=True)
    with pytest.raises(StateError, match="of another state"):
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
    problem = r"key=\['id'\] does not identify the rows .*: Key \(id\)=\(\d+\)"
    with following(database, sink) as follower, pytest.raises(DataError, match=problem):
        follower.start()
    assert database.rows("SELECT count(*) FROM answer") == [(0,)]


def test_arguments(database):
    filled_shop(database)
    with source_of(database) as source:
        join = jn.changes(*source.tables.values(), SPEC)
        with pytest.raises(SpecError, match=r"tables= has 'sale'.*Did you mean 'sales'"):
            jn.follow(join, source, print, tables={"left": "customers", "right": "sale"})
        with pytest.raises(SpecError, match="is not a sink"):
            jn.follow(join, source, "answer", tables=TABLES)
        with pytest.raises(SpecError, match="epoch_rows=0"):
            jn.follow(join, source, print, tables=TABLES, epoch_rows=0)
        with pytest.raises(SpecError, match="key= has 'nope'"):
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


LOST = {
    "of the log": "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
    "WHERE slot_name = 'juncture'",
    "of all kinds": "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE application_name = 'juncture' AND datname = current_database()",
}


@pytest.mark.parametrize("what", LOST)
def test_a_connection_that_is_lost(database, what):
    filled_shop(database)
    with following(database) as follower:
        follower.start()
        for seed in range(2):
            change_shop(database, seed, transactions=2)
            database.run(LOST[what])
            with pytest.raises(StateError, match="connection to PostgreSQL was lost"):
                follower.run(timeout_s=20)
            if what == "of all kinds":
                # Each of the connections of source and sink is noticed by the first call that uses it.
                with suppress(StateError):
                    follower.step(0)
            catch_up(follower, database)


class Shop:
    """The shop, followed through faults to a sink of some kind.

    Attributes
    ----------
    name
        What its slot, its folder and its table are called.
    given
        What a function has been given, by epoch.
    """

    def __init__(self, database: Database, folder: Path, name: str, sink: str, has_folder: bool) -> None:
        self.database, self.folder, self.name, self.sink = database, folder / name, name, sink
        self.faults = Faults()
        self.given: dict[int, Counter[tuple[Any, ...]]] = {}
        self.has_folder = has_folder
        self.follower: Any = None
        self._stack = ExitStack()

    def open(self) -> None:
        source = self._stack.enter_context(source_of(self.database, slot=self.name))
        setup = ChangeSetup(SPEC, source.tables["customers"], source.tables["sales"])
        made = store_in(self.folder / "state", setup, MemoryPolicy.of(1 << 26))
        store = (lambda schemas: Failing("store", made(schemas), self.faults)) if self.has_folder else None
        join = self._stack.enter_context(ChangeJoin(setup, resources_here(None), store))
        sinks = {
            "table": lambda: Failing("sink", jn.into_postgres(self.database.dsn, self.name, "id_right"), self.faults),
            "files": lambda: Failing("sink", jn.into_files(self.folder / "out"), self.faults),
            "function": lambda: self.faults.stage("sink.write", self.take),
        }
        follower = jn.follow(
            Failing("kept", join, self.faults),
            Failing("source", source, self.faults),
            sinks[self.sink](),
            tables=TABLES,
            on_epoch=self.faults.stage("on_epoch", lambda *_: None),
            on_read=self.faults.stage("on_read", lambda *_: None),
        )
        self.follower = self._stack.enter_context(follower)

    def close(self) -> None:
        self._stack.close()
        self.follower = None

    def take(self, epoch: int, changes: list[pa.RecordBatch]) -> None:
        """Take an epoch; the last one may come again, with the same number."""
        rows = counted(changes)
        assert self.given.get(epoch, rows) == rows
        self.given[epoch] = rows

    def written(self) -> Counter[tuple[Any, ...]]:
        if self.sink == "table":
            is_there = self.database.rows(f"SELECT to_regclass('{self.name}') IS NOT NULL") == [(True,)]
            return Counter(answer(self.database, self.name)) if is_there else Counter()
        paths = sorted((self.folder / "out").glob("*.parquet"))
        epochs = [counted(pq.read_table(path).to_batches()) for path in paths] or list(self.given.values())
        return summed(epochs)

    def fail(self, plan: list[tuple[str, str]]) -> list[str]:
        """Follow through all faults of a plan until the sink has the answer; return the stages."""
        self.faults.plan, self.faults.reached = list(plan), []
        expected = Counter(self.database.rows(EXPECTED))
        until = time.monotonic() + 20
        while self.faults.plan or self.written() != expected:
            assert time.monotonic() < until, (plan, self.faults.plan)
            try:
                if self.follower is None:
                    self.open()
                self.follower.step(0.05)
            except (StateError, KeyboardInterrupt) as error:
                if "on purpose" not in str(error):
                    assert "incomplete in memory" in str(error)
                    assert plan == [("store.commit", "after")]
                    self.close()
        return list(dict.fromkeys(self.faults.reached))


@pytest.mark.parametrize("has_folder", [False, True])
@pytest.mark.parametrize("sink", ["table", "files", "function"])
def test_retries_in_place_at_every_stage(database, tmp_path, sink, has_folder):
    filled_shop(database, sales=20)
    with closing(Shop(database, tmp_path, "plain", sink, has_folder)) as shop:
        first = shop.fail([])
        change_shop(database, 0, transactions=1)
        each = shop.fail([])
    # Those of the store are held to more in test_retries.
    first = [stage for stage in first if stage not in each and not stage.startswith("store.")]
    each = [stage for stage in each if not stage.startswith("store.") or stage == "store.commit"]
    assert {"source.snapshot", "on_read", "kept.populate"} <= set(first)
    assert {"source.next", "kept.apply", "sink.write", "source.acknowledge", "on_epoch"} <= set(each)
    assert has_folder == ("store.commit" in each)
    with closing(Shop(database, tmp_path, "failing", sink, has_folder)) as shop:
        shop.fail(list(product(first, ("before", "after"))))
        for seed, fault in enumerate(product(each, ("before", "after"))):
            change_shop(database, seed, transactions=2)
            shop.fail([fault])
        for stage in ("source.start", "kept.last", "kept.check_open"):
            change_shop(database, 0, transactions=2)
            shop.fail([("sink.write", "before"), (stage, "before"), (stage, "after")])
        database.run("TRUNCATE sales", "INSERT INTO sales VALUES (1, 1, 2, 'new')")
        shop.fail([("kept.table", "before"), ("kept.table", "after")])
