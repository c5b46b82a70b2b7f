"""PostgreSQL as a connector of pipelines: tables as sources, change sources and maintained sinks."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.errors import optional_packages
from juncture.joins.following import into_postgres, postgres, register_postgres
from juncture.pipeline.connector import Connector, ConnectorTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from juncture.incremental.sinks.sink import Sink
    from juncture.incremental.sources.source import Source


class PostgresConnector(Connector):
    """Tables of PostgreSQL. Each query has its own replication slot; on Spark, one per table."""

    source_options = {"dsn": str, "slot": str}  # noqa: RUF012 - a constant
    sink_options = {"dsn": str, "replace": bool}  # noqa: RUF012 - a constant
    required = ("dsn",)
    usage = (
        'table = "…" and options = { dsn = "…" }, such as "host=db dbname=shop". Other settings are read from '
        "PostgreSQL's environment variables and ~/.pgpass."
    )
    reads_once = True

    def schema(self, table: ConnectorTable) -> pa.Schema:
        """Return the columns of a table."""
        with _opened(table) as (_, opened):
            return opened.schema

    def rows(self, table: ConnectorTable) -> pa.RecordBatchReader:
        """Return the current rows of a table."""
        with _opened(table) as (connection, opened):
            from juncture.incremental.sources.postgres import copied

            return copied(connection, opened, lambda *_: None).to_reader()

    def origin(self, table: ConnectorTable) -> Hashable:
        """Return the database of a table."""
        return table.options["dsn"]

    def source(self, tables: Sequence[ConnectorTable], query: str) -> Source:
        """Return the transactions of tables, read from one slot."""
        first = tables[0]
        slot = _slot(first, query)
        return postgres(str(first.options["dsn"]), {each.name: each.table for each in tables}, slot=slot)

    def stream(self, spark: SparkSession, table: ConnectorTable, query: str) -> DataFrame:
        """Return the changes of a table as a stream, read from a slot of its own."""
        register_postgres(spark)
        options = {"dsn": str(table.options["dsn"]), "table": table.table, "slot": _slot(table, query, table.name)}
        return spark.readStream.format("juncture.postgres").options(**options).load()

    def sink(self, table: ConnectorTable) -> Sink:
        """Return a sink that maintains a table."""
        replace = bool(table.options.get("replace", False))
        return into_postgres(str(table.options["dsn"]), table.table, table.key, replace=replace)


@contextmanager
def _opened(table: ConnectorTable) -> Iterator[tuple[Any, Any]]:
    with optional_packages("format='postgres'"):
        from juncture.incremental.postgres import catalog, connection
    with connection.connected(str(table.options["dsn"])) as connected:
        # Rows that are only read need no identity.
        yield connected, catalog.find_tables(connected, {"it": table.table}, {}, ["it"])["it"]


def _slot(table: ConnectorTable, *names: str) -> str:
    return re.sub(r"\W", "_", "_".join([str(table.options.get("slot", "juncture")), *names]).lower())
