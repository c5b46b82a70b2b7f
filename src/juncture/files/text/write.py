"""Rows written as CSV, JSON lines, Arrow or Parquet, to a file or a pipe."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.files.formats import Format

_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

_ROWS = 64 * 1024  # rows per written batch

Write = Callable[[pa.RecordBatch], object]
"""Writes a batch of rows."""


def write_rows(
    table: pa.Table | pa.RecordBatchReader | Path,
    row_format: Format,
    target: Path | IO[bytes],
    *,
    ending: str = "",
    advance: Callable[[int], object] = lambda _: None,
) -> int:
    """Write a table, stream, or Parquet file or folder, and return the number of rows.

    `ending` is the final file extension, which decides the compression of text. `advance` is called with the number of
    rows since the last call. ``"arrow"`` is the stream format in a pipe, and the file format in a file.
    """
    schema, batches = _batches(table)
    written = 0
    with row_writer(schema, row_format, target, ending=ending) as write:
        for batch in batches:
            write(batch)
            written += batch.num_rows
            advance(batch.num_rows)
    return written


@contextmanager
def row_writer(schema: pa.Schema, row_format: Format, target: Path | IO[bytes], *, ending: str = "") -> Iterator[Write]:
    """Yield a function that writes a batch. The arguments are those of `write_rows`."""
    if row_format in ("csv", "tsv"):
        _check_flat(schema)
    compression = _COMPRESSIONS.get(ending) if row_format in ("csv", "tsv", "json") else None
    with _sink(target, compression) as sink, _WRITERS[row_format](schema, sink) as write:
        yield write


@contextmanager
def _sink(target: Path | IO[bytes], compression: str | None) -> Iterator[Any]:
    if not isinstance(target, Path):
        yield target
        target.flush()
        return
    with pa.output_stream(str(target), compression=compression) as sink:
        yield sink


@contextmanager
def _parquet(schema: pa.Schema, sink: Any) -> Iterator[Write]:
    with pq.ParquetWriter(sink, schema) as writer:
        yield writer.write_batch


@contextmanager
def _arrow(schema: pa.Schema, sink: Any) -> Iterator[Write]:
    make = pa.ipc.new_file if isinstance(sink, pa.NativeFile) else pa.ipc.new_stream
    with make(sink, schema) as writer:
        yield writer.write_batch


@contextmanager
def _separated(schema: pa.Schema, sink: Any, delimiter: str) -> Iterator[Write]:
    with csv.CSVWriter(sink, schema, write_options=csv.WriteOptions(delimiter=delimiter)) as writer:
        yield writer.write_batch


@contextmanager
def _json_lines(_: pa.Schema, sink: Any) -> Iterator[Write]:
    yield lambda batch: sink.write(_lines(batch).encode())


_WRITERS: dict[Format, Callable[[pa.Schema, Any], Any]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": partial(_separated, delimiter=","),
    "tsv": partial(_separated, delimiter="\t"),
    "json": _json_lines,
}


def _check_flat(schema: pa.Schema) -> None:
    for field in schema:
        if pat.is_nested(field.type):
            raise DataError(
                f"The column {field.name!r} of type {field.type} cannot be written as CSV. Write Parquet, Arrow or "
                "JSON instead.",
                name="JN-OUTPUT-TYPE",
            )


def _batches(table: pa.Table | pa.RecordBatchReader | Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if isinstance(table, pa.Table):
        return table.schema, iter(table.to_batches(max_chunksize=_ROWS))
    if isinstance(table, pa.RecordBatchReader):
        return table.schema, (batch.slice(start, _ROWS) for batch in table for start in range(0, batch.num_rows, _ROWS))
    files = sorted(table.glob("*.parquet")) if table.is_dir() else [table]
    batches = (batch for file in files for batch in pq.ParquetFile(file).iter_batches(_ROWS))
    return pq.read_schema(files[0]), batches


def _lines(batch: pa.RecordBatch) -> str:
    """Return one object per line. Times are formatted by Arrow, because Python has no nanoseconds."""
    columns = []
    for column in batch.columns:
        if pat.is_temporal(column.type):
            column = pc.cast(column, pa.string())
        columns.append(column.to_pylist())
    text = io.StringIO()
    for row in zip(*columns, strict=True):
        text.write(json.dumps(dict(zip(batch.schema.names, row, strict=True)), default=_plain, ensure_ascii=False))
        text.write("\n")
    return text.getvalue()


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks as text: bytes as base64, decimals and nested times as they print."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)
