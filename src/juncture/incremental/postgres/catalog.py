"""Reads tables from PostgreSQL's catalog, and validates that their changes can be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from juncture.errors import PlanError, SchemaError, SpecError, did_you_mean
from juncture.incremental.postgres.connection import reported
from juncture.incremental.postgres.values import Types

_VERSION_LEAST = 150_000


@dataclass(frozen=True)
class Column:
    """A column as PostgreSQL publishes it. ``data_type`` is its Arrow type."""

    name: str
    type_oid: int
    modifier: int
    data_type: pa.DataType


@dataclass(frozen=True)
class PostgresTable:
    """A table that is read. ``name`` is its name in Juncture, ``schema_name`` and ``table_name`` in PostgreSQL."""

    name: str
    oid: int
    schema_name: str
    table_name: str
    columns: tuple[Column, ...]
    only_grows: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns. All are nullable, because the log does not report dropped NOT NULL constraints."""
        return pa.schema([(column.name, column.data_type) for column in self.columns])

    @property
    def full_name(self) -> str:
        """The name in PostgreSQL, for messages."""
        return f"{self.schema_name}.{self.table_name}"

    @property
    def identifier(self) -> sql.Identifier:
        """The name in PostgreSQL, for queries."""
        return sql.Identifier(self.schema_name, self.table_name)


def check_server(connection: psycopg.Connection[Any]) -> None:
    """Raise an error with the remedy if the server or the user does not allow reading changes."""
    version = connection.info.server_version
    if version < _VERSION_LEAST:
        raise PlanError(
            f"The PostgreSQL server has version {version // 10_000}. Expected version 15 or newer.",
            name="JN-POSTGRES-VERSION",
        )
    row = connection.execute(
        "SELECT current_setting('wal_level'), rolreplication OR rolsuper, current_user FROM pg_catalog.pg_roles "
        "WHERE rolname = current_user"
    ).fetchone()
    level, may_replicate, user = row or ("?", False, "?")
    if level != "logical":
        raise PlanError(
            f"The server's wal_level is {level!r}. Expected 'logical'. Run ALTER SYSTEM SET wal_level = 'logical', "
            "and restart the server.",
            name="JN-POSTGRES-SETTING",
        )
    if not may_replicate:
        raise PlanError(
            f"The PostgreSQL user {user!r} has no REPLICATION privilege. Run ALTER ROLE {user} REPLICATION as a "
            "superuser, or connect as another user.",
            name="JN-POSTGRES-PRIVILEGE",
        )


def find_tables(
    connection: psycopg.Connection[Any],
    names: Mapping[str, str],
    types: Mapping[str, pa.DataType],
    only_grow: Collection[str],
) -> dict[str, PostgresTable]:
    """Return tables by their names in Juncture. ``types`` overrides types of columns named ``table.column``."""
    for name in only_grow:
        if name not in names:
            raise SpecError(
                f"append_only= has {name!r}, which is not in tables=. {did_you_mean(name, names)}",
                name="JN-ARGUMENT-VALUE",
            )
    type_catalog = Types(connection)
    unused = dict(types)
    by_name = {
        name: _table(connection, name, there, type_catalog, unused, only_grows=name in only_grow)
        for name, there in names.items()
    }
    if unused:
        every = [f"{name}.{column.name}" for name, table in by_name.items() for column in table.columns]
        unused_name = next(iter(unused))
        raise SpecError(
            f"types= has {unused_name!r}, which is not a column of the tables. {did_you_mean(unused_name, every)}",
            name="JN-ARGUMENT-VALUE",
        )
    return by_name


