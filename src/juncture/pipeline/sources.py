"""Sources: their formats, the files that they lead to, and what columns they have, all without reading rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from juncture.errors import DataError, SpecError
from juncture.files.arrow import arrow_schema
from juncture.files.formats import format_of
from juncture.files.found import WILDCARDS, files_of, paths_of
from juncture.files.text.options import TextOptions, column_type
from juncture.files.text.read import sampled_schema
from juncture.files.text.types import as_text
from juncture.inputs import Files
from juncture.pipeline.model import KEPT_FORMATS, SourceSection
from juncture.pipeline.postgres import check_options, table_schema
from juncture.planner.decision import Engine
from juncture.runtime.partitions import partitions_of
from juncture.runtime.sources import ParquetSource

if TYPE_CHECKING:
    from juncture.streams.order import Order


def format_name(source: SourceSection) -> str:
    """Return the format of a source: that of its name, of its path's ending, or ``"table"``.

    Raises
    ------
    SpecError
        If nothing says which.
    """
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
    """Tell whether the rows of a source come as a stream, where it is run as one."""
    return source.order is not None if source.stream is None else source.stream


def is_text(name: str) -> bool:
    """Tell whether a format holds text, of which types have to be found out."""
    return name in ("csv", "tsv", "json")


def resolved(source: SourceSection, folder: Path) -> SourceSection:
    """Return a source whose paths go from where its file is."""

    def placed(path: str) -> str:
        return path if "://" in path else str(folder / Path(path).expanduser())

    changes = None if source.changes is None else placed(source.changes)
    return source.model_copy(update={"path": [placed(path) for path in source.paths] or None, "changes": changes})


def check_place(source: SourceSection, engine: Engine) -> None:
    """Refuse a source that names no place, two of them, or one that the engine does not reach.

    Raises
    ------
    SpecError
        With what to write instead.
    """
    name = format_name(source)
    if name == "jdbc":
        if "url" not in source.options or not {"dbtable", "query"} & set(source.options):
            raise SpecError(
                'format="jdbc" needs options = { url = "jdbc:…", dbtable = "…" }, or query in place of dbtable.'
            )
    elif (source.path is None) == (source.table is None):
        given = "both path= and table=" if source.path else "neither path= nor table="
        raise SpecError(f'The source has {given}. Expected one of them, such as path = "trades.parquet".')
    if name == "postgres":
        check_options(source)
        if engine == "spark" and comes(source):
            key = "order" if source.stream is None else "stream"
            raise SpecError(
                f"{key}= is for rows that come, and those of format='postgres' change. Leave it out, and keep sinks up "
                "to date by juncture run --changes."
            )
    if engine == "local" and (name == "table" or name in KEPT_FORMATS):
        what = "tables of Spark's" if name == "table" else f"format={name!r}"
        raise SpecError(
            f"table= and format= name {what}, which this process does not read. Run it on Spark, or write Parquet."
        )
    if name != "parquet" and source.union_by_name:
        raise SpecError("union_by_name= is for Parquet files. Leave it out.")
    if name == "parquet" and source.types:
        raise SpecError("types= is for text, and for what only Spark reads. Convert columns with select, in a step.")
    if engine == "spark" and name == "arrow":
        raise SpecError("format='arrow' is read in this process only. Run it with --engine local, or write Parquet.")
    if engine == "spark" and len(source.nulls) > 1:
        raise SpecError(f"nulls={source.nulls!r} has several texts, and Spark knows one. Leave one of them.")


def check_there(source: SourceSection, folder: Path) -> None:
    """Refuse a file or folder that is not there, as the pipeline's file names it.

    Raises
    ------
    DataError
        If there is one.
    """
    for path in source.paths if source.format not in KEPT_FORMATS else ():
        if "://" not in path and WILDCARDS.isdisjoint(path) and not (folder / Path(path).expanduser()).exists():
            raise DataError(
                f"path={path!r} does not exist. Expected a file, a folder or a glob, from the folder of the pipeline's "
                f"file, {str(folder)!r}."
            )


def source_schema(source: SourceSection) -> pa.Schema | None:
    """Return the columns of a source, whose paths are resolved; None where only Spark knows them.

    Raises
    ------
    JunctureError
        If there is nothing to read, it cannot be read, or has no such columns as ``types`` names.

    Notes
    -----
    Of Parquet the footers are read, of text the first megabyte of each file.
    """
    name, types = format_name(source), types_of(source)
    if name == "parquet":
        schema = ParquetSource(source.paths, union_by_name=source.union_by_name).schema
        return _declared(schema, types)
    if name == "arrow":
        return _declared(arrow_schema([file for path in source.paths for file in paths_of(path, "path")]), types)
    if name == "postgres":
        return table_schema(source)
    if not is_text(name):
        return pa.schema(types) if types else None
    files = [file for path in source.paths for file in files_of(path, "path")]
    extra, _ = partitions_of(files)
    paths = [Path(file.path) for file in files]
    schema = sampled_schema(paths, "json" if name == "json" else "csv", text_options(source))
    # Rows that are still to come may have values where there are none yet.
    return pa.schema([*_declared(as_text(schema) if comes(source) else schema, types), *extra])


def parquet_files(source: SourceSection) -> Files:
    """Return the Parquet files of a source as joins take them."""
    return Files(source.paths, "parquet", source.union_by_name)


def types_of(source: SourceSection) -> dict[str, pa.DataType]:
    """Return the types that a source says its columns have.

    Raises
    ------
    SpecError
        If one of them is none.
    """
    return {name: column_type(text, argument=f"types[{name!r}]:") for name, text in source.types.items()}


def text_options(source: SourceSection, types: dict[str, Any] | None = None) -> TextOptions:
    """Return how the text of a source is to be read.

    Raises
    ------
    SpecError
        If the delimiter is none.
    """
    delimiter = "\t" if format_name(source) == "tsv" else source.delimiter
    if len(delimiter) != 1 or delimiter in '\r\n"' or not delimiter.isascii():
        raise SpecError(f"delimiter={delimiter!r} is no delimiter. Expected one character of ASCII, such as ';'.")
    return TextOptions(
        nulls=tuple(source.nulls),
        delimiter=delimiter,
        has_header=source.header,
        types=types_of(source) if types is None else types,
        is_all_text=source.all_text,
    )


def orders_of(source: SourceSection) -> list[Order] | None:
    """Return the orders in which the rows of a source come, or None if it names none.

    Raises
    ------
    SpecError
        If a delay makes no sense.
    """
    if source.order is None:
        return None
    from juncture.streams.order import Order

    given = source.order if isinstance(source.order, list) else [source.order]
    return [Order(each.on, delay=each.delay, descending=each.descending) for each in given]


def _declared(schema: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    missing = [name for name in types if name not in schema.names]
    if missing:
        raise SpecError(f"types= names {missing[0]!r}, which is no column. There are: {', '.join(schema.names)}.")
    return pa.schema([each.with_type(types.get(each.name, each.type)) for each in schema])
