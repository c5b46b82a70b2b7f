"""Connections to PostgreSQL with settings that fix the text format of values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import abc

from juncture.errors import PlanError, SpecError, StateError

_SETTINGS = (
    "-c datestyle=ISO,YMD -c timezone=UTC -c intervalstyle=iso_8601 -c extra_float_digits=3 -c bytea_output=hex "
    # An epoch may take longer than a minute, after which a server disconnects a receiver by default.
    "-c wal_sender_timeout=10min"
)
"""Settings that fix the text format of values. They are options of the connection, because replication has no SET."""


def conninfo_of(dsn: str, **more: str) -> str:
    """Return a connection string with the settings for the text format of values."""
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise SpecError(
            f"dsn= is not a PostgreSQL connection string: {str(error).strip()}. Expected, for example, 'host=db "
            "dbname=shop user=juncture' or 'postgresql://juncture@db/shop'.",
            name="JN-POSTGRES-DSN",
        ) from None
    options = f"{parameters.get('options') or ''} {_SETTINGS}".strip()
    return make_conninfo(dsn, options=options, client_encoding="UTF8", application_name="juncture", **more)


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Raise PostgreSQL's errors as `JunctureError`. ``what`` completes "failed while trying to"."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise PlanError(
            f"PostgreSQL does not allow the user to {what}: {_error_text(error)}. Grant the privilege to the user.",
            name="JN-POSTGRES-PRIVILEGE",
        ) from error
    except psycopg.OperationalError as error:
        raise StateError(
            f"The connection to PostgreSQL failed while trying to {what}: {_error_text(error)}. No data was lost. Try "
            "again.",
            name="JN-POSTGRES-CONNECTION",
        ) from error
    except psycopg.Error as error:
        raise PlanError(f"PostgreSQL refused to {what}: {_error_text(error)}.", name="JN-POSTGRES-REFUSED") from error


def _error_text(error: BaseException) -> str:
    return str(error).strip().rstrip(".")


def connected(dsn: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    """Connect to a database."""
    conninfo = conninfo_of(dsn)
    try:
        return psycopg.connect(conninfo, autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise PlanError(
            f"PostgreSQL cannot be reached: {_error_text(error)}. Check dsn=.", name="JN-POSTGRES-UNREACHABLE"
        ) from None


def replicating(dsn: str) -> abc.PGconn:
    """Connect for logical replication."""
    connection = pq.PGconn.connect(conninfo_of(dsn, replication="database").encode())
    if connection.status != pq.ConnStatus.OK:
        problem = connection.get_error_message().strip()
        connection.finish()
        raise PlanError(
            f"PostgreSQL does not accept a replication connection with dsn=: {problem}. Check max_wal_senders and "
            "pg_hba.conf.",
            name="JN-POSTGRES-UNREACHABLE",
        )
    return connection


def lsn_number(text: str) -> int:
    """Return a position in the log, such as ``"1/A"``, as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    """Return a position in the log in PostgreSQL's format."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"
