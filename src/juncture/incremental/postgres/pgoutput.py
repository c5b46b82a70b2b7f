"""Decodes messages of PostgreSQL's plugin ``pgoutput`` into change batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct

import numpy as np
import pyarrow as pa

from juncture.errors import DataError, SchemaError
from juncture.incremental.changes.change_batch import WEIGHT
from juncture.incremental.postgres.catalog import PostgresTable
from juncture.incremental.postgres.values import DoesNotFitError, from_text

_COMMIT = Struct(">BQQ")
_TUPLE = Struct(">H")
_LENGTH = Struct(">I")
_OID = Struct(">I")
_COLUMN = Struct(">Ii")

_INSERT, _UPDATE, _DELETE, _RELATION, _TRUNCATE, _BEGIN, _END = b"IUDRTBC"
_OF_A_TABLE = (_INSERT, _UPDATE, _DELETE, _RELATION)
(_OLD_ROW,) = b"O"
_TEXT, _NULL = b"tn"

_Value = bytes | None
_Row = tuple[_Value, ...]
_UNCHANGED = b"\x00unchanged"
"""Marks a large value that an update did not change. No text of PostgreSQL has a zero byte."""


@dataclass
class TableChanges:
    """Changes of one table in the order of the log. ``is_truncated`` deletes all earlier rows first."""

    rows: list[_Row] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    is_truncated: bool = False

    def truncate(self) -> None:
        """Remove all rows."""
        self.rows.clear()
        self.weights.clear()
        self.is_truncated = True

    def add(self, later: TableChanges) -> None:
        """Append later changes."""
        if later.is_truncated:
            self.truncate()
        self.rows += later.rows
        self.weights += later.weights


class Decoder:
    """Decodes messages, and collects the changes of each transaction. Changes of other tables are skipped."""

    def __init__(self, tables: Mapping[str, PostgresTable]) -> None:
        self._tables = {table.oid: table for table in tables.values()}
        self._gathered: dict[str, TableChanges] = {}
        self.in_transaction = False

    def taken(self) -> dict[str, TableChanges]:
        """Return and clear the changes of the transaction that has just ended, by table."""
        taken, self._gathered = self._gathered, {}
        return taken

    def read(self, message: bytes) -> int | None:
        """Decode a message; at the end of a transaction, return the position in the log after it."""
        kind = message[0]
        if kind in _OF_A_TABLE:
            table = self._tables.get(_OID.unpack_from(message, 1)[0])
            if table is not None:
                self._read_of(table, kind, message)
        elif kind == _BEGIN:
            self.in_transaction = True
        elif kind == _END:
            self.in_transaction = False
            end: int = _COMMIT.unpack_from(message, 1)[2]
            return end
        elif kind == _TRUNCATE:
            self._truncate(message)
        return None

    def _read_of(self, table: PostgresTable, kind: int, message: bytes) -> None:
        if kind == _RELATION:
            _check_relation(table, message)
            return
        if kind != _INSERT and message[5] != _OLD_ROW:
            raise _without_old_row(table, "An update" if kind == _UPDATE else "A delete")
        row, offset = _read_tuple(message, 6)
        if kind != _UPDATE:
            self._add(table, row, 1 if kind == _INSERT else -1)
            return
        new, _ = _read_tuple(message, offset + 1)
        if _UNCHANGED in new:
            new = tuple(before if each is _UNCHANGED else each for before, each in zip(row, new, strict=True))
        if row != new:
            self._add(table, row, -1)
            self._add(table, new, 1)

    def _of(self, table: PostgresTable) -> TableChanges:
        return self._gathered.setdefault(table.name, TableChanges())

    def _add(self, table: PostgresTable, row: _Row, weight: int) -> None:
        gathered = self._of(table)
        gathered.rows.append(row)
        gathered.weights.append(weight)

    def _truncate(self, message: bytes) -> None:
        (count,) = _OID.unpack_from(message, 1)
        for at in range(6, 6 + 4 * count, 4):
            table = self._tables.get(_OID.unpack_from(message, at)[0])
            if table is not None:
                self._of(table).truncate()


def _without_old_row(table: PostgresTable, what: str) -> DataError:
    if table.only_grows:
        return DataError(
            f"{what} of {table.full_name} arrived, although append_only= names the table. Run ALTER TABLE "
            f"{table.full_name} REPLICA IDENTITY FULL, remove the table from append_only=, and start again with "
            "a new state folder.",
            name="JN-CHANGE-OLD-ROW",
        )
    return DataError(
        f"{what} of {table.full_name} arrived without the old row, because its REPLICA IDENTITY is no longer FULL. "
        f"Run ALTER TABLE {table.full_name} REPLICA IDENTITY FULL, and start again with a new state folder.",
        name="JN-CHANGE-OLD-ROW",
    )


def _check_relation(table: PostgresTable, message: bytes) -> None:
    offset = message.index(b"\0", message.index(b"\0", 5) + 1) + 2  # after both names and the replica identity
    (count,) = _TUPLE.unpack_from(message, offset)
    offset += 2
    now = []
    for _ in range(count):
        end = message.index(b"\0", offset + 1)
        now.append((message[offset + 1 : end].decode(), *_COLUMN.unpack_from(message, end + 1)))
        offset = end + 9
    before = [(column.name, column.type_oid, column.modifier) for column in table.columns]
    if now != before:
        raise SchemaError(
            f"Table {table.full_name} was altered: {_difference(before, now)}. Changes after that were not applied. "
            "Start again with a new state folder and a new slot.",
            name="JN-TABLE-CHANGED",
        )


def commit_lsn(message: bytes) -> int:
    """Return the position of a commit message in the log. A slot that starts after it excludes the transaction."""
    offset: int = _COMMIT.unpack_from(message, 1)[1]
    return offset


def _difference(before: list[tuple[str, int, int]], now: list[tuple[str, int, int]]) -> str:
    names_before, names_now = [each[0] for each in before], [each[0] for each in now]
    for name in names_now:
        if name not in names_before:
            return f"column {name!r} was added"
    for name in names_before:
        if name not in names_now:
            return f"column {name!r} was dropped"
    for name, *was in before:
        if was != list(next(each[1:] for each in now if each[0] == name)):
            return f"column {name!r} has another type"
    return "its columns have another order"


def _read_tuple(message: bytes, offset: int) -> tuple[_Row, int]:
    """Return a row, and the position after it; ``offset`` is after the letter of the kind of row."""
    (count,) = _TUPLE.unpack_from(message, offset)
    offset += 2
    values: list[_Value] = []
    for _ in range(count):
        kind = message[offset]
        if kind == _TEXT:
            start = offset + 5
            offset = start + _LENGTH.unpack_from(message, offset + 1)[0]
            values.append(message[start:offset])
        else:
            values.append(None if kind == _NULL else _UNCHANGED)
            offset += 1
    return tuple(values), offset


def change_schema(table: PostgresTable) -> pa.Schema:
    """Return the columns of changes of a table."""
    return table.schema.append(pa.field(WEIGHT, pa.int64()))


def columns_of(table: PostgresTable, texts: list[pa.Array]) -> list[pa.Array]:
    """Return columns of a table, given as text."""
    columns = []
    for column, values in zip(table.columns, texts, strict=True):
        try:
            columns.append(from_text(values, column.data_type))
        except DoesNotFitError as error:
            raise DataError(
                f"Column {column.name!r} of {table.full_name} has the value {error.value!r}, which does not fit the "
                f"type {column.data_type}. Pass types={{'{table.name}.{column.name}': pa.string()}} to read it "
                "as text.",
                name="JN-VALUE-RANGE",
            ) from None
    return columns


def batch_of(table: PostgresTable, gathered: TableChanges) -> pa.RecordBatch:
    """Return changes of a table as a change batch."""
    columns = zip(*gathered.rows, strict=True) if gathered.rows else [()] * len(table.columns)
    texts = [pa.array(list(column), pa.string()) for column in columns]
    weights = pa.array(np.array(gathered.weights, np.int64))
    return pa.RecordBatch.from_arrays([*columns_of(table, texts), weights], schema=change_schema(table))
