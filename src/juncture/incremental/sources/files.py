"""A folder of change batches as a source: files that are added one by one, each of them an epoch or a part of one.

A folder has a subfolder for each table. Files are taken in the order of their names, so that the name of one that is
added has to come after those that are there: a number or a time, with leading zeros. Names that begin with a dot or an
underscore are left out: write there, and rename. What a file holds is said as everywhere: by ``_weight``, by
``_change_type``, or by ``op``, ``before`` and ``after``.
"""

from __future__ import annotations

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
from juncture.incremental.change_batch import CHANGE_TYPE, WEIGHT
from juncture.incremental.sources.source import Read, Snapshot, SourceEpoch

_PARQUET, _LINES = ".parquet", (".jsonl", ".ndjson", ".json")
_LOOK_S = 0.05


class FilesSource:
    """Folders of change batches. It is made by `juncture.change_files`."""

    def __init__(self, folders: Mapping[str, Path], tables: Mapping[str, pa.Schema]) -> None:
        for name, schema in tables.items():
            if not isinstance(schema, pa.Schema):
                raise SpecError(
                    f"tables[{name!r}] is {schema!r} ({type(schema).__name__}). Expected a pyarrow.Schema.",
                    name="JN-ARGUMENT-TYPE",
                )
        self._folders = dict(folders)
        self._tables = dict(tables)
        self._taken: dict[str, str] = {}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables, and their columns."""
        return self._tables

    def snapshot(self, _read: Read, /) -> Snapshot:
        """Return empty tables: the first file says what the first rows are."""
        empty = {name: schema.empty_table() for name, schema in self._tables.items()}
        return Snapshot(empty, dict.fromkeys(self._tables, ""))

    def start(self, offset: Any) -> None:
        """Go on after the files that an offset names."""
        if not isinstance(offset, dict) or set(offset) != set(self._tables):
            raise StateError(
                f"The state's offset {offset!r} has no file for each table of {sorted(self._tables)}. Pass the source "
                "that the state was populated from.",
                name="JN-STATE-OFFSET",
            )
        self._taken = dict(offset)

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return what the next files hold; None if none has come in that time."""
        until = time.monotonic() + timeout_s
        while not (waiting := self._waiting()):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(_LOOK_S, left_s))
        changes: dict[str, list[pa.RecordBatch]] = {}
        # None has been taken if one of them cannot be read.
        taken = dict(self._taken)
        count, files = 0, 0
        for name, table in waiting:
            if count >= rows:
                break
            batches = self._read(table, self._folders[table] / name)
            changes.setdefault(table, []).extend(batches)
            count += sum(batch.num_rows for batch in batches)
            files += 1
            taken[table] = name
        self._taken = taken
        return SourceEpoch(changes, dict(taken), files, count)

    def acknowledge(self, offset: Any) -> None:
        """Do nothing: files stay until somebody removes them."""

    def close(self) -> None:
        """Do nothing: no file is open."""

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
        """Return the files that have not been taken, by name, of all tables."""
        return sorted(
            (name, table) for table in self._tables for name in self._names(table) if name > self._taken.get(table, "")
        )

    def _read(self, table: str, path: Path) -> list[pa.RecordBatch]:
        schema = self._tables[table]
        try:
            found = pq.read_table(path) if path.suffix == _PARQUET else _lines(path, schema)
            # Files hold what they hold in types of their own: small numbers may have come as large ones.
            return list(found.cast(_as_said(found.schema, schema)).to_batches())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"File {path} cannot be read as changes of {table!r}: {error}. Write it again.", name="JN-FILE-DAMAGED"
            ) from error
        except ValueError as error:
            raise SchemaError(
                f"File {path} has other columns than {table!r}: {error}. Write it again with the columns of the table.",
                name="JN-SCHEMA-DIFFERENT",
            ) from error


def _lines(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of JSON lines, in the convention of the first one. A column that a line lacks is null there."""
    with path.open("rb") as file:
        first = file.readline()
    if not first.strip():
        return schema.empty_table()
    names = json.loads(first)
    # Arrow's reader takes days for numbers, and casts them from text.
    columns = [(field.name, pa.string() if pat.is_date(field.type) else field.type) for field in schema]
    row = pa.struct(columns)
    if "op" in names and "op" not in schema.names:
        fields = [("op", pa.string()), ("before", row), ("after", row)]
    else:
        marks = [(WEIGHT, pa.int64()), (CHANGE_TYPE, pa.string())]
        fields = [*columns, *(mark for mark in marks if mark[0] in names)]
    return pj.read_json(
        path,
        # A line has to fit a block.
        read_options=pj.ReadOptions(block_size=path.stat().st_size + 1),
        parse_options=pj.ParseOptions(explicit_schema=pa.schema(fields)),
    )


def _as_said(found: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """Return the types of a table for what is of it, and the others as they are."""
    row = pa.struct(list(schema))
    types = {field.name: field.type for field in schema} | {"before": row, "after": row}
    return pa.schema([(field.name, types.get(field.name, field.type)) for field in found])
