"""Text files with inferred types, converted to Arrow or Parquet.

Files are read in slices, in two passes: the first infers for each column a type that fits all its values, the second
converts. So a column has the same type for any file size and engine. Memory holds one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import DataError
from juncture.files.text import csv, json
from juncture.files.text.options import TextOptions
from juncture.files.text.types import ColumnType, TextFormat, as_text, joined, schema_of
from juncture.runtime.paths import Value

Partitions: TypeAlias = tuple[pa.Schema, Sequence[tuple[Value, ...]]]
"""Partition columns, and their values for each file."""

_PEEK_BYTES = 1024

SLICE_BYTES = 64 * 1024 * 1024
"""Bytes of text that are parsed at once."""

SAMPLE_BYTES = 1 << 20
"""Bytes of each file from which `sampled_schema` infers types."""

_NO_PARTITIONS: Partitions = pa.schema([]), ()


def read_text(
    paths: Sequence[Path],
    text_format: TextFormat,
    target: Path,
    *,
    options: TextOptions | None = None,
    partitions: Partitions = _NO_PARTITIONS,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Convert text files with the same columns to one Parquet file. Compression is detected by extension.

    `advance` is called with the number of bytes since the last call; each byte is read twice.

    Times without a zone stay so; times with a zone or offset become UTC. They have microseconds, or nanoseconds if a
    value needs them. No digit of an integer changes: integers beyond 64 bits are decimals, and integers with leading
    zeros are text. A column without values has the null type. A CSV column without a common type is text; in JSON,
    which distinguishes numbers from text, it is an error.
    """
    options = options or TextOptions()
    schema = text_schema(paths, text_format, options, partitions, advance)
    with pq.ParquetWriter(target, schema) as writer:
        for table in text_rows(paths, text_format, schema, options, partitions, advance):
            writer.write_table(table)


def text_schema(
    paths: Sequence[Path],
    text_format: TextFormat,
    options: TextOptions,
    partitions: Partitions = _NO_PARTITIONS,
    advance: Callable[[int], object] = lambda _: None,
) -> pa.Schema:
    """Infer the schema of text files, including partition columns. All values fit it."""
    types: dict[str, ColumnType] | None = None
    for each in _slices(paths, text_format, options):
        slice_types = _types_in(each, text_format, options)
        types = slice_types if types is None else joined(types, slice_types, text_format, each.path)
        advance(len(each.data))
    if types is None:
        raise DataError(
            f"{paths[0]} is empty, so its columns are unknown. Write a header, or exclude the file.",
            name="JN-FILE-EMPTY",
        )
    schema, (extra, _) = schema_of(types, text_format, paths), partitions
    both = sorted(set(schema.names) & set(extra.names))
    if both:
        raise DataError(
            f"{paths[0]} has the column {both[0]!r}, but a folder in its path also defines it. Rename "
            "the column or the folder.",
            name="JN-PARTITION-NAME",
        )
    return pa.schema([*schema, *extra])


def text_rows(
    paths: Sequence[Path],
    text_format: TextFormat,
    schema: pa.Schema,
    options: TextOptions,
    partitions: Partitions = _NO_PARTITIONS,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[pa.Table]:
    """Yield the rows of text files in the schema of `text_schema`, slice by slice."""
    extra, values = partitions
    of_file = dict(zip(paths, values, strict=True)) if extra.names else {}
    inside = pa.schema(list(schema)[: len(schema) - len(extra)])
    for each in _slices(paths, text_format, options):
        table = _rows_of(each, text_format, inside, options)
        for field, value in zip(extra, of_file.get(each.path, ()), strict=True):
            table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), table.num_rows))
        yield table
        advance(len(each.data))


