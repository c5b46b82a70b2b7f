"""PostgreSQL as a source: a snapshot of its tables, then the changes of each transaction, without gap or overlap.

The slot is created first, with a snapshot of the tables at its first position. While the tables are read, its name is
``…_new``: if the process stops in the meantime, this name shows that the slot is unused. `start` is called after the
rows were committed to the state. It copies the slot to its final name, and drops ``…_new``.

A position in the log is an LSN (log sequence number), here an integer. An offset is an LSN with the IDs of the server,
the slot and the tables.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg
import pyarrow as pa
import pyarrow.csv as pv
from psycopg import sql

from juncture.errors import JunctureError, PlanError, SpecError, StateError
from juncture.incremental.postgres.catalog import PostgresTable, check_server, ensure_publication, find_tables
from juncture.incremental.postgres.connection import connected, lsn_number, lsn_text, replicating, reported
from juncture.incremental.postgres.pgoutput import Decoder, TableChanges, batch_of, columns_of
from juncture.incremental.postgres.replication import LogStream, SlotStatus, create_slot, in_use, slot_status
from juncture.incremental.sources.source import Read, Snapshot, SourceEpoch
from juncture.spec.size import format_size

_log = logging.getLogger(__name__)

_SLOT_STAYS = (
    "The slot %r stays, and the server keeps its log for it: SELECT pg_drop_replication_slot(%r) if it is not to be "
    "followed again."
)
_SLOT_KEEPS = (
    "The server keeps %s of its log for the slot %r, from which no process reads. Run the join that reads from it, or "
    "drop the slot: SELECT pg_drop_replication_slot(%r)."
)

_NEW = "_new"
_SLOT_CHARACTERS_MOST = 63
_IN_USE_S = 5.0  # how long to wait for a slot in use: the server notices the end of a killed process with a delay
_KEPT_BYTES_MOST = 1 << 30  # warn if the server retains more log than this for an unused slot
_IDLE_BYTES = 16 << 20
"""After this much log of other tables, an empty epoch is returned, so that the server may discard this log."""
_LINGER_S = 0.005
"""How long to wait for the next message before an epoch ends. Without a wait, epochs would have very few rows."""
_BLOCK_BYTES = 1 << 20


class PostgresSource:
    """PostgreSQL tables as a source, created by `juncture.postgres`.

    Examples
    --------
    >>> import juncture as jn
    >>> with jn.postgres("host=db dbname=shop user=juncture", ["customers", "sales"]) as source:  # doctest: +SKIP
    ...     print(source.tables, source.status())
    """

    def __init__(
        self,
        dsn: str,
        tables: Sequence[str] | Mapping[str, str],
        slot: str = "juncture",
        publication: str | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        append_only: Collection[str] = (),
    ) -> None:
        names = dict(tables) if isinstance(tables, Mapping) else {name: name for name in tables}
        _check_arguments(names, slot)
        self._dsn, self.slot, self.publication = dsn, slot, publication or slot
        self._stream: LogStream | None = None
        self._problem: JunctureError | None = None
        self._lsn = 0
        self._is_closed = self._is_published = False
        self._connection = connected(dsn)
        try:
            check_server(self._connection)
            self._tables = find_tables(self._connection, names, types or {}, append_only)
            self._system = self._identify()
            self._warn_of_slots()
        except BaseException:
            self._connection.close()
            raise
        self._decoder = Decoder(self._tables)

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables with their columns."""
        return {name: table.schema for name, table in self._tables.items()}

    def status(self) -> SlotStatus | None:
        """Return the status of the slot; None if it does not exist. The source may be closed."""
        with self._asking(f"read the state of the slot {self.slot!r}"):
            return slot_status(self._connection, self.slot)

    def drop(self) -> None:
        """Drop the slot, so that the server discards its log. States that follow it cannot be resumed.

        The source may be closed.

        Raises
        ------
        PlanError
            If another process reads from the slot.
        """
        self._end_stream()
        with self._asking(f"drop the slot {self.slot!r}"):
            for name in (self.slot, self.slot + _NEW):
                if self._unused(name) is not None:
                    self._drop_slot(name)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Ensure a connection: a new one if it was lost, and a temporary one if the source is closed."""
        if self._connection.closed:
            self._connection = connected(self._dsn)
        try:
            with reported(what):
                yield
        finally:
            if self._is_closed:
                self._connection.close()

    def snapshot(self, read: Read) -> Snapshot:
        """Create the slot, and return the tables at its first position, with the offset of the changes after them.

        Raises
        ------
        PlanError
            If the slot exists already, or a privilege is missing.
        DataError
            If a value does not fit the type of its column.
        """
        self._check_open()
        with self._asking("read the tables"):
            if self.status() is not None:
                raise PlanError(
                    f"Slot {self.slot!r} exists already, but the state is empty. Open the state folder "
                    "that was populated from this slot, pass another name as slot=, or drop the slot: "
                    f"SELECT pg_drop_replication_slot('{self.slot}').",
                    name="JN-SLOT-EXISTS",
                )
            self._ensure_publication()
            new = self.slot + _NEW
            if self._unused(new) is not None:
                self._drop_slot(new)
            return self._exported(new, read)

    def _exported(self, new: str, read: Read) -> Snapshot:
        replication = replicating(self._dsn)
        try:
            slot = create_slot(replication, new)
            # The snapshot is valid until the next command on the exporting connection.
            with connected(self._dsn, autocommit=False) as connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(slot.snapshot))
                tables = {name: copied(connection, table, read) for name, table in self._tables.items()}
        finally:
            replication.finish()
        return Snapshot(tables, self._offset(slot.lsn))

    def start(self, offset: Any) -> None:
        """Resume from the offset of a `Snapshot` or a `SourceEpoch`, also after an error.

        Raises
        ------
        StateError
            If the server no longer has the log after the offset, or the offset is from another server.
        PlanError
            If another process reads from the slot, or the source is closed.
        """
        self._check_open()
        self._end_stream()
        lsn = self._lsn_of(offset)
        with self._asking(f"resume the slot {self.slot!r}"):
            self._take_slot(lsn)
            self._ensure_publication()
        self._decoder = Decoder(self._tables)
        self._problem = None
        self._lsn = lsn
        self._stream = LogStream(self._dsn, self.slot, self.publication, lsn)

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return changes of whole transactions, about ``rows``; None if none has ended. After an error, call `start`.

        Raises
        ------
        SchemaError
            If a table was altered.
        DataError
            If a value does not fit the type of its column, or an old row is missing.
        StateError
            If the connection is lost.
        PlanError
            If the source has not been started.
        """
        if self._stream is None:
            raise PlanError("The source has not been started. Call start(offset) first.", name="JN-SOURCE-NOT-STARTED")
        try:
            return self._next(self._stream, rows, timeout_s)
        except BaseException:
            # The changes of open transactions are lost.
            self._end_stream()
            raise

    def _next(self, stream: LogStream, rows: int, timeout_s: float) -> SourceEpoch | None:
        if self._problem is not None:
            raise self._problem
        gathered: dict[str, TableChanges] = {}
        transactions, count = 0, 0
        until = time.monotonic() + timeout_s
        while count < rows:
            # After the first change, only wait for messages that are about to arrive.
            message = stream.next(_LINGER_S if gathered else max(0.0, until - time.monotonic()))
            if message is None:
                break
            try:
                end = self._decoder.read(message)
            except JunctureError as error:
                if not gathered:
                    raise
                # Return the transactions before the error first.
                self._problem = error
                break
            if end is None:
                continue
            self._lsn = end
            committed = self._decoder.taken()
            transactions += bool(committed)
            for name, changes in committed.items():
                count += len(changes.rows) + changes.is_truncated
                gathered.setdefault(name, TableChanges()).add(changes)
        return self._epoch(gathered, transactions, count) if gathered else self._idle_epoch()

    def _epoch(self, gathered: Mapping[str, TableChanges], transactions: int, count: int) -> SourceEpoch:
        changes = {name: [batch_of(self._tables[name], each)] for name, each in gathered.items() if each.rows}
        truncated = frozenset(name for name, each in gathered.items() if each.is_truncated)
        return SourceEpoch(changes, self._offset(self._lsn), transactions, count, truncated)

    def _idle_epoch(self) -> SourceEpoch | None:
        """Return an epoch without changes if changes of other tables have grown the log."""
        assert self._stream is not None
        if self._decoder.in_transaction or self._stream.end - self._lsn < _IDLE_BYTES:
            return None
        self._lsn = self._stream.end
        return SourceEpoch({}, self._offset(self._lsn), 0, 0)

    def acknowledge(self, offset: Any) -> None:
        """Allow the server to discard the log up to an offset."""
        if self._stream is not None:
            self._stream.acknowledge(lsn_number(offset["lsn"]))

    def close(self) -> None:
        """Close the connections. The slot is preserved, and the server retains its log."""
        self._end_stream()
        if not self._connection.closed:
            with suppress(JunctureError):
                if self.status() is not None:
                    _log.info(_SLOT_STAYS, self.slot, self.slot)
            self._connection.close()
        self._is_closed = True

    def _ensure_publication(self) -> None:
        """Create or validate the publication, once. A later ALTER TABLE is detected in the log."""
        if not self._is_published:
            ensure_publication(self._connection, self.publication, self._tables)
            self._is_published = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise PlanError("The source is closed. Open it again with jn.postgres(…).", name="JN-STATE-CLOSED")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _identify(self) -> str:
        row = self._connection.execute("SELECT system_identifier::text FROM pg_catalog.pg_control_system()").fetchone()
        assert row is not None
        return str(row[0])

    def _offset(self, lsn: int) -> dict[str, Any]:
        oids = {name: table.oid for name, table in self._tables.items()}
        return {"system": self._system, "slot": self.slot, "lsn": lsn_text(lsn), "tables": oids}

    def _lsn_of(self, offset: Any) -> int:
        """Return the position in the log of an offset of this source."""
        now = self._offset(0)
        if not isinstance(offset, dict) or set(offset) != set(now):
            raise StateError(
                f"The state's offset {offset!r} is not one of PostgreSQL. Pass the source that the state was "
                "populated from.",
                name="JN-STATE-OFFSET",
            )
        for what, name in (("system", "server"), ("slot", "slot")):
            if offset[what] != now[what]:
                raise StateError(
                    f"The state was populated from the {name} {offset[what]!r}, but the source reads from "
                    f"{now[what]!r}. Pass the original source, or start again with a new state folder.",
                    name="JN-STATE-OFFSET",
                )
        for name, oid in now["tables"].items():
            if offset["tables"].get(name) != oid:
                raise StateError(
                    f"Table {self._tables[name].full_name} was dropped and created again, or renamed, after the state "
                    "was populated. Start again with a new state folder.",
                    name="JN-TABLE-RECREATED",
                )
        return lsn_number(offset["lsn"])

    def _take_slot(self, lsn: int) -> None:
        """Ensure a slot that has all changes after an LSN."""
        slot = self._unused(self.slot)
        new = self._unused(self.slot + _NEW)
        if slot is None and new is not None and new.confirmed == lsn:
            with reported(f"create the slot {self.slot!r}"):
                self._connection.execute(
                    "SELECT pg_copy_logical_replication_slot(%s, %s, false)", [new.name, self.slot]
                )
            slot = self.status()
        if slot is None:
            raise StateError(
                f"Slot {self.slot!r} no longer exists, so changes since {lsn_text(lsn)} are lost. Start again "
                "with a new state folder.",
                name="JN-SLOT-LOST",
            )
        if slot.is_lost:
            raise StateError(
                f"Slot {self.slot!r} needs log that the server has removed (max_slot_wal_keep_size). Drop the slot "
                f"with SELECT pg_drop_replication_slot('{self.slot}'), and start again with a new state folder.",
                name="JN-SLOT-LOST",
            )
        if slot.confirmed > lsn:
            raise StateError(
                f"Slot {self.slot!r} is at {lsn_text(slot.confirmed)}, but the state is at {lsn_text(lsn)}. The "
                "state is an older copy, or another state used the slot. Start again with a new state folder.",
                name="JN-SLOT-AHEAD",
            )
        if new is not None:
            self._drop_slot(new.name)

    def _unused(self, name: str) -> SlotStatus | None:
        """Return a slot once no process reads from it."""
        until = time.monotonic() + _IN_USE_S
        while (slot := slot_status(self._connection, name)) is not None and slot.is_active:
            if time.monotonic() > until:
                raise PlanError(
                    in_use(name, f"process {slot.process} of the server reads from it"), name="JN-SLOT-IN-USE"
                )
            time.sleep(0.05)
        return slot

    def _drop_slot(self, name: str) -> None:
        with reported(f"drop the slot {name!r}"):
            self._connection.execute("SELECT pg_drop_replication_slot(%s)", [name])

    def _warn_of_slots(self) -> None:
        rows = self._connection.execute(
            "SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 FROM "
            "pg_catalog.pg_replication_slots WHERE NOT active AND plugin = 'pgoutput' AND database = current_database()"
        )
        for name, kept_bytes in rows:
            if (kept_bytes or 0) > _KEPT_BYTES_MOST:
                _log.warning(_SLOT_KEEPS, format_size(kept_bytes), name, name)


