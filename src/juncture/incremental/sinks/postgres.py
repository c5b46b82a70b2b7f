"""A PostgreSQL table with a result: changes are inserted, updated and deleted by key.

The number of each epoch is written in the same transaction, to the table `juncture_epochs` beside it. So an epoch is
committed with its number, or not at all.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
from psycopg import sql

from juncture.errors import DataError, SchemaError, SpecError, StateError, did_you_mean
from juncture.incremental.changes.change_batch import WEIGHT
from juncture.incremental.postgres.connection import connected, reported
from juncture.incremental.postgres.values import sql_type, to_text

_GONE, _COME = sql.Identifier("juncture_gone"), sql.Identifier("juncture_come")
_ANALYSED_ROWS = 1_000  # from this many rows on, the server analyzes the temporary table before joining it
_EPOCHS = "juncture_epochs"
_MAKE_EPOCHS = (
    "CREATE TABLE IF NOT EXISTS {} (target text PRIMARY KEY, state text NOT NULL, epoch bigint NOT NULL, "
    "written_at timestamptz NOT NULL DEFAULT now())"
)
_SET_EPOCH = (
    "INSERT INTO {} VALUES (%s, %s, %s) ON CONFLICT (target) DO UPDATE SET state = excluded.state, "
    "epoch = excluded.epoch, written_at = excluded.written_at"
)


class PostgresSink:
    """A PostgreSQL table with a result, created by `juncture.into_postgres`."""

    def __init__(self, dsn: str, table: str, key: str | Sequence[str], *, replace: bool = False) -> None:
        self._dsn, self._name, self._replace = dsn, table, replace
        self._key = (key,) if isinstance(key, str) else tuple(key)
        if not self._key:
            raise SpecError(
                f"key={key!r} has no columns. Expected the columns that identify a row of the result.",
                name="JN-ARGUMENT-VALUE",
            )
        self._opened: psycopg.Connection[Any] | None = None
        self._columns: tuple[str, ...] = ()
        self._state = ""

    def open(self, schema: pa.Schema, state: str) -> int | None:
        """Return the last epoch in the table; create the table if it does not exist."""
        self.close()
        self._columns = tuple(name for name in schema.names if name != WEIGHT)
        for name in self._key:
            if name not in self._columns:
                raise SpecError(
                    f"key= has {name!r}, which is not a column of the result. {did_you_mean(name, self._columns)}",
                    name="JN-ARGUMENT-VALUE",
                )
        self._state = state
        self._opened = connected(self._dsn, autocommit=True)
        with reported(f"create the table {self._name!r}"), self._connection.transaction():
            self._find_or_make(schema)
            for table in (_GONE, _COME):
                self._connection.execute(
                    sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {}, PRIMARY KEY ({})) ON COMMIT DELETE ROWS").format(
                        table, self._table, _names(self._key)
                    )
                )
            return self._epoch()

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        assert self._opened is not None
        return self._opened

    def _find_or_make(self, schema: pa.Schema) -> None:
        if self._where() is None:
            types = {name: sql.SQL(sql_type(schema.field(name).type)) for name in self._columns}
            columns = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), types[name]) for name in types)
            # The name may have a schema before a dot.
            create = sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))")
            self._connection.execute(create.format(sql.Identifier(*self._name.split(".")), columns, _names(self._key)))
        where = self._where()
        assert where is not None
        self._table, self._epochs = sql.Identifier(*where), sql.Identifier(where[0], _EPOCHS)
        self._target = ".".join(where)
        rows = self._connection.execute(
            "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped",
            [self._table.as_string(None)],
        ).fetchall()
        there = {row[0] for row in rows}
        if there != set(self._columns):
            name = next(iter(set(self._columns) ^ there))
            raise SchemaError(
                f"Table {self._target} has other columns than the result: only one of them has {name!r}. Pass the name "
                "of a new table, which is then created.",
                name="JN-SINK-SCHEMA",
            )
        self._connection.execute(sql.SQL(_MAKE_EPOCHS).format(self._epochs))

    def _where(self) -> tuple[str, str] | None:
        row = self._connection.execute(
            "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
            [self._name],
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def _epoch(self) -> int:
        row = self._connection.execute(
            sql.SQL("SELECT state, epoch FROM {} WHERE target = %s").format(self._epochs), [self._target]
        ).fetchone()
        if row is not None and row[0] == self._state:
            return int(row[1])
        filled = self._connection.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(self._table)).fetchone()
        if (row is not None or (filled and filled[0])) and not self._replace:
            raise StateError(
                f"Table {self._target} has rows of another state. Pass the state that wrote them, another table, or "
                "replace=True to replace its rows.",
                name="JN-SINK-FOREIGN",
            )
        return 0

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Insert, update and delete rows by key, and write the number of the epoch, in one transaction."""
        with reported(f"write to {self._target}"), self._connection.transaction():
            if self._epoch() != epoch - 1:
                raise StateError(
                    f"Table {self._target} is at epoch {self._epoch():,}, so epoch {epoch:,} cannot be written next. "
                    "Another process writes to the table. Stop it, and follow again.",
                    name="JN-SINK-EPOCH",
                )
            if epoch == 1 and self._replace:
                self._connection.execute(sql.SQL("TRUNCATE {}").format(self._table))
            if any(batch.num_rows for batch in changes):
                self._apply(changes)
            self._connection.execute(sql.SQL(_SET_EPOCH).format(self._epochs), [self._target, self._state, epoch])

    def _load(self, table: sql.Identifier, batches: Sequence[pa.RecordBatch]) -> int:
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, _names(self._columns))
        with self._connection.cursor() as cursor, cursor.copy(copy) as copied:
            for batch in batches:
                texts = pa.table({name: to_text(batch.column(name)) for name in self._columns})
                file = io.BytesIO()
                pv.write_csv(texts, file, pv.WriteOptions(include_header=False))
                copied.write(file.getvalue())
        rows: int = sum(batch.num_rows for batch in batches)
        if rows >= _ANALYSED_ROWS:
            self._connection.execute(sql.SQL("ANALYZE {}").format(table))
        return rows

    def _apply(self, changes: Sequence[pa.RecordBatch]) -> None:
        """Delete rows without a new version, update those with one, and insert rows with new keys."""
        if any(pc.max(pc.abs(batch.column(WEIGHT))).as_py() > 1 for batch in changes if batch.num_rows):
            raise self._not_a_key("a row is there twice")
        try:
            gone = self._load(_GONE, [batch.filter(pc.less(batch.column(WEIGHT), 0)) for batch in changes])
            come = self._load(_COME, [batch.filter(pc.greater(batch.column(WEIGHT), 0)) for batch in changes])
            deleted = self._execute(
                "DELETE FROM {table} t USING {gone} g WHERE {t_is_g} "
                "AND NOT EXISTS (SELECT FROM {come} c WHERE {c_is_g})"
            )
            updated = self._execute(
                "UPDATE {table} t SET {values} FROM {come} c WHERE {t_is_c} "
                "AND EXISTS (SELECT FROM {gone} g WHERE {c_is_g})"
            )
            inserted = self._execute(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM {come} c "
                "WHERE NOT EXISTS (SELECT FROM {gone} g WHERE {c_is_g})"
            )
        except (psycopg.errors.UniqueViolation, psycopg.errors.NotNullViolation) as error:
            raise self._not_a_key(error.diag.message_detail or str(error)) from None
        if deleted + updated != gone or updated + inserted != come:
            raise StateError(
                f"Table {self._target} lacks rows that were written to it, because another program changed it. Pass "
                "replace=True and a new state folder to write the table again.",
                name="JN-SINK-CHANGED",
            )

    def _execute(self, statement: str) -> int:
        # The key is set too, so that SET is not empty if the table has no other columns.
        values = sql.SQL(", ").join(sql.SQL("{0} = c.{0}").format(sql.Identifier(name)) for name in self._columns)
        filled = sql.SQL(statement).format(
            table=self._table,
            gone=_GONE,
            come=_COME,
            columns=_names(self._columns),
            values=values,
            t_is_g=self._same("t", "g"),
            t_is_c=self._same("t", "c"),
            c_is_g=self._same("c", "g"),
        )
        return self._connection.execute(filled).rowcount

    def _same(self, one: str, other: str) -> sql.Composed:
        pairs = (
            sql.SQL("{} = {}").format(*(sql.Identifier(each, name) for each in (one, other))) for name in self._key
        )
        return sql.SQL(" AND ").join(pairs)

    def _not_a_key(self, problem: str) -> DataError:
        return DataError(
            f"key={list(self._key)!r} does not identify the rows of the result: {problem}. Pass columns that are "
            "unique and never null.",
            name="JN-SINK-KEY",
        )

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _names(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
