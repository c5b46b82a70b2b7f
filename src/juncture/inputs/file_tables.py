"""Files as tables of this process: Parquet as it lies on disk, text and Arrow batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FileType

from juncture.errors import DataError, PlanError, SpecError
from juncture.files.arrow import arrow_rows, arrow_schema
from juncture.files.formats import Format, format_by_name
from juncture.files.found import WILDCARDS
from juncture.files.text.options import TextOptions
from juncture.files.text.read import text_rows, text_schema
from juncture.files.text.types import TextFormat
from juncture.inputs.files import Files
from juncture.inputs.tables import Given
from juncture.runtime.footers import check_unchanged
from juncture.runtime.partitions import partitions_of
from juncture.runtime.paths import FoundFile, IsData, kind_at, listed
from juncture.runtime.sources import ParquetSource


def open_files(files: Files) -> ParquetSource | Given:
    """Return the rows of files: of text the types are found out, which reads it, and its rows are read when asked for.

    Raises
    ------
    DataError
        If there is nothing to read, or it cannot be read.
    SpecError
        If files are of several formats, or an argument does not go with theirs.
    """
    formats = {files.format or format_at(path): path for path in files.paths}
    if len(formats) > 1:
        (one, first), (other, second) = list(formats.items())[:2]
        raise SpecError(
            f"The path {first!r} leads to {one} files, and {second!r} to {other} files. Expected files of one format "
            "for one table."
        )
    [chosen] = formats
    if chosen == "parquet":
        return ParquetSource(files.paths, union_by_name=files.union_by_name)
    if files.union_by_name:
        raise SpecError(
            f"union_by_name=True is for Parquet files, and {files.paths[0]!r} leads to {chosen} files. Leave it out."
        )
    is_data = _is_any if files.format else partial(_is_of, chosen)
    found = [file for path in files.paths for file in _files_of(path, chosen, is_data)]
    return _arrow_table(found) if chosen == "arrow" else _text_table(found, chosen)


def format_at(path: str) -> Format:
    """Return the format of the files that a path leads to: by its ending, or theirs; Parquet if nothing says so.

    Raises
    ------
    DataError
        If there are files of several formats, none of them Parquet.
    """
    named = format_by_name(Path(path.partition("?")[0] if "://" in path else path))
    if named is not None or "://" in path:
        return named or "parquet"
    if WILDCARDS.isdisjoint(path) and kind_at(path) != FileType.Directory:
        return "parquet"
    formats = {format_by_name(Path(file.path)): file.path for file in listed(path, _has_format)}
    formats.pop(None, None)
    if "parquet" in formats or not formats:
        return "parquet"
    if len(formats) > 1:
        first, second, *_ = formats.values()
        raise DataError(
            f"The path {path!r} leads to files of several formats, such as {first!r} and {second!r}. Expected files of "
            "one: name them by a glob, such as '*.csv'."
        )
    return next(each for each in formats if each is not None)


def check_tasks_read(files: Files) -> None:
    """Refuse files that Spark's tasks do not read themselves.

    Raises
    ------
    PlanError
        With what reads them on Spark.
    """
    for path in files.paths:
        chosen = files.format or format_by_name(Path(path.partition("?")[0] if "://" in path else path))
        if chosen is None or chosen == "parquet":
            continue
        calls = {
            "csv": f"spark.read.csv({path!r}, header=True, inferSchema=True)",
            "tsv": f"spark.read.csv({path!r}, sep='\\t', header=True, inferSchema=True)",
            "json": f"spark.read.json({path!r})",
            "arrow": f"spark.createDataFrame(pyarrow.feather.read_table({path!r}))",
        }
        raise PlanError(
            f"The path {path!r} leads to {chosen} files, and on Spark a path leads to Parquet files. Pass "
            f"{calls[chosen]}, or leave spark= out to join in this process."
        )


def _has_format(name: str) -> bool:
    return format_by_name(Path(name)) is not None


def _is_any(_: str) -> bool:
    return True


def _is_of(chosen: Format, name: str) -> bool:
    return format_by_name(Path(name)) == chosen


def _files_of(path: str, chosen: Format, is_data: IsData) -> list[FoundFile]:
    if "://" in path:
        raise DataError(
            f"The path {path!r} leads to {chosen} files, which are read from this machine only. Copy them here, or "
            "write Parquet."
        )
    found = listed(path, is_data)
    if not found:
        state = "holds none" if kind_at(path) == FileType.Directory else "does not exist"
        raise DataError(f"The path {path!r} {state}. Expected {chosen} files: one, a folder of them, or a glob.")
    return found


def _text_table(files: list[FoundFile], chosen: Format) -> Given:
    text_format: TextFormat = "json" if chosen == "json" else "csv"
    options = TextOptions(delimiter="\t") if chosen == "tsv" else TextOptions()
    paths, partitions = [Path(file.path) for file in files], partitions_of(files)
    schema = text_schema(paths, text_format, options, partitions)

    def rows() -> Iterator[pa.RecordBatch]:
        for table in text_rows(paths, text_format, schema, options, partitions):
            yield from table.to_batches()

    return Given(schema=schema, batches=_of_unchanged(files, rows))


def _arrow_table(files: list[FoundFile]) -> Given:
    paths = [Path(file.path) for file in files]
    return Given(schema=arrow_schema(paths), batches=_of_unchanged(files, lambda: arrow_rows(paths)))


def _of_unchanged(
    files: list[FoundFile], rows: Callable[[], Iterator[pa.RecordBatch]]
) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Return what yields rows, if the files are still those whose types were found out."""

    def checked() -> Iterator[pa.RecordBatch]:
        for file in files:
            check_unchanged(file)
        yield from rows()

    return checked