def _check_arguments(names: Mapping[str, str], slot: str) -> None:
    if not names or not all(isinstance(each, str) for pair in names.items() for each in pair):
        raise SpecError(
            f"tables={names!r} has no table names. Expected a list such as ['customers', 'shop.sales'], or a mapping "
            "such as {'left': 'customers', 'right': 'shop.sales'}.",
            name="JN-ARGUMENT-VALUE",
        )
    longest = _SLOT_CHARACTERS_MOST - len(_NEW)
    if not slot or len(slot) > longest or not all(each in "abcdefghijklmnopqrstuvwxyz0123456789_" for each in slot):
        raise SpecError(
            f"slot={slot!r} is not a valid name of a slot. Expected 1 to {longest} lower-case letters, digits and "
            "underscores.",
            name="JN-ARGUMENT-VALUE",
        )


def copied(
    connection: psycopg.Connection[Any], table: PostgresTable, read: Read, where: sql.Composable | None = None
) -> pa.Table:
    """Return the rows of a table, or some of them. `read` is the progress callback."""
    names, where = [column.name for column in table.columns], where or sql.SQL("true")
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT csv)").format(
        sql.SQL(", ").join(map(sql.Identifier, names)), table.identifier, where
    )
    batches = []
    with reported(f"read {table.full_name}"), connection.cursor() as cursor, cursor.copy(query) as copy:
        for block in _blocks(copy):
            texts = _parsed(block, len(names))
            batches.append(pa.RecordBatch.from_arrays(columns_of(table, texts.columns), schema=table.schema))
            read(table.name, texts.num_rows)
    return pa.Table.from_batches(batches, table.schema)


def _blocks(copy: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    """Yield whole rows, in blocks that are parsed at once."""
    rows, size = [], 0
    for row in copy:
        rows.append(row)
        size += len(row)
        if size >= _BLOCK_BYTES:
            yield b"".join(rows)
            rows, size = [], 0
    if rows:
        yield b"".join(rows)


def _parsed(block: bytes, columns: int) -> pa.RecordBatch:
    """Return rows of strings. Empty values without quotes are null."""
    names = [str(index) for index in range(columns)]
    table = pv.read_csv(
        pa.BufferReader(block),
        read_options=pv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
        parse_options=pv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.combine_chunks().to_batches()[0]
