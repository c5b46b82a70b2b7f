"""Sources: their formats, files and columns, without reading rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from juncture.errors import DataError, SpecError
from juncture.files.arrow import arrow_schema
from juncture.files.formats import WILDCARDS, files_of, format_of, paths_of
from juncture.files.text.options import TextOptions, checked_delimiter, column_type
from juncture.files.text.read import TextFiles
from juncture.files.text.types import as_text
from juncture.inputs.files import Files
from juncture.pipeline.model import SPARK_ONLY_FORMATS, SinkSection, SourceSection
from juncture.planner.decision import Engine
from juncture.runtime.parquet import ParquetSource

if TYPE_CHECKING:
    from juncture.matching.order import Order


def format_name(source: SourceSection) -> str:
    """Return the format of a source: as named, by its paths' extensions, or ``"table"``."""
    if source.format is not None or source.table is not None:
        return source.format or "table"
    if not source.paths:
        return "table"
    first = source.paths[0]
    if "://" in first or not first.strip():
        return format_of(first, named=None, argument="path")
    is_many = Path(first).is_dir() or not WILDCARDS.isdisjoint(first)
    return format_of(first, named=None, argument="path", inside=paths_of(first, "path") if is_many else ())


def comes(source: SourceSection) -> bool:
    """Return whether a source is streamed in a streaming run."""
    return source.order is not None if source.stream is None else source.stream


def is_text(name: str) -> bool:
    """Return whether a format is text, whose types are inferred."""
    return name in ("csv", "tsv", "json")


def check_named(section: SourceSection | SinkSection, role: Literal["source", "sink"], name: str) -> None:
    """Refuse a section without a place, with two, or without the options of its format."""
    if section.connector is not None:
        section.connector.check_options(name, section.connected(role), role)
    if name == "jdbc":
        tables = {"dbtable", "query"} if role == "source" else {"dbtable"}
        if "url" not in section.options or not tables & set(section.options):
            also = ", or query in place of dbtable" if role == "source" else ""
            raise SpecError(
                f'format="jdbc" needs options = {{ url = "jdbc:…", dbtable = "…" }}{also}.',
                name="JN-ARGUMENT-CONFLICT",
            )
    elif (section.path is None) == (section.table is None):
        arguments = "both path= and table=" if section.path else "neither path= nor table="
        example = "trades" if role == "source" else "joined"
        raise SpecError(
            f'The {role} has {arguments}. Expected one of them, such as path = "{example}.parquet".',
            name="JN-ARGUMENT-CONFLICT",
        )


def check_location(source: SourceSection, engine: Engine) -> None:
    """Refuse a source without a path or table, with both, or with one that the engine cannot read."""
    name = format_name(source)
    check_named(source, "source", name)
    if source.connector is not None and engine == "spark" and comes(source):
        key = "order" if source.stream is None else "stream"
        raise SpecError(
            f"{key}= applies to streamed rows, but format={name!r} has changes. Remove it, and run with --changes.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if engine == "local" and (name == "table" or name in SPARK_ONLY_FORMATS):
        what = "Spark tables" if name == "table" else f"format={name!r}"
        raise SpecError(
            f"table= and format= name {what}, which this process cannot read. Run the pipeline on Spark, or use "
            "Parquet.",
            name="JN-PIPELINE-ENGINE",
        )
    if name != "parquet" and source.union_by_name:
        raise SpecError("union_by_name= applies to Parquet files. Remove it.", name="JN-ARGUMENT-CONFLICT")
    if name != "parquet" and source.version is not None:
        raise SpecError(
            "version= applies to Delta and Iceberg tables in folders. Remove it.", name="JN-ARGUMENT-CONFLICT"
        )
    if name == "parquet" and source.types:
        raise SpecError(
            "types= applies to text and to formats that only Spark reads. Cast columns with select, in a step.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if engine == "spark" and name == "arrow":
        raise SpecError(
            "format='arrow' is read in this process only. Run with --engine local, or use Parquet.",
            name="JN-PIPELINE-ENGINE",
        )
    if engine == "spark" and len(source.nulls) > 1:
        raise SpecError(
            f"nulls={source.nulls!r} has several texts, but Spark supports one. Keep one of them.",
            name="JN-ARGUMENT-VALUE",
        )


def check_there(source: SourceSection) -> None:
    """Refuse a missing file or folder, by its path as written."""
    for written, path in zip(source.path or (), source.paths, strict=True):
        is_local = "://" not in path and source.format not in SPARK_ONLY_FORMATS
        if is_local and WILDCARDS.isdisjoint(written) and not Path(path).exists():
            raise DataError(
                f"path={written!r} does not exist. Expected a file, folder or glob, relative to the pipeline's folder "
                f"{str(source.folder)!r}.",
                name="JN-FILE-MISSING",
            )


def source_schema(source: SourceSection) -> pa.Schema | None:
    """Return the columns of a source with resolved paths, from footers or the start of text; None if only Spark can."""
    name, types = format_name(source), types_of(source)
    if name == "parquet":
        schema = ParquetSource(source.paths, union_by_name=source.union_by_name, version=source.version).schema
        return _declared(schema, types)
    if name == "arrow":
        return _declared(arrow_schema([file for path in source.paths for file in paths_of(path, "path")]), types)
    if source.connector is not None:
        return source.connector.schema(source.connected("source"))
    if not is_text(name):
        return pa.schema(types) if types else None
    files = [file for path in source.paths for file in files_of(path, "path")]
    text = TextFiles.of(files, name, text_options(source))
    schema, (extra, _) = text.sampled_schema(), text.partitions
    # Future rows may have values in columns without values.
    return pa.schema([*_declared(as_text(schema) if comes(source) else schema, types), *extra])


def parquet_files(source: SourceSection) -> Files:
    """Return the Parquet files of a source as a join input."""
    return Files(source.paths, "parquet", source.union_by_name, source.version)


def types_of(source: SourceSection) -> dict[str, pa.DataType]:
    """Return the declared column types of a source."""
    return {name: column_type(text, argument=f"types[{name!r}]:") for name, text in source.types.items()}


def text_options(source: SourceSection, types: dict[str, Any] | None = None) -> TextOptions:
    """Return the options for reading the text of a source."""
    delimiter = "\t" if format_name(source) == "tsv" else source.delimiter
    return TextOptions(
        nulls=tuple(source.nulls),
        delimiter=checked_delimiter(delimiter, f"delimiter={delimiter!r}"),
        has_header=source.header,
        types=types_of(source) if types is None else types,
        is_all_text=source.all_text,
    )


def orders_of(source: SourceSection) -> list[Order] | None:
    """Return the declared orders of a source, or None."""
    if source.order is None:
        return None
    from juncture.matching.order import Order

    orders = source.order if isinstance(source.order, list) else [source.order]
    return [Order(each.on, delay=each.delay, descending=each.descending) for each in orders]


def _declared(schema: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    missing = [name for name in types if name not in schema.names]
    if missing:
        raise SpecError(
            f"types= names {missing[0]!r}, which is not a column. There are: {', '.join(schema.names)}.",
            name="JN-ARGUMENT-VALUE",
        )
    return pa.schema([each.with_type(types.get(each.name, each.type)) for each in schema])
