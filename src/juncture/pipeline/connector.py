"""Connectors: kinds of changing tables that ``format`` selects in a pipeline file, and their registry."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa

from juncture.errors import PlanError, SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from juncture.incremental.sinks.sink import Sink
    from juncture.incremental.sources.source import Source

GROUP = "juncture.connectors"
"""The group of entry points by which packages add connectors. The name of an entry point is the format."""

_BUILTIN = MappingProxyType({"postgres": "juncture.pipeline.postgres:PostgresConnector"})

Option = str | bool | int | float


@dataclass(frozen=True)
class ConnectorTable:
    """A table as a section of a pipeline file describes it.

    Attributes
    ----------
    name
        The name of the section.
    table
        The value of ``table``: what the connector calls the table.
    options
        The value of ``options``.
    key
        The value of ``key``: the columns that identify a row of a sink.
    schema
        The columns of the table; None if they are not known yet.
    """

    name: str
    table: str
    options: Mapping[str, Option] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    schema: pa.Schema | None = None


class Connector:
    """A kind of changing tables, such as the tables of a database. Subclass it to add a ``format`` to pipelines.

    A package registers its class as an entry point of the group ``juncture.connectors``. A subclass for sources
    implements `schema`, `rows`, `origin` and `source`, and `stream` for Spark; one for sinks implements `sink`.
    A pipeline has an object of the class per format, so the class takes no arguments and keeps no connection.

    Attributes
    ----------
    source_options, sink_options
        The keys of ``options`` with their types. None (default) means that there are no sources, or no sinks.
    required
        The options that a section needs.
    usage
        The keys that a section needs, for messages.
    reads_once
        Whether a Spark query can read the changes of a table only once, as from a replication slot.

    Examples
    --------
    >>> import juncture as jn
    >>> class ShopConnector(jn.Connector):
    ...     source_options = {"token": str}
    ...     required = ("token",)
    ...     usage = 'table = "sales" and options = { token = "…" }'
    >>> ShopConnector().check_options("shop", jn.ConnectorTable("sales", "sales", {"tokn": "a"}), "source")
    Traceback (most recent call last):
    juncture.errors.SpecError: [JN-ARGUMENT-CONFLICT] format='shop' needs table = "sales" and options = { token = "…" }
    """

    source_options: ClassVar[Mapping[str, type[Option]] | None] = None
    sink_options: ClassVar[Mapping[str, type[Option]] | None] = None
    required: ClassVar[Sequence[str]] = ()
    usage: ClassVar[str] = 'table = "…"'
    reads_once: ClassVar[bool] = False

    def check_options(self, format_name: str, table: ConnectorTable, role: Literal["source", "sink"]) -> None:
        """Raise `SpecError` if the options of a section are missing, unknown or of another type."""
        options = self.source_options if role == "source" else self.sink_options
        if options is None:
            raise SpecError(
                f"format={format_name!r} has no {role}s. Use another format for this {role}.", name="JN-ARGUMENT-VALUE"
            )
        if not table.table or any(name not in table.options for name in self.required):
            raise SpecError(f"format={format_name!r} needs {self.usage}", name="JN-ARGUMENT-CONFLICT")
        for name, value in table.options.items():
            if name not in options:
                raise SpecError(
                    f"options={name!r} is not an option of format={format_name!r}. Expected {' or '.join(options)}.",
                    name="JN-ARGUMENT-UNKNOWN",
                )
            if not isinstance(value, options[name]):
                raise SpecError(
                    f"options={name!r} has the value {value!r} ({type(value).__name__}). Expected "
                    f"{options[name].__name__}.",
                    name="JN-ARGUMENT-TYPE",
                )

    def schema(self, table: ConnectorTable) -> pa.Schema:
        """Return the columns of a table."""
        raise NotImplementedError

    def rows(self, table: ConnectorTable) -> pa.RecordBatchReader:
        """Return the current rows of a table, for batch runs."""
        raise NotImplementedError

    def origin(self, table: ConnectorTable) -> Hashable:
        """Return what the changes of a table are read from. Changes of one origin can share an epoch."""
        raise NotImplementedError

    def source(self, tables: Sequence[ConnectorTable], query: str) -> Source:
        """Return the changes of tables of one origin, by their names. ``query`` names the reader, for its position."""
        raise NotImplementedError

    def stream(self, spark: SparkSession, table: ConnectorTable, query: str) -> DataFrame:  # noqa: ARG002 - for subclasses
        """Return the changes of a table as a streaming DataFrame with a column ``_weight``."""
        raise PlanError(
            f"The source {table.name!r} cannot be read by Spark. Run the pipeline with --engine local.",
            name="JN-PIPELINE-ENGINE",
        )

    def sink(self, table: ConnectorTable) -> Sink:
        """Return the sink that applies the changes of a result to a table."""
        raise NotImplementedError


class ChangeFolders(Connector):
    """Folders of change files, which the key ``changes`` of a source or sink names. ``table`` is the folder."""

    def schema(self, table: ConnectorTable) -> pa.Schema:
        """Return the columns of the Parquet files in a folder, with those that describe changes."""
        from juncture.runtime.parquet import ParquetSource

        return ParquetSource([table.table]).schema

    def origin(self, table: ConnectorTable) -> Hashable:  # noqa: ARG002 - a parameter of the interface
        """Return the same origin for all folders."""
        return ()

    def source(self, tables: Sequence[ConnectorTable], query: str) -> Source:  # noqa: ARG002 - as above
        """Return the files of the folders as a source."""
        from juncture.incremental.sources.files import FilesSource

        folders = {table.name: Path(table.table) for table in tables}
        return FilesSource(folders, {table.name: table.schema for table in tables})

    def stream(self, spark: SparkSession, table: ConnectorTable, query: str) -> DataFrame:  # noqa: ARG002 - as above
        """Return the files of a folder as a stream. Without a column that describes changes, all rows are inserts."""
        from pyspark.sql.functions import lit

        from juncture.incremental.changes.change_batch import WEIGHT, rows_within
        from juncture.spark.schema import spark_schema

        schema = self.schema(table)
        stream = spark.readStream.schema(spark_schema(schema)).parquet(str(Path(table.table).absolute()))
        return stream if rows_within(schema, table.name)[1] else stream.withColumn(WEIGHT, lit(1).cast("long"))

    def sink(self, table: ConnectorTable) -> Sink:
        """Return a folder as a sink."""
        from juncture.incremental.sinks.files import FilesSink

        return FilesSink(Path(table.table))


def connector_names() -> list[str]:
    """Return the formats that have connectors."""
    return sorted({*_BUILTIN, *entry_points(group=GROUP).names})


@cache
def connector_named(name: str) -> Connector | None:
    """Return the connector of a format; None for formats of files and others."""
    if name in _BUILTIN:
        connector: Connector = EntryPoint(name, _BUILTIN[name], GROUP).load()()
        return connector
    for entry in entry_points(group=GROUP, name=name):
        try:
            connector = entry.load()()
        except Exception as error:
            raise PlanError(
                f"format={name!r} cannot be loaded from {entry.value}: {error}. Correct or remove its package.",
                name="JN-CONNECTOR-LOAD",
            ) from error
        return connector
    return None
