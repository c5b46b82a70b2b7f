"""PostgreSQL's changes as a Spark source. Offsets are positions in the log, which Spark's checkpoint stores.

A table between two positions of the log can be read repeatedly until the slot advances. The log is peeked at, so a slot
returns the same changes between two positions each time. A transaction is between them if its commit starts there,
which is also PostgreSQL's rule for what a slot excludes.

The initial rows are those of the table at a later position, plus the changes in between with opposite weights. Together
they are the table at the first position, for which no snapshot exists any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.pq import abc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from juncture.columnar.conversion import converted
from juncture.errors import DataError, SpecError, StateError
from juncture.incremental.postgres.catalog import ensure_publication
from juncture.incremental.postgres.connection import connected, lsn_number, lsn_text, replicating, reported
from juncture.incremental.postgres.pgoutput import Decoder, TableChanges, batch_of, change_schema, commit_lsn
from juncture.incremental.postgres.replication import Slot, create_slot
from juncture.incremental.sources.postgres import PostgresSource, copied
from juncture.incremental.state.records import weighted
from juncture.spark.schema import spark_schema, wire_schema

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
                if taken is None or not first <= commit_lsn(message) < last:
                    continue
                if taken.is_truncated:
                    raise DataError(
                        f"Table {self.table.full_name} was truncated, and the log does not have the rows that "
                        "this removed. Start the query with a new checkpoint, output and slot. Use DELETE instead of "
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


NAME = "juncture.postgres"

_FIRST = "is_first"
_OPTIONS = ("dsn", "table", "slot", "publication", "partitions")
_PARTITIONS = 4


@dataclass
class Pages(InputPartition):
    """A partition with initial rows on some pages of the table."""

    snapshot: str
    first: int
    last: int | None


@dataclass
class Log(InputPartition):
    """A partition with the changes between two positions of the log. ``sign`` is -1 for opposite weights."""

    first: int
    last: int
    sign: int


class PostgresDataSource(DataSource):
    """The format ``juncture.postgres`` of ``spark.readStream``: changes of one table, with a column ``_weight``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table, and the weight."""
        with _opened(self.options) as source:
            return spark_schema(source.schema)

    def streamReader(self, schema: StructType) -> PostgresStream:  # noqa: N802, ARG002 - Spark's name
        """Return the stream reader."""
        return PostgresStream(dict(self.options))


class PostgresStream(DataSourceStreamReader):
    """Reads the initial table by pages in the first micro-batch, and then the changes of transactions."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._exporting: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, without connections."""
        return {"_options": self._options, "_exporting": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the first position of the slot."""
        with _opened(self._options) as source:
            return {**source.begin(), _FIRST: True}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's
        """Return the end of the log."""
        with _opened(self._options) as source:
            return {**source.now(), _FIRST: False}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of a micro-batch."""
        with _opened(self._options) as source:
            first, last = (source.place(_plain(offset)) for offset in (start, end))
            if not start[_FIRST]:
                return [Log(first, last, 1)]
            self.stop()
            self._exporting, slot = source.exported()
            step = max(1, -(-source.pages() // int(self._options.get("partitions", _PARTITIONS))))
            starts = list(range(0, max(1, source.pages()), step))
            ranges = zip(starts, [*starts[1:], None], strict=True)
            return [*(Pages(slot.snapshot, *each) for each in ranges), Log(last, slot.lsn, -1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        with _opened(self._options) as source:
            wire = wire_schema(source.schema)
            if isinstance(partition, Pages):
                rows = source.rows(partition.snapshot, partition.first, partition.last)
                batches = (weighted(batch, np.ones(batch.num_rows, np.int64)) for batch in rows.to_batches())
            else:
                assert isinstance(partition, Log)
                batches = (_times(batch, partition.sign) for batch in source.changes(partition.first, partition.last))
            for batch in batches:
                columns = [converted(column, field.type) for column, field in zip(batch.columns, wire, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=wire)

    def commit(self, end: dict[str, Any]) -> None:
        """Allow the server to discard the log that Spark has processed."""
        self.stop()
        with _opened(self._options) as source:
            source.forget(end)

    def stop(self) -> None:
        """Release the snapshot."""
        if self._exporting is not None:
            self._exporting.finish()
            self._exporting = None


def _opened(options: Mapping[str, str]) -> RangedSource:
    lacking = [name for name in ("dsn", "table", "slot") if name not in options]
    more = [name for name in options if name not in _OPTIONS]
    if lacking or more:
        wrong = f"needs the option {lacking[0]!r}" if lacking else f"has no option {more[0]!r}"
        raise SpecError(
            f"Format {NAME!r} {wrong}. Expected dsn, table and slot, and optionally publication and partitions.",
            name="JN-ARGUMENT-UNKNOWN",
        )
    return RangedSource(options["dsn"], options["table"], options["slot"], options.get("publication"))


def _plain(offset: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in offset.items() if name != _FIRST}


def _times(batch: pa.RecordBatch, sign: int) -> pa.RecordBatch:
    """Return changes, with opposite weights if ``sign`` is negative."""
    if sign > 0:
        return batch
    return batch.set_column(batch.num_columns - 1, batch.schema.field(-1), pc.negate(batch.column(-1)))