def _table(
    connection: psycopg.Connection[Any],
    name: str,
    there: str,
    type_catalog: Types,
    types: dict[str, pa.DataType],
    *,
    only_grows: bool,
) -> PostgresTable:
    with reported(f"look up the table {there!r}"):
        row = connection.execute(
            "SELECT c.oid::int8, n.nspname, c.relname, c.relkind, c.relreplident, "
            "has_table_privilege(c.oid, 'SELECT') "
            "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s)",
            [there],
        ).fetchone()
    if row is None:
        raise SchemaError(
            f"Table {there!r} does not exist in the database. {did_you_mean(there, _all_tables(connection))}",
            name="JN-TABLE-MISSING",
        )
    oid, schema_name, table_name, kind, identity, is_readable = row
    full_name = f"{schema_name}.{table_name}"
    if kind not in "rp":
        raise SchemaError(
            f"{full_name} is not a table, but for example a view or an index, which has no change log. Name the tables "
            "that it is built from.",
            name="JN-TABLE-KIND",
        )
    if not is_readable:
        raise PlanError(
            f"The PostgreSQL user may not read {full_name}. Run GRANT SELECT ON {full_name} as its owner.",
            name="JN-POSTGRES-PRIVILEGE",
        )
    if identity != "f" and not only_grows:
        raise PlanError(
            f"{full_name} does not log the old rows of updates and deletes, which the join needs. Run ALTER TABLE "
            f"{full_name} REPLICA IDENTITY FULL. If its rows are never updated or deleted, pass "
            f"append_only=[{name!r}] instead.",
            name="JN-REPLICA-IDENTITY",
        )
    rows = connection.execute(
        "SELECT attname, atttypid::int8, atttypmod FROM pg_catalog.pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated IN ('', %s) ORDER BY attnum",
        [oid, _generated(connection)],
    )
    columns = tuple(
        Column(
            column, type_oid, modifier, types.pop(f"{name}.{column}", None) or type_catalog.arrow(type_oid, modifier)
        )
        for column, type_oid, modifier in rows
    )
    return PostgresTable(name, oid, schema_name, table_name, columns, only_grows)


def _generated(connection: psycopg.Connection[Any]) -> str:
    """Return which generated columns are published: the stored ones since version 18."""
    return "s" if connection.info.server_version >= 180_000 else ""


def _all_tables(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN relname ELSE nspname || '.' || relname END "
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace "
        "WHERE relkind IN ('r', 'p') AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
    )
    return [row[0] for row in rows]


def ensure_publication(
    connection: psycopg.Connection[Any], publication: str, tables: Mapping[str, PostgresTable]
) -> None:
    """Create a publication of the tables, or validate the existing one."""
    row = connection.execute(
        "SELECT pubinsert, pubupdate AND pubdelete AND pubtruncate FROM pg_catalog.pg_publication WHERE pubname = %s",
        [publication],
    ).fetchone()
    if row is None:
        _make_publication(connection, publication, tables)
        return
    rows = connection.execute(
        "SELECT schemaname, tablename, attnames, rowfilter FROM pg_catalog.pg_publication_tables WHERE pubname = %s",
        [publication],
    )
    published = {(each[0], each[1]): each[2:] for each in rows}
    fix = f"Run ALTER PUBLICATION {publication}, or pass a new name as publication=, which is then created."
    for table in tables.values():
        has = published.get((table.schema_name, table.table_name))
        if has is None:
            raise PlanError(
                f"Publication {publication!r} does not contain the table {table.full_name}. Run ALTER PUBLICATION "
                f"{publication} ADD TABLE {table.full_name}, or pass a new name as publication=, which is then "
                "created.",
                name="JN-PUBLICATION",
            )
        columns, row_filter = has
        if row_filter is not None or set(columns) != {column.name for column in table.columns}:
            raise PlanError(
                f"Publication {publication!r} excludes rows or columns of {table.full_name}. {fix}",
                name="JN-PUBLICATION",
            )
        if not (row[0] and (row[1] or table.only_grows)):
            raise PlanError(
                f"Publication {publication!r} does not publish every kind of change of {table.full_name}. {fix}",
                name="JN-PUBLICATION",
            )


def _make_publication(
    connection: psycopg.Connection[Any], publication: str, tables: Mapping[str, PostgresTable]
) -> None:
    options = "publish_via_partition_root = true"
    if _generated(connection):
        options += ", publish_generated_columns = stored"
    with reported(f"create the publication {publication!r}"):
        connection.execute(
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (" + options + ")").format(
                sql.Identifier(publication), sql.SQL(", ").join([table.identifier for table in tables.values()])
            )
        )
