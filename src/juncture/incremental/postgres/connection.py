"""Connections to PostgreSQL, on which every value comes in one form of text."""

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
    # An epoch may take longer than the minute after which a server gives up a receiver by default.
    "-c wal_sender_timeout=10min"
)
"""What settles how values are written; given when the connection is made, since replication takes no SET."""


def conninfo_of(dsn: str, **more: str) -> str:
    """Return what connects to a database, with the settings that values are read by."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise SpecError(
            f"dsn= is not a PostgreSQL connection string: {str(error).strip()}. Expected, for example, 'host=db "
            "dbname=shop user=juncture' or 'postgresql://juncture@db/shop'.",
            name="JN-POSTGRES-DSN",
        ) from None
    options = f"{given.get('options') or ''} {_SETTINGS}".strip()
    return make_conninfo(dsn, options=options, client_encoding="UTF8", application_name="juncture", **more)


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Say of PostgreSQL's own errors what was about to be done."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise PlanError(
            f"PostgreSQL does not allow the user to {what}: {_said(error)}. Grant the privilege to the user.",
            name="JN-POSTGRES-PRIVILEGE",
        ) from error
    except psycopg.OperationalError as error:
        raise StateError(
            f"The connection to PostgreSQL failed while trying to {what}: {_said(error)}. No data was lost. Try again.",
            name="JN-POSTGRES-CONNECTION",
        ) from error
    except psycopg.Error as error:
        raise PlanError(f"PostgreSQL refused to {what}: {_said(error)}.", name="JN-POSTGRES-REFUSED") from error


def _said(error: BaseException) -> str:
    return str(error).strip().rstrip(".")


def connected(dsn: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    """Connect to a database."""
    conninfo = conninfo_of(dsn)
    try:
        return psycopg.connect(conninfo, autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise PlanError(
            f"PostgreSQL cannot be reached: {_said(error)}. Check dsn=.", name="JN-POSTGRES-UNREACHABLE"
        ) from None


def replicating(dsn: str) -> abc.PGconn:
    """Connect for logical replication."""
    connection = pq.PGconn.connect(conninfo_of(dsn, replication="database").encode())
    if connection.status != pq.ConnStatus.OK:
        said = connection.get_error_message().strip()
        connection.finish()
        raise PlanError(
            f"PostgreSQL does not accept a replication connection with dsn=: {said}. Check max_wal_senders and "
            "pg_hba.conf.",
            name="JN-POSTGRES-UNREACHABLE",
        )
    return connection


def lsn_number(text: str) -> int:
    """Return a place in the log as a number.

    Examples
    --------
    >>> lsn_number("1/A")
    4294967306
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    """Return a place in the log as PostgreSQL writes it.

    Examples
    --------
    >>> lsn_text(4294967306)
    '1/A'
    """
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"
