"""Snapshots of stream joins, and folders that they are saved to, atomically."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from juncture.errors import StateError
from juncture.runtime.paths import sync_path
from juncture.streams.plan import schema_of


@dataclass(frozen=True)
class Snapshot:
    """The state of a stream join at one moment.

    Attributes
    ----------
    setup
        Definition of the join, as plain data: `Setup.to_dict`.
    progress
        Progress of the join, as plain data.
    tables
        Rows by kind: ``left_state`` and ``right_state`` (stored, with marks), ``left_late`` and ``right_late``
        (collected), ``not_given`` (results not returned yet). Tables without rows are left out.
    """

    setup: Mapping[str, Any]
    progress: Mapping[str, Any]
    tables: Mapping[str, pa.Table]


def write_ipc(table: pa.Table, sink: Any) -> None:
    """Write a table to a file or buffer in Arrow's stream format."""
    # The file format allows only one dictionary for each column; the stream format one for each batch.
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def to_ipc(table: pa.Table) -> pa.Buffer:
    """Return a table as bytes in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    write_ipc(table, sink)
    return sink.getvalue()


def from_ipc(source: Any) -> pa.Table:
    """Return the table of a file or buffer in Arrow's stream format."""
    with pa.ipc.open_stream(source) as reader:
        return reader.read_all()


_VERSION = 2
_MANIFEST = "join.json"
_SUFFIX = ".arrow"


def write(snapshot: Snapshot, folder: str | PathLike[str]) -> None:
    """Write a join to a folder. The folder is replaced as a whole, or unchanged after an error."""
    target = Path(folder)
    fresh, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    manifest = {
        "version": _VERSION,
        "join": snapshot.setup,
        "progress": snapshot.progress,
        "tables": sorted(snapshot.tables),
    }
    try:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, table in snapshot.tables.items():
            with pa.OSFile(str(fresh / f"{name}{_SUFFIX}"), "wb") as file:
                write_ipc(table, file)
        (fresh / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        # All files are on disk before the folder has its name, so that it is complete after a power cut.
        for path in (*fresh.iterdir(), fresh):
            sync_path(path)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        sync_path(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise StateError(
            f"State folder {target} cannot be written: {error}. Check its permissions and the free disk space.",
            name="JN-STATE-WRITE",
        ) from error


def read(folder: str | PathLike[str]) -> Snapshot:
    """Return the join that was written to a folder."""
    source = Path(folder)
    old = source.with_name(f".{source.name}.old")
    if not source.exists() and old.exists():
        # The process ended while it replaced the folder.
        old.replace(source)
    with reading(source):
        manifest = json.loads((source / _MANIFEST).read_text())
        if manifest["version"] != _VERSION:
            raise StateError(
                f"State folder {source} has version {manifest['version']}, but this Juncture reads version "
                f"{_VERSION}. Restore it with the version of Juncture that wrote it, or start a new join.",
                name="JN-STATE-VERSION",
            )
        tables = {}
        for name in manifest["tables"]:
            with pa.OSFile(str(source / f"{name}{_SUFFIX}"), "rb") as file:
                tables[name] = from_ipc(file)
        return Snapshot(manifest["join"], manifest["progress"], tables)


@contextmanager
def reading(folder: str | PathLike[str]) -> Iterator[None]:
    """Raise a `StateError` for any error in reading a folder."""
    source = Path(folder)
    try:
        yield
    except FileNotFoundError:
        missing = "No state of a join is in" if not (source / _MANIFEST).exists() else "A file is missing in"
        raise StateError(
            f"{missing} {source}. Expected a folder that StreamJoin.save(…) wrote.", name="JN-STATE-DAMAGED"
        ) from None
    except (KeyError, TypeError, IndexError, ValueError, OSError, pa.ArrowException) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(
            f"State folder {source} is damaged, or was not written by StreamJoin.save(…): {error}. Restore the folder "
            "from a copy.",
            name="JN-STATE-DAMAGED",
        ) from error


def check_same(folder: str | PathLike[str], snapshot: Snapshot, expected: Mapping[str, Any]) -> None:
    """Raise an error that names the first difference if a folder belongs to another join."""
    found = snapshot.setup
    for name, value in expected.items():
        if found.get(name) != value:
            shown = [_shown(name, each) for each in (found, {name: value})]
            raise StateError(
                f"The state in {folder} belongs to another join: its {name} is {shown[0]}, but this join has "
                f"{shown[1]}. Pass another folder or checkpoint.",
                name="JN-STATE-FOREIGN",
            )


def _shown(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    if value is not None and name.endswith("_schema"):
        return ", ".join(f"{field.name}: {field.type}" for field in schema_of(value))
    return str(value)
