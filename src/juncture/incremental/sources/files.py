"""Folders of change batches as a source: each new file is an epoch or a part of one.

Each table has a folder. Files are read in the order of their names, so each new name has to sort after the existing
ones: use a number or a time with leading zeros. Names that begin with a dot or an underscore are skipped: write under
such a name, and rename the file. The formats are those of `juncture.incremental.changes.change_batch`.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.errors import DataError, SchemaError, SpecError, StateError
from juncture.incremental.changes.change_batch import CHANGE_TYPE, WEIGHT
from juncture.incremental.sources.source import Read, Snapshot, Source, SourceEpoch

_PARQUET, _LINES = ".parquet", (".jsonl", ".ndjson", ".json")
_LOOK_S = 0.05


class FilesSource(Source):
    """Folders of change batches, created by `juncture.change_files`."""

    def __init__(self, folders: Mapping[str, Path], tables: Mapping[str, pa.Schema]) -> None:
        for name, schema in tables.items():
            if not isinstance(schema, pa.Schema):
                raise SpecError(
                    f"tables[{name!r}] is {schema!r} ({type(schema).__name__}). Expected a pyarrow.Schema.",
                    name="JN-ARGUMENT-TYPE",
                )
        self._folders = dict(folders)
        self._tables = dict(tables)
        self._last_files: dict[str, str] = {}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables with their columns."""
        return self._tables

    def snapshot(self, _read: Read, /) -> Snapshot:
        """Return empty tables: the first file has the first rows."""
        empty = {name: schema.empty_table() for name, schema in self._tables.items()}
        return Snapshot(empty, dict.fromkeys(self._tables, ""))

    def start(self, offset: Any) -> None:
        """Resume after the files that an offset names."""
        if not isinstance(offset, dict) or set(offset) != set(self._tables):
            raise StateError(
                f"The state's offset {offset!r} has no file for each table of {sorted(self._tables)}. Pass the source "
                "that the state was populated from.",
                name="JN-STATE-OFFSET",
            )
        self._last_files = dict(offset)

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return the changes in the next files; None if there are none within the time."""
        until = time.monotonic() + timeout_s
        while not (waiting := self._waiting()):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(_LOOK_S, left_s))
        changes: dict[str, list[pa.RecordBatch]] = {}
        # No file is read if one of them cannot be read.
        last_files = dict(self._last_files)
        count, files = 0, 0
        for name, table in waiting:
            if count >= rows:
                break
            batches = self._read(table, self._folders[table] / name)
            changes.setdefault(table, []).extend(batches)
            count += sum(batch.num_rows for batch in batches)
            files += 1
            last_files[table] = name
        self._last_files = last_files
        return SourceEpoch(changes, dict(last_files), files, count)

    def _names(self, table: str) -> list[str]:
        folder = self._folders[table]
        if not folder.is_dir():
            raise DataError(
                f"Folder {folder} for the changes of {table!r} does not exist. Create it first.", name="JN-FILE-MISSING"
            )
        return sorted(
            path.name
            for path in folder.iterdir()
            if path.suffix in (_PARQUET, *_LINES) and not path.name.startswith((".", "_"))
        )

    def _waiting(self) -> list[tuple[str, str]]:
        return sorted(
            (name, table)
            for table in self._tables
            for name in self._names(table)
            if name > self._last_files.get(table, "")
        )

    def _read(self, table: str, path: Path) -> list[pa.RecordBatch]:
        schema = self._tables[table]
        try:
            changes = pq.read_table(path) if path.suffix == _PARQUET else json_changes(path.read_bytes(), schema)
            return list(typed(changes, schema).to_batches())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"File {path} cannot be read as changes of {table!r}: {error}. Write it again.", name="JN-FILE-DAMAGED"
            ) from error
        except ValueError as error:
            raise SchemaError(
                f"File {path} has other columns than {table!r}: {error}. Write it again with the columns of the table.",
                name="JN-SCHEMA-DIFFERENT",
            ) from error


def json_changes(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return changes of a table from JSON lines, in the format of the first line. Missing columns are null."""
    data = data.lstrip()
    if not data:
        return schema.empty_table()
    names = json.loads(data.partition(b"\n")[0])
    # Arrow's JSON reader parses dates as numbers, but casts them from text.
    columns = [(field.name, pa.string() if pat.is_date(field.type) else field.type) for field in as_base64(schema)]
    row = pa.struct(columns)
    is_pairs = "op" in names and "op" not in schema.names
    if is_pairs:
        fields = [("op", pa.string()), ("before", row), ("after", row)]
    else:
        marks = [(WEIGHT, pa.int64()), (CHANGE_TYPE, pa.string())]
        fields = [*columns, *(mark for mark in marks if mark[0] in names)]
    changes = pj.read_json(
        io.BytesIO(data),
        # Each line has to fit in a block.
        read_options=pj.ReadOptions(block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=pa.schema(fields)),
    )
    if not is_pairs:
        return from_base64(changes, schema)
    for index, name in enumerate(changes.column_names):
        if name in ("before", "after"):
            rows = changes.column(index).combine_chunks()
            fields = from_base64(pa.Table.from_arrays(rows.flatten(), rows.type.names), schema)
            arrays = [each.combine_chunks() for each in fields.columns]
            changes = changes.set_column(
                index, name, pa.StructArray.from_arrays(arrays, fields.column_names, mask=rows.is_null())
            )
    return changes


def as_base64(schema: pa.Schema) -> pa.Schema:
    """Return the columns of text formats, in which bytes are base64."""
    return pa.schema([field.with_type(pa.string()) if is_bytes(field.type) else field for field in schema])


def is_bytes(data_type: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_fixed_size_binary(data_type))


def from_base64(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the bytes of the columns that a schema has as bytes."""
    for index, name in enumerate(rows.column_names):
        if name in schema.names and is_bytes(schema.field(name).type):
            try:
                values = [
                    None if text is None else base64.b64decode(text, validate=True)
                    for text in rows.column(index).to_pylist()
                ]
            except ValueError as error:
                raise pa.ArrowInvalid(f"column {name!r} is not base64: {error}") from error
            rows = rows.set_column(index, name, pa.chunked_array([pa.array(values, schema.field(name).type)]))
    return rows


def typed(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return changes with the types of the table's columns: small integers may be stored as large ones."""
    row = pa.struct(list(schema))
    types = {field.name: field.type for field in schema} | {"before": row, "after": row}
    return changes.cast(pa.schema([(field.name, types.get(field.name, field.type)) for field in changes.schema]))
