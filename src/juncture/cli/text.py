"""CSV and JSON, turned into Parquet on the way in and out of Parquet on the way out.

The engines read Parquet only. A text file goes through here once, slice by slice, so that a column has one type
however long the file is and whichever engine joins it. Reading takes two passes: the first finds a type for each
column that all of its values fit, the second converts. Memory holds one slice.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.json as ndjson
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.spec.schema import TIME_UNITS

__all__ = ["TextFormat", "read_text", "write_text"]

TextFormat = Literal["csv", "json"]

SLICE_BYTES = 64 * 1024 * 1024
"""Bytes of text that are parsed at once."""

_ROWS = 64 * 1024
"""Rows that are written at once."""


def read_text(
    paths: Sequence[Path],
    text_format: TextFormat,
    target: Path,
    *,
    nulls: Sequence[str] = (),
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Convert text files of the same columns into one Parquet file.

    Parameters
    ----------
    paths
        Files, compressed ones by their ending (``.gz``, ``.bz2``, ``.zst``). CSV has a header in each.
    text_format
        ``"csv"``, or ``"json"`` for one object per line.
    target
        The file to write.
    nulls
        What stands for null in CSV, beside an empty field without quotes.
    advance
        Called with the number of bytes that were read since the last call; each byte is read twice.

    Raises
    ------
    DataError
        If a file cannot be parsed, or files have different columns.

    Notes
    -----
    Times without a zone stay so; times with a zone or an offset become UTC. They get microseconds, or nanoseconds
    where a value needs them. A column of CSV whose values have no type in common is text; in JSON, which tells
    numbers from text, it is an error.
    """
    schema: pa.Schema | None = None
    for path, table, size in _tables(paths, text_format, None, nulls):
        schema = table.schema if schema is None else _common_schema(schema, table.schema, text_format, path)
        advance(size)
    if schema is None:
        raise DataError(f"{paths[0]} is empty, so its columns are not known.")
    schema = pa.schema([field.with_type(pa.string()) if pat.is_null(field.type) else field for field in schema])
    with pq.ParquetWriter(target, schema) as writer:
        for _, table, size in _tables(paths, text_format, schema, nulls):
            writer.write_table(table)
            advance(size)


def write_text(
    table: pa.Table | pa.RecordBatchReader | Path,
    text_format: TextFormat,
    target: Path,
    *,
    advance: Callable[[int], object] = lambda _: None,
) -> int:
    """Write a table, or the Parquet files of a folder, as one text file, and return the number of rows.

    Parameters
    ----------
    table
        A table, a stream of batches, or a Parquet file or folder.
    text_format, target
        As for `read_text`.
    advance
        Called with the number of rows that were written since the last call.

    Raises
    ------
    DataError
        If CSV cannot hold a column's type.
    """
    schema, batches = _batches(table)
    written = 0
    with _writer(schema, text_format, target) as write:
        for batch in batches:
            write(batch)
            written += batch.num_rows
            advance(batch.num_rows)
    return written


@contextmanager
def _writer(schema: pa.Schema, text_format: TextFormat, target: Path) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Give what writes batches to a file."""
    if text_format == "json":
        with target.open("w", encoding="utf-8") as stream:
            yield lambda batch: _write_json(batch, stream)
        return
    for field in schema:
        if pat.is_nested(field.type):
            raise DataError(
                f"CSV cannot hold the column {field.name!r} of type {field.type}. Write Parquet or JSON instead."
            )
    with csv.CSVWriter(target, schema) as writer:
        yield writer.write_batch


def _tables(
    paths: Sequence[Path], text_format: TextFormat, schema: pa.Schema | None, nulls: Sequence[str]
) -> Iterator[tuple[Path, pa.Table, int]]:
    """Yield the slices of all files as tables, with their bytes."""
    for path in paths:
        names: list[str] | None = None
        for data in _slices(path):
            try:
                if text_format == "csv":
                    table = _read_csv(data, names, schema, nulls)
                    names = table.column_names
                else:
                    table = _read_json(data, schema)
            except pa.ArrowInvalid as error:
                raise DataError(f"{path} cannot be read as {_description(text_format)}: {error}.") from error
            yield path, table, len(data)


def _description(text_format: TextFormat) -> str:
    return "CSV with a header" if text_format == "csv" else "JSON with one object per line"


def _slices(path: Path) -> Iterator[bytes]:
    """Yield a file's text in pieces that end with a line."""
    rest = b""
    with pa.input_stream(str(path), compression="detect") as stream:
        while block := stream.read(SLICE_BYTES):
            lines, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                yield lines + newline
    if rest.strip():
        yield rest