def sampled_schema(paths: Sequence[Path], text_format: TextFormat, options: TextOptions | None = None) -> pa.Schema:
    """Infer the schema of text files from the start of each file. Columns without values there are text.

    If the files have headers only, columns have Arrow's null type, which compares with any type.
    """
    options = options or TextOptions()
    types: dict[str, ColumnType] | None = None
    has_rows = False
    for path in paths:
        data = _beginning(path, text_format)
        if not data.strip():
            continue
        has_rows |= text_format == "json" or not options.has_header or len(data.strip().splitlines()) > 1
        names = () if text_format == "json" else _header_of(data, options, path)
        each = _Slice(path=path, data=data, names=names, has_header=options.has_header)
        slice_types = _types_in(each, text_format, options)
        types = slice_types if types is None else joined(types, slice_types, text_format, path)
    if types is None:
        raise DataError(
            f"{paths[0]} is empty, so its columns are unknown. Write a header, or exclude the file.",
            name="JN-FILE-EMPTY",
        )
    schema = schema_of(types, text_format, paths)
    return as_text(schema) if has_rows else schema


def _beginning(path: Path, text_format: TextFormat) -> bytes:
    """Return complete lines from the start of a file; of a list, complete objects."""
    with _parsing(path, text_format), pa.input_stream(str(path), compression="detect") as stream:
        data = bytes(stream.read(SAMPLE_BYTES))
    if text_format == "json" and data.lstrip()[:1] == b"[":
        with pa.input_stream(str(path), compression="detect") as stream:
            return b"".join(_first(json.lines_of(stream)))
    if len(data) < SAMPLE_BYTES:
        return data if data.endswith(b"\n") else data + b"\n"
    lines, newline, _ = data.rpartition(b"\n")
    return lines + newline


def _first(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines up to the size of a sample."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= SAMPLE_BYTES:
            return


@dataclass(frozen=True, kw_only=True)
class _Slice:
    """A piece of a file that ends with a line. For CSV: the column names, and whether the first line has them."""

    path: Path
    data: bytes
    names: Sequence[str] = ()
    has_header: bool = False


def _slices(paths: Sequence[Path], text_format: TextFormat, options: TextOptions) -> Iterator[_Slice]:
    """Yield the slices of all files."""
    for path in paths:
        names: Sequence[str] | None = None
        for data in _pieces(path, text_format):
            has_header = names is None and options.has_header
            if names is None:
                names = () if text_format == "json" else _header_of(data, options, path)
            yield _Slice(path=path, data=data, names=names, has_header=has_header)


def _pieces(path: Path, text_format: TextFormat) -> Iterator[bytes]:
    """Yield a text in pieces that end with a line; each object of a list is a line."""
    with pa.input_stream(str(path), compression="detect") as stream:
        is_list = text_format == "json" and stream.read(_PEEK_BYTES).lstrip()[:1] == b"["
    with _parsing(path, text_format), pa.input_stream(str(path), compression="detect") as stream:
        yield from _slices_of(json.lines_of(stream) if is_list else iter(lambda: stream.read(SLICE_BYTES), b""))


def _slices_of(blocks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= SLICE_BYTES:
            lines, newline, rest = b"".join(held).rpartition(b"\n")
            held = [rest]
            if newline:
                yield lines + newline
    if (rest := b"".join(held)).strip():
        # Arrow ignores a header without a line end.
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _header_of(data: bytes, options: TextOptions, path: Path) -> list[str]:
    with _parsing(path, "csv"):
        return csv.header_of(data, options, path)


def _types_in(each: _Slice, text_format: TextFormat, options: TextOptions) -> dict[str, ColumnType]:
    with _parsing(each.path, text_format):
        if text_format == "csv":
            return csv.types_in(each.data, each.names, options, has_header=each.has_header)
        return json.types_in(each.data, options)


def _rows_of(each: _Slice, text_format: TextFormat, schema: pa.Schema, options: TextOptions) -> pa.Table:
    with _parsing(each.path, text_format):
        if text_format == "csv":
            return csv.read(each.data, each.names, schema, options, has_header=each.has_header)
        return json.read(each.data, schema)


@contextmanager
def _parsing(path: Path, text_format: TextFormat) -> Iterator[None]:
    """Add the file to parse errors."""
    try:
        yield
    except (pa.ArrowInvalid, ValueError) as error:
        form = "CSV with a header" if text_format == "csv" else "JSON with one object per line, or a list of objects"
        raise DataError(
            f"{path} cannot be read as {form}: {error}. Correct it, or set its format with --format or format=.",
            name="JN-FILE-DAMAGED",
        ) from error
