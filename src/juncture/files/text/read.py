"""Text files with inferred types, converted to Arrow or Parquet.

Files are read in slices, in two passes: the first infers for each column a type that fits all its values, the second
converts. So a column has the same type for any file size and engine. Memory holds one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import DataError
from juncture.files.text import csv, json
from juncture.files.text.options import TextOptions
from juncture.files.text.types import ColumnType, TextFormat, as_text, joined, schema_of
from juncture.runtime.paths import FoundFile, Value, partitions_of

Partitions: TypeAlias = tuple[pa.Schema, Sequence[tuple[Value, ...]]]
"""Partition columns, and their values for each file."""

_PEEK_BYTES = 1024

_SAMPLE_BYTES = 1 << 20
"""Bytes of each file from which `TextFiles.sampled_schema` infers types."""

_NO_PARTITIONS: Partitions = pa.schema([]), ()


@dataclass(frozen=True, kw_only=True)
class _Slice:
    """A piece of a file that ends with a line. For CSV: the column names, and whether the first line has them."""

    path: Path
    data: bytes
    names: Sequence[str] = ()
    has_header: bool = False


@dataclass(frozen=True, kw_only=True)
class TextFiles:
    """Text files with the same columns, as one table. Compression is detected by extension.

    Times without a zone stay so; times with a zone or offset become UTC. They have microseconds, or nanoseconds if a
    value needs them. No digit of an integer changes: integers beyond 64 bits are decimals, and integers with leading
    zeros are text. A column without values has the null type. A CSV column without a common type is text; in JSON,
    which distinguishes numbers from text, it is an error.

    `slice_bytes` of text are parsed at once. `advance` is called with the number of bytes since the last call; each
    byte is read twice.
    """

    paths: Sequence[Path]
    format: TextFormat
    options: TextOptions = field(default_factory=TextOptions)
    partitions: Partitions = _NO_PARTITIONS
    advance: Callable[[int], object] = lambda _: None
    slice_bytes: int = 64 << 20

    @classmethod
    def of(cls, files: Sequence[FoundFile], file_format: str, options: TextOptions) -> TextFiles:
        """Return CSV, TSV or JSON files, with the partition columns of their folders."""
        if file_format == "tsv":
            options = replace(options, delimiter="\t")
        return cls(
            paths=[Path(file.path) for file in files],
            format="json" if file_format == "json" else "csv",
            options=options,
            partitions=partitions_of(files),
        )

    def write_parquet(self, target: Path) -> None:
        """Write the rows to one Parquet file."""
        schema = self.schema()
        with pq.ParquetWriter(target, schema) as writer:
            for table in self.rows(schema):
                writer.write_table(table)

    def schema(self) -> pa.Schema:
        """Infer the schema, including partition columns. All values fit it."""
        types: dict[str, ColumnType] | None = None
        for each in self._slices():
            types = self._with_types(types, each)
            self.advance(len(each.data))
        schema, (extra, _) = self._schema_of(types), self.partitions
        both = sorted(set(schema.names) & set(extra.names))
        if both:
            raise DataError(
                f"{self.paths[0]} has the column {both[0]!r}, but a folder in its path also defines it. Rename "
                "the column or the folder.",
                name="JN-PARTITION-NAME",
            )
        return pa.schema([*schema, *extra])

    def rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows in the inferred schema, slice by slice."""
        extra, values = self.partitions
        of_file = dict(zip(self.paths, values, strict=True)) if extra.names else {}
        inside = pa.schema(list(schema)[: len(schema) - len(extra)])
        for each in self._slices():
            with self._parsing(each.path):
                if self.format == "csv":
                    table = csv.read(each.data, each.names, inside, self.options, has_header=each.has_header)
                else:
                    table = json.read(each.data, inside)
            for column, value in zip(extra, of_file.get(each.path, ()), strict=True):
                table = table.append_column(column, pa.repeat(pa.scalar(value, column.type), table.num_rows))
            yield table
            self.advance(len(each.data))

    def sampled_schema(self) -> pa.Schema:
        """Infer the schema, without partition columns, from the start of each file.

        Columns without values there are text; files of headers only have the null type, which compares with any type.
        """
        types: dict[str, ColumnType] | None = None
        has_rows = False
        for path in self.paths:
            data = self._beginning(path)
            if data.strip():
                each = _Slice(
                    path=path, data=data, names=self._header_of(data, path), has_header=self.options.has_header
                )
                types = self._with_types(types, each)
                has_rows |= self.format == "json" or not each.has_header or len(data.strip().splitlines()) > 1
        schema = self._schema_of(types)
        return as_text(schema) if has_rows else schema

    def _with_types(self, types: dict[str, ColumnType] | None, each: _Slice) -> dict[str, ColumnType]:
        """Return the column types after one more slice."""
        with self._parsing(each.path):
            if self.format == "csv":
                slice_types = csv.types_in(each.data, each.names, self.options, has_header=each.has_header)
            else:
                slice_types = json.types_in(each.data, self.options)
        return slice_types if types is None else joined(types, slice_types, self.format, each.path)

    def _schema_of(self, types: dict[str, ColumnType] | None) -> pa.Schema:
        if types is None:
            raise DataError(
                f"{self.paths[0]} is empty, so its columns are unknown. Write a header, or exclude the file.",
                name="JN-FILE-EMPTY",
            )
        return schema_of(types, self.format, self.paths)

    def _slices(self) -> Iterator[_Slice]:
        for path in self.paths:
            names: Sequence[str] | None = None
            for data in self._pieces(path):
                has_header = names is None and self.options.has_header
                names = self._header_of(data, path) if names is None else names
                yield _Slice(path=path, data=data, names=names, has_header=has_header)

    def _pieces(self, path: Path) -> Iterator[bytes]:
        """Yield a text in pieces that end with a line; each object of a list is a line."""
        with _opened(path) as stream:
            is_list = self.format == "json" and stream.read(_PEEK_BYTES).lstrip()[:1] == b"["
        with self._parsing(path), _opened(path) as stream:
            blocks = json.lines_of(stream) if is_list else iter(lambda: stream.read(self.slice_bytes), b"")
            yield from _slices_of(blocks, self.slice_bytes)

    def _beginning(self, path: Path) -> bytes:
        """Return complete lines from the start of a file; of a list, complete objects."""
        with self._parsing(path), _opened(path) as stream:
            data = bytes(stream.read(_SAMPLE_BYTES))
        if self.format == "json" and data.lstrip()[:1] == b"[":
            with _opened(path) as stream:
                return b"".join(_first(json.lines_of(stream)))
        if len(data) < _SAMPLE_BYTES:
            return data if data.endswith(b"\n") else data + b"\n"
        lines, newline, _ = data.rpartition(b"\n")
        return lines + newline

    def _header_of(self, data: bytes, path: Path) -> Sequence[str]:
        """Return the column names of CSV, from the first slice of a file."""
        if self.format == "json":
            return ()
        with self._parsing(path):
            return csv.header_of(data, self.options, path)

    @contextmanager
    def _parsing(self, path: Path) -> Iterator[None]:
        """Add the file to parse errors."""
        try:
            yield
        except (pa.ArrowInvalid, ValueError) as error:
            is_csv = self.format == "csv"
            form = "CSV with a header" if is_csv else "JSON with one object per line, or a list of objects"
            raise DataError(
                f"{path} cannot be read as {form}: {error}. Correct it, or set its format with --format or format=.",
                name="JN-FILE-DAMAGED",
            ) from error


def _opened(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression="detect")


def _first(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines up to the size of a sample."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= _SAMPLE_BYTES:
            return


def _slices_of(blocks: Iterator[bytes], slice_bytes: int) -> Iterator[bytes]:
    buffer: list[bytes] = []
    for block in blocks:
        buffer.append(block)
        if sum(map(len, buffer)) >= slice_bytes:
            lines, newline, rest = b"".join(buffer).rpartition(b"\n")
            buffer = [rest]
            if newline:
                yield lines + newline
    if (rest := b"".join(buffer)).strip():
        # Arrow ignores a header without a line end.
        yield rest if rest.endswith(b"\n") else rest + b"\n"
