"""Files as tables of this process: Parquet by row group, text and Arrow batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from juncture.errors import DataError, PlanError, SpecError
from juncture.files.arrow import arrow_rows, arrow_schema
from juncture.files.formats import WILDCARDS, Format, format_by_name
from juncture.files.text.options import TextOptions
from juncture.files.text.read import TextFiles
from juncture.inputs.files import Files
from juncture.inputs.tables import InputTable, of_batches
from juncture.runtime.footers import check_unchanged
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.paths import FoundFile, IsData, kind_at, lake_format, listed
from juncture.runtime.stores import path_text, place_of


def open_files(files: Files) -> ParquetSource | InputTable:
    """Return the rows of files. Text is read once to infer its types, and again for its rows."""
    formats = {files.format or format_at(path, files.store): path for path in files.paths}
    if len(formats) > 1:
        (one, first), (other, second) = list(formats.items())[:2]
        raise SpecError(
            f"The path {first!r} has {one} files, but {second!r} has {other} files. Expected one format per table. "
            "Pass files of one format, or join two tables.",
            name="JN-FILE-FORMAT",
        )
    [chosen] = formats
    if chosen == "parquet":
        return ParquetSource(
            files.paths, union_by_name=files.union_by_name, version=files.version, filesystem=files.store
        )
    if files.version is not None:
        raise SpecError(
            f"version={files.version} applies to Delta and Iceberg tables, but {files.paths[0]!r} has {chosen} files. "
            "Remove it.",
            name="JN-ARGUMENT-CONFLICT",
        )
    if files.union_by_name:
        raise SpecError(
            f"union_by_name=True applies to Parquet files, but {files.paths[0]!r} has {chosen} files. Remove it.",
            name="JN-ARGUMENT-CONFLICT",
        )

    def is_data(name: str) -> bool:
        return files.format is not None or format_by_name(Path(name)) == chosen

    if files.filesystem is not None:
        raise _remote(files.paths[0], chosen)
    data_files = [file for path in files.paths for file in _files_of(path, chosen, is_data)]
    if chosen == "arrow":
        paths = [Path(file.path) for file in data_files]
        schema, rows = arrow_schema(paths), partial(arrow_rows, paths)
    else:
        text = TextFiles.of(data_files, chosen, TextOptions())
        schema = text.schema()
        rows = partial(_text_rows, text, schema)

    def unchanged_rows() -> Iterator[pa.RecordBatch]:
        # The types hold for the files as they were read before.
        for file in data_files:
            check_unchanged(file)
        yield from rows()

    return of_batches(schema, unchanged_rows, is_stream=False)


def format_at(path: str, filesystem: FileSystem | None = None) -> Format:
    """Return the format of the files at a path, by the ending of the path or of the files in it; Parquet by default."""
    named = format_by_name(Path(path.partition("?")[0] if "://" in path else path))
    if named is not None or "://" in path or filesystem is not None:
        return named or "parquet"
    if WILDCARDS.isdisjoint(path) and (kind_at(path) != FileType.Directory or lake_format(*place_of(path))):
        return "parquet"
    formats = {format_by_name(Path(file.path)): file.path for file in listed(path, lambda _: True)}
    formats.pop(None, None)
    if "parquet" in formats or not formats:
        return "parquet"
    if len(formats) > 1:
        first, second, *_ = formats.values()
        raise DataError(
            f"The path {path!r} has files of several formats, such as {first!r} and {second!r}. Expected one format. "
            "Select files with a glob, such as '*.csv'.",
            name="JN-FOLDER-FORMATS",
        )
    return next(each for each in formats if each is not None)


def check_tasks_read(files: Files) -> None:
    """Refuse files that Spark tasks cannot read: all formats except Parquet."""
    for path in files.paths:
        chosen = files.format or format_by_name(Path(path.partition("?")[0] if "://" in path else path))
        if chosen is None or chosen == "parquet":
            continue
        path = path_text(path)
        calls = {
            "csv": f"spark.read.csv({path!r}, header=True, inferSchema=True)",
            "tsv": f"spark.read.csv({path!r}, sep='\\t', header=True, inferSchema=True)",
            "json": f"spark.read.json({path!r})",
            "arrow": f"spark.createDataFrame(pyarrow.feather.read_table({path!r}))",
        }
        raise PlanError(
            f"The path {path!r} has {chosen} files, but Spark tasks read only Parquet files from a path. Pass "
            f"{calls[chosen]}, or remove spark= to join in this process.",
            name="JN-FORMAT-ENGINE",
        )


def _files_of(path: str, chosen: Format, is_data: IsData) -> list[FoundFile]:
    if "://" in path:
        raise _remote(path, chosen)
    data_files = listed(path, is_data)
    if not data_files:
        state = "is a folder without such files" if kind_at(path) == FileType.Directory else "does not exist"
        raise DataError(
            f"The path {path!r} {state}. Expected {chosen} files: a file, a folder of files, or a glob.",
            name="JN-FILE-MISSING",
        )
    return data_files


def _remote(path: str, chosen: Format) -> DataError:
    return DataError(
        f"The path {path_text(path)!r} has {chosen} files, which can only be read from local disk. Copy them to this "
        "machine, or write Parquet.",
        name="JN-FILE-REMOTE",
    )


def _text_rows(text: TextFiles, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in text.rows(schema):
        yield from table.to_batches()
