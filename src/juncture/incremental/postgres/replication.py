"""PostgreSQL's log as a stream of messages, and replication slots."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.pq import abc

from juncture.errors import PlanError, StateError
from juncture.incremental.postgres.connection import lsn_number, lsn_text, replicating

_DATA = Struct(">cQQq")
_KEEPALIVE = Struct(">cQqB")
_STATUS = Struct(">cQQQqB")
_EPOCH_US = 946_684_800_000_000  # PostgreSQL's epoch is the year 2000
_STATUS_S = 10.0


@dataclass(frozen=True)
class SlotStatus:
    """Status of a replication slot: acknowledged up to ``confirmed``, with ``kept_bytes`` of log, unless it is lost.

    ``process`` is the ID of the server process that reads from it; None if it is not active.
    """

    name: str
    is_active: bool
    process: int | None
    confirmed: int
    kept_bytes: int
    is_lost: bool


def slot_status(connection: psycopg.Connection[Any], name: str) -> SlotStatus | None:
    """Return the status of a slot; None if it does not exist."""
    row = connection.execute(
        "SELECT plugin, database, current_database(), active, active_pid, confirmed_flush_lsn::text, "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::int8, wal_status = 'lost' "
        "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    plugin, database, here, is_active, process, confirmed, kept_bytes, is_lost = row
    if plugin != "pgoutput" or database != here:
        raise PlanError(
            f"Slot {name!r} belongs to the plugin {plugin!r} and the database {database!r}. Pass another name as "
            "slot=.",
            name="JN-SLOT-FOREIGN",
        )
    return SlotStatus(name, is_active, process, lsn_number(confirmed or "0/0"), kept_bytes, bool(is_lost))


@dataclass(frozen=True)
class Slot:
    """A new slot: its first position, and the snapshot of the tables there, valid until the next command."""

    lsn: int
    snapshot: str


def create_slot(connection: abc.PGconn, name: str, *, temporary: bool = False) -> Slot:
    """Create a slot, and export a snapshot of the tables at its first position."""
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    command = f"CREATE_REPLICATION_SLOT {_quoted(name)} {kind} pgoutput (SNAPSHOT 'export')"
    result = connection.exec_(command.encode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise PlanError(
            f"Slot {name!r} was not created by PostgreSQL: {_error_text(result)}. Check slot= and the server's "
            "max_replication_slots.",
            name="JN-SLOT-CREATE",
        )
    lsn, snapshot = result.get_value(0, 1), result.get_value(0, 2)
    assert lsn is not None and snapshot is not None
    return Slot(lsn_number(lsn.decode()), snapshot.decode())


class LogStream:
    """The messages of a slot from a position in the log on."""

    def __init__(self, dsn: str, slot: str, publication: str, lsn: int) -> None:
        self._connection = replicating(dsn)
        self._acknowledged = lsn
        self._status_sent_s = time.monotonic()
        self.end = lsn
        command = (
            f"START_REPLICATION SLOT {_quoted(slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '1', publication_names {_literal(_quoted(publication))})"
        )
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            self.close()
            if result.error_field(pq.DiagnosticField.SQLSTATE) == b"55006":
                raise PlanError(in_use(slot, _error_text(result)), name="JN-SLOT-IN-USE")
            raise StateError(
                f"Slot {slot!r} was not opened by PostgreSQL: {_error_text(result)}. Try again, or check the server's "
                "log.",
                name="JN-POSTGRES-CONNECTION",
            )
        self._poll = select.poll()
        self._poll.register(self._connection.socket, select.POLLIN)

    def next(self, timeout_s: float) -> bytes | None:
        """Return the next message of the plugin; None if there is none within the time."""
        until = time.monotonic() + timeout_s
        while True:
            with _connected():
                size, data = self._connection.get_copy_data(1)
            if size == -1:
                raise _lost(_error_text(self._connection.get_result()))
            if size == 0:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    self._send_status_in_time()
                    return None
                self._wait(left_s)
            elif data[0] == 119:  # w
                return bytes(data[_DATA.size :])
            elif data[0] == 107:  # k
                _, end, _, wants_answer = _KEEPALIVE.unpack_from(data)
                self.end = max(self.end, end)
                if wants_answer:
                    self._send_status()

    def _wait(self, left_s: float) -> None:
        self._send_status_in_time()
        self._poll.poll(min(left_s, _STATUS_S) * 1000)
        with _connected():
            self._connection.consume_input()

    def acknowledge(self, lsn: int) -> None:
        """Allow the server to discard the log up to a position."""
        self._acknowledged = max(self._acknowledged, lsn)
        self._send_status()

    def _send_status_in_time(self) -> None:
        if time.monotonic() - self._status_sent_s > _STATUS_S:
            self._send_status()

    def _send_status(self) -> None:
        now_us = time.time_ns() // 1000 - _EPOCH_US
        with _connected():
            self._connection.put_copy_data(
                _STATUS.pack(b"r", self._acknowledged, self._acknowledged, self._acknowledged, now_us, 0)
            )
            self._connection.flush()
        self._status_sent_s = time.monotonic()

    def close(self) -> None:
        """Close the connection. The slot is preserved."""
        self._connection.finish()


def in_use(slot: str, problem: str) -> str:
    """Return the message for a slot from which another process reads."""
    return (
        f"Slot {slot!r} is in use: {problem}. Only one process can read from a slot. Stop the other one, or pass "
        "another name as slot=."
    )


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise _lost(str(error)) from None


def _lost(problem: str) -> StateError:
    return StateError(
        f"The connection to PostgreSQL was lost: {problem.strip()}. No data was lost. Follow again to continue.",
        name="JN-POSTGRES-CONNECTION",
    )


def _error_text(result: Any) -> str:
    return str(result.get_error_message()).strip().rstrip(".") if result is not None else "it ended"


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
