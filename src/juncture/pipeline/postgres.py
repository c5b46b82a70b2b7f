"""PostgreSQL in pipelines: tables as sources, change sources and maintained sinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.pipeline.model import SinkSection, SourceSection

_OPTIONS = {"source": ("dsn", "slot"), "sink": ("dsn", "replace")}


def check_options(section: SourceSection | SinkSection) -> None:
    """Refuse missing or unknown options."""
    known = _OPTIONS["source" if isinstance(section, SourceSection) else "sink"]
    if section.table is None or not isinstance(section.options.get("dsn"), str):
        raise SpecError(
            'format="postgres" needs table = "…" and options = { dsn = "…" }, such as "host=db dbname=shop". Other '
            "settings are read from PostgreSQL's environment variables and ~/.pgpass.",
            name="JN-ARGUMENT-CONFLICT",
        )
    for name in section.options:
        if name not in known:
            raise SpecError(
                f"options={name!r} is not an option of format='postgres'. Expected {' or '.join(known)}.",
                name="JN-ARGUMENT-UNKNOWN",
            )


def table_schema(source: SourceSection) -> pa.Schema:
    """Return the columns of a table."""
    with _table(source) as (_, table):
        return table.schema


def table_rows(source: SourceSection) -> pa.Table:
    """Return the current rows of a table."""
    module = import_module("juncture.incremental.sources.postgres")
    with _table(source) as (connection, table):
        return module.copied(connection, table, lambda *_: None)


@contextmanager
def _table(source: SourceSection) -> Iterator[tuple[Any, Any]]:
    """Connect to the database of a source, and yield the connection and the table."""
    try:
        catalog = import_module("juncture.incremental.postgres.catalog")
        connection = import_module("juncture.incremental.postgres.connection")
    except ImportError as error:
        raise PlanError(
            f"format='postgres' needs the package psycopg, which cannot be imported ({error}). Install it with pip "
            "install 'juncture[postgres]'.",
            name="JN-PACKAGE-MISSING",
        ) from error
    with connection.connected(str(source.options["dsn"])) as connected:
        # Rows that are only read need no identity.
        yield connected, catalog.find_tables(connected, {"it": source.table}, {}, ["it"])["it"]


def follow_tables(sources: Mapping[str, SourceSection], sink: str) -> Any:
    """Return a change source of tables with one ``dsn``. Each sink has its own replication slot."""
    from juncture.joins.following import postgres

    first = next(iter(sources.values()))
    tables = {each: str(source.table) for each, source in sources.items()}
    return postgres(str(first.options["dsn"]), tables, slot=_slot(first, sink))


def stream_options(source: SourceSection, name: str, sink: str) -> dict[str, str]:
    """Return the options of a Spark stream of a table's changes. Each sink has its own replication slot per table."""
    return {"dsn": str(source.options["dsn"]), "table": str(source.table), "slot": _slot(source, sink, name)}


def _slot(source: SourceSection, *names: str) -> str:
    """Return the name of a replication slot."""
    return re.sub(r"\W", "_", "_".join([str(source.options.get("slot", "juncture")), *names]).lower())


def table_sink(sink: SinkSection) -> Any:
    """Return a sink that maintains a table."""
    from juncture.joins.following import into_postgres

    dsn, replace = str(sink.options["dsn"]), bool(sink.options.get("replace", False))
    return into_postgres(dsn, str(sink.table), sink.keys, replace=replace)
