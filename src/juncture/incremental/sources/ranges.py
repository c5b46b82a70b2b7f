"""A PostgreSQL table between two positions of the log, which can be read repeatedly until the slot advances.

The log is peeked at, so a slot returns the same changes between two positions each time. A transaction is between them
if its commit starts there, which is also PostgreSQL's rule for what a slot excludes.

The initial rows are those of the table at a later position, plus the changes in between with opposite weights. Together
they are the table at the first position, for which no snapshot exists any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pyarrow as pa
from psycopg import sql
from psycopg.pq import abc

from juncture.errors import DataError, StateError
from juncture.incremental.postgres.catalog import ensure_publication
from juncture.incremental.postgres.connection import connected, lsn_number, lsn_text, replicating, reported
from juncture.incremental.postgres.pgoutput import Decoder, TableChanges, batch_of, change_schema, commit_place
from juncture.incremental.postgres.replication import Slot, create_slot
from juncture.incremental.sources.postgres import PostgresSource, copied

_ROWS = 10_000


class RangedSource(PostgresSource):
    """One PostgreSQL table, read by ranges of the log."""

    def __init__(self, dsn: str, table: str, slot: str, publication: str | None = None) -> None:
        super().__init__(dsn, [table], slot, publication)
        [self.table] = self._tables.values()

    @property
    def schema(self) -> pa.Schema:
        """The columns of changes."""
        return change_schema(self.table)

    def begin(self) -> dict[str, Any]:
        """Create the slot if it does not exist, and return its first position."""
        ensure_publication(self._connection, self.publication, self._tables)
        if self.status() is None:
            with reported(f"create the slot {self.slot!r}"):
                self._connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self.slot])
        slot = self._unused(self.slot)
        assert slot is not None
        return self._offset(slot.confirmed)

    def now(self) -> dict[str, Any]:
        """Return the current end of the log."""
        row = self._connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return self._offset(lsn_number(row[0]))

    def place(self, offset: Any) -> int:
        """Return the position of an offset, from which the slot has all changes."""
        place = self._lsn_of(offset)
        self._take_slot(place)
        return place

    def pages(self) -> int:
        """Return the number of pages of the table."""
        row = self._connection.execute(
            "SELECT pg_relation_size(%s::oid) / current_setting('block_size')::int8", [self.table.oid]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def exported(self) -> tuple[abc.PGconn, Slot]:
        """Return a connection that holds a snapshot of the table, and the position of the snapshot in the log."""
        replication = replicating(self._dsn)
        try:
            return replication, create_slot(replication, f"juncture_{token_hex(8)}", temporary=True)
        except BaseException:
            replication.finish()
            raise

    def rows(self, snapshot: str, first: int, last: int | None) -> pa.Table:
        """Return the rows of the snapshot on the pages from ``first`` up to ``last``, or to the end."""
        where = sql.SQL("ctid >= {}::tid").format(f"({first},0)")
        if last is not None:
            where = sql.SQL("{} AND ctid < {}::tid").format(where, f"({last},0)")
        with connected(self._dsn, autocommit=False) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            with reported("read the exported snapshot"):
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
            return copied(connection, self.table, _silent, where)

    def changes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the changes of transactions between two positions."""
        decoder, gathered = Decoder(self._tables), TableChanges()
        query = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL, 'proto_version', '1', "
            "'publication_names', %s)"
        )
        publication = sql.Identifier(self.publication).as_string(None)
        with reported(f"read from the slot {self.slot!r}"), self._connection.cursor() as cursor:
            for (message,) in cursor.stream(query, [self.slot, lsn_text(last), publication]):
                if decoder.read(message) is None:
                    continue
                taken = decoder.taken().get(self.table.name)
                if taken is None or not first <= commit_place(message) < last:
                    continue
                if taken.is_truncated:
                    raise DataError(
                        f"Table {self.table.shown} was truncated, and the log does not have the rows that this "
                        "removed. Start the query with a new checkpoint, output and slot. Use DELETE instead of "
                        "TRUNCATE.",
                        name="JN-TABLE-TRUNCATED",
                    )
                gathered.add(taken)
                if len(gathered.rows) >= _ROWS:
                    yield batch_of(self.table, gathered)
                    gathered = TableChanges()
        if gathered.rows:
            yield batch_of(self.table, gathered)

    def forget(self, offset: Any) -> None:
        """Allow the server to discard the log up to an offset."""
        slot = self._unused(self.slot)
        if slot is None:
            raise StateError(
                f"Slot {self.slot!r} no longer exists, so later changes are lost. Start the query with a new "
                "checkpoint, output and slot.",
                name="JN-SLOT-LOST",
            )
        place = lsn_number(offset["lsn"])
        if slot.confirmed < place:
            with reported(f"resume the slot {self.slot!r}"):
                self._connection.execute(
                    "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.slot, lsn_text(place)]
                )


def _silent(_table: str, _rows: int) -> None:
    """Do not report rows."""
