"""A shop in PostgreSQL whose sales are followed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import juncture as jn

__all__ = [
    "EXPECTED",
    "SPEC",
    "TABLES",
    "Database",
    "answer",
    "catch_up",
    "change_shop",
    "filled_shop",
    "following",
    "into_answer",
    "source_of",
]

TABLES = {"left": "customers", "right": "sales"}
SPEC = jn.Equi(left_on="id", right_on="buyer_id")
EXPECTED = "SELECT c.id, c.name, s.id, s.price, s.note FROM customers c JOIN sales s ON c.id = s.buyer_id ORDER BY s.id"


@dataclass(frozen=True)
class Database:
    """A database, and a connection to it."""

    dsn: str
    connection: psycopg.Connection[Any]

    def run(self, *statements: str) -> None:
        """Run statements, each a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives."""
        return self.connection.execute(query).fetchall()


def filled_shop(database: Database, customers: int = 20, sales: int = 200) -> None:
    """Make the tables of a shop. Some sales have no customer."""
    database.run(
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "CREATE TABLE sales (id int PRIMARY KEY, buyer_id int, price numeric(10, 2), note text)",
        "ALTER TABLE customers REPLICA IDENTITY FULL",
        "ALTER TABLE sales REPLICA IDENTITY FULL",
        f"INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, {customers}) i",
        f"INSERT INTO sales SELECT i, i % {customers + 3}, i * 1.25, 'n' || i FROM generate_series(1, {sales}) i",
    )


def change_shop(database: Database, seed: int, transactions: int, changes: int = 5) -> None:
    """Insert, update and delete rows in some transactions."""
    choose = random.Random(seed)
    greatest = database.rows("SELECT coalesce(max(id), 0) FROM sales")[0][0]
    customers = database.rows("SELECT count(*) FROM customers")[0][0]
    for _ in range(transactions):
        with database.connection.pipeline(), database.connection.transaction():
            for _ in range(changes):
                one, buyer = choose.randint(1, greatest), choose.randint(1, customers + 3)
                match choose.randrange(8):
                    case 0 | 1 | 2:
                        greatest += 1
                        database.run(f"INSERT INTO sales VALUES ({greatest}, {buyer}, {one}, NULL)")
                    case 3 | 4:
                        database.run(f"UPDATE sales SET price = price + 1, buyer_id = {buyer} WHERE id = {one}")
                    case 5:
                        database.run(f"DELETE FROM sales WHERE id = {one}")
                    case 6:
                        database.run(f"UPDATE sales SET id = -id WHERE id = {one}")
                    case _:
                        database.run(f"UPDATE customers SET name = name || '.' WHERE id = {buyer}")


def source_of(database: Database, **options: Any) -> Any:
    """Return the tables of the shop as a source."""
    return jn.postgres(database.dsn, list(TABLES.values()), **options)


def into_answer(database: Database, **options: Any) -> Any:
    """Return the table that holds the answer as a sink."""
    return jn.into_postgres(database.dsn, "answer", key="id_right", **options)


@contextmanager
def following(
    database: Database, sink: Any = None, folder: Path | None = None, *, slot: str = "juncture", **options: Any
) -> Iterator[Any]:
    """Follow the join of customers and their sales, by default to a table."""
    source = source_of(database, slot=slot)
    with (
        jn.changes(source.tables["customers"], source.tables["sales"], SPEC, state=folder) as join,
        jn.follow(join, source, sink or into_answer(database), tables=TABLES, **options) as follower,
    ):
        yield follower


def answer(database: Database, table: str = "answer") -> list[tuple[Any, ...]]:
    """Return what has come to the table that holds the answer."""
    return database.rows(f"SELECT id, name, id_right, price, note FROM {table} ORDER BY id_right")


def catch_up(follower: Any, database: Database) -> None:
    """Follow until the answer is that of the query, which it has to become soon."""
    until = time.monotonic() + 20
    expected = database.rows(EXPECTED)
    while answer(database) != expected and time.monotonic() < until:
        follower.step(0.1)
    assert answer(database) == expected
