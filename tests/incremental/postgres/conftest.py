from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from juncture.datasets.postgres_server import temporary_postgres
from support.shop import Database

NUMBERS = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server, one for all tests of a process."""
    with temporary_postgres({"max_slot_wal_keep_size": "-1"}) as dsn:
        yield dsn


@pytest.fixture
def database(server: str) -> Iterator[Database]:
    """A database of its own for a test, whose slots and rows are gone afterwards."""
    name = f"d{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        dsn = server.replace("dbname=postgres", f"dbname={name}")
        with psycopg.connect(dsn, autocommit=True) as inside:
            yield Database(dsn, inside)
        connection.execute(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE database = %s AND active",
            [name],
        )
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