def _read_csv(data: bytes, names: list[str] | None, schema: pa.Schema | None, nulls: Sequence[str]) -> pa.Table:
    """Parse a slice; the first of a file, which has the header, if there are no names yet."""
    table = csv.read_csv(
        BytesIO(data),
        read_options=csv.ReadOptions(column_names=names),
        convert_options=csv.ConvertOptions(
            column_types=schema,
            null_values=["", *nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    if schema is not None:
        return table
    for position, field in enumerate(table.schema):
        if pat.is_timestamp(field.type):
            table = table.set_column(position, field.name, _to_microseconds(table.column(position)))
    return table


def _to_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times in microseconds if that loses nothing."""
    try:
        return column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid:
        return column


def _read_json(data: bytes, schema: pa.Schema | None) -> pa.Table:
    """Parse a slice. Arrow drops the zones of times, so these are read as text and converted here."""
    if schema is None:
        table = ndjson.read_json(BytesIO(data))
        times = [field.name for field in table.schema if pat.is_timestamp(field.type) or pat.is_string(field.type)]
    else:
        table = None
        times = [field.name for field in schema if pat.is_timestamp(field.type) or pat.is_date(field.type)]
    fields = [pa.field(name, pa.string()) for name in times]
    if schema is not None:
        fields += [field for field in schema if field.name not in times]
    texts = ndjson.read_json(
        BytesIO(data),
        parse_options=ndjson.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"),
    )
    if schema is not None:
        return texts.select(schema.names).cast(schema)
    for name in times:
        table = table.set_column(table.column_names.index(name), name, _guess_times(texts[name]))
    return table


def _guess_times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as dates or times if all of them are."""
    first = next((value.as_py() for chunk in texts.chunks for value in chunk.drop_null()[:1]), "")
    if not (first[:4].isdigit() and first[4:5] == "-"):
        return texts
    for data_type in (
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
    ):
        try:
            return pc.cast(texts, data_type)
        except pa.ArrowInvalid:
            continue
    return texts


def _common_schema(ours: pa.Schema, theirs: pa.Schema, text_format: TextFormat, path: Path) -> pa.Schema:
    """Return a schema that both slices fit. JSON may leave columns out; CSV names them all, in one order."""
    if text_format == "csv":
        if ours.names != theirs.names:
            raise DataError(
                f"{path} has the columns {', '.join(theirs.names)}, where the files before it have "
                f"{', '.join(ours.names)}. Files that are read as one table need the same header."
            )
        pairs = zip(ours, theirs, strict=True)
        return pa.schema([a.with_type(_common_type(a.type, b.type)) for a, b in pairs])
    known = {field.name: field for field in ours}
    for field in theirs:
        old = known.get(field.name, field)
        if len({_json_kind(old.type), _json_kind(field.type)} - {"null"}) > 1:
            raise DataError(
                f"{path} has values of type {field.type} in the column {field.name!r}, which held {old.type} before. "
                "A column needs values of one type, or null."
            )
        known[field.name] = field.with_type(_common_type(old.type, field.type))
    return pa.schema(list(known.values()))


def _json_kind(data_type: pa.DataType) -> str:
    """Return what JSON itself would call values of a type: unlike CSV, it tells numbers from text."""
    if pat.is_nested(data_type):
        return "list" if pat.is_list(data_type) else "object"
    if pat.is_boolean(data_type) or pat.is_null(data_type):
        return str(data_type)
    return "number" if pat.is_integer(data_type) or pat.is_floating(data_type) else "text"


def _common_type(ours: pa.DataType, theirs: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds the values of both, which is text if nothing else does."""
    if ours == theirs or pat.is_null(theirs):
        return ours
    if pat.is_null(ours):
        return theirs
    if {ours, theirs} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pat.is_date(theirs):
        ours, theirs = theirs, ours
    if pat.is_date(ours) and pat.is_timestamp(theirs) and theirs.tz is None:
        return theirs
    if pat.is_timestamp(ours) and pat.is_timestamp(theirs) and ours.tz == theirs.tz:
        return max(ours, theirs, key=lambda data_type: TIME_UNITS.index(data_type.unit))
    if pat.is_nested(ours):
        fields = (pa.schema([pa.field("", data_type)]) for data_type in (ours, theirs))
        return pa.unify_schemas(list(fields), promote_options="permissive").field(0).type
    return pa.string()


def _batches(table: pa.Table | pa.RecordBatchReader | Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if isinstance(table, pa.Table):
        return table.schema, iter(table.to_batches(max_chunksize=_ROWS))
    if isinstance(table, pa.RecordBatchReader):
        return table.schema, (batch.slice(start, _ROWS) for batch in table for start in range(0, batch.num_rows, _ROWS))
    files = sorted(table.glob("*.parquet")) if table.is_dir() else [table]
    batches = (batch for file in files for batch in pq.ParquetFile(file).iter_batches(_ROWS))
    return pq.read_schema(files[0]), batches


def _write_json(batch: pa.RecordBatch, stream: IO[str]) -> None:
    """Write one object per line. Times go through Arrow's own text, since Python has no nanoseconds."""
    columns = []
    for column in batch.columns:
        if pat.is_temporal(column.type):
            column = pc.cast(column, pa.string())
        columns.append(column.to_pylist())
    for row in zip(*columns, strict=True):
        stream.write(json.dumps(dict(zip(batch.schema.names, row, strict=True)), default=_plain, ensure_ascii=False))
        stream.write("\n")


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a value: bytes as base64, decimals and nested times as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)
