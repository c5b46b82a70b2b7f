"""PostgreSQL in pipelines: the columns and rows of a table, and what follows it and keeps another one up to date."""

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
    """Refuse a section that does not say where PostgreSQL is, or says what is not known.

    Raises
    ------
    SpecError
        With what to write instead.
    """
    known = _OPTIONS["source" if isinstance(section, SourceSection) else "sink"]
    if section.table is None or not isinstance(section.options.get("dsn"), str):
        raise SpecError(
            'format="postgres" needs table = "…" and options = { dsn = "…" }, such as dsn = "host=db dbname=shop". '
            "What it does not say, PostgreSQL's own variables and ~/.pgpass do."
        )
    for name in section.options:
        if name not in known:
            raise SpecError(f"options= has {name!r}, which format='postgres' lacks. Expected {' or '.join(known)}.")


def table_schema(source: SourceSection) -> pa.Schema:
    """Return the columns of a table.

    Raises
    ------
    PlanError, SpecError
        If it cannot be reached, or is not there.
    """
    with _table(source) as (_, table):
        return table.schema


def table_rows(source: SourceSection) -> pa.Table:
    """Return the rows of a table as they are.

    Raises
    ------
    PlanError, SpecError, DataError
        If they cannot be read.
    """
    module = import_module("juncture.incremental.sources.postgres")
    with _table(source) as (connection, table):
        return module.copied(connection, table, lambda *_: None)


@contextmanager
def _table(source: SourceSection) -> Iterator[tuple[Any, Any]]:
    """Connect to the database of a source, and yield the connection and the table there."""
    try:
        catalog = import_module("juncture.incremental.postgres.catalog")
        connection = import_module("juncture.incremental.postgres.connection")
    except ImportError as error:
        raise PlanError(
            f"format='postgres' takes the Python package psycopg, which cannot be loaded ({error}). Install it by "
            "pip install 'juncture[postgres]'."
        ) from error
    with connection.connected(str(source.options["dsn"])) as connected:
        # Rows that are only read need not be told apart.
        yield connected, catalog.find_tables(connected, {"it": source.table}, {}, ["it"])["it"]


def follow_tables(sources: Mapping[str, SourceSection], sink: str) -> Any:
    """Return what reads tables of one database, and then what changes in them.

    Parameters
    ----------
    sources
        The sources, all of one ``dsn``.
    sink
        The sink that they lead to, which has a replication slot of its own.
    """
    from juncture.joins.following import postgres

    first = next(iter(sources.values()))
    tables = {each: str(source.table) for each, source in sources.items()}
    return postgres(str(first.options["dsn"]), tables, slot=_slot(first, sink))


def stream_options(source: SourceSection, name: str, sink: str) -> dict[str, str]:
    """Return the options of the stream, on Spark, of what changes in a table.

    Parameters
    ----------
    source, name
        The source, and what it is called.
    sink
        The sink that it leads to: each has a replication slot of its own for each table.
    """
    return {"dsn": str(source.options["dsn"]), "table": str(source.table), "slot": _slot(source, sink, name)}


def _slot(source: SourceSection, *names: str) -> str:
    """Return the name of a replication slot."""
    return re.sub(r"\W", "_", "_".join([str(source.options.get("slot", "juncture")), *names]).lower())


def table_sink(sink: SinkSection) -> Any:
    """Return what keeps a table up to date."""
    from juncture.joins.following import into_postgres

    dsn, replace = str(sink.options["dsn"]), bool(sink.options.get("replace", False))
    return into_postgres(dsn, str(sink.table), sink.keys, replace=replace)
