"""Folders of Delta, Iceberg and Hudi tables, which cannot be read as Parquet files.

Their Parquet files include deleted and overwritten rows. Only a log beside the files lists the current ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow.fs

from juncture.errors import DataError
from juncture.runtime.stores import uri_of


@dataclass(frozen=True)
class _Format:
    """A table format: its title, its name in Spark, and the Python call that reads a folder."""

    title: str
    name: str
    call: str


_DELTA = _Format("Delta", "delta", "deltalake.DeltaTable({folder!r}).to_pyarrow_table()")
_HUDI = _Format("Hudi", "hudi", "hudi.HudiTableBuilder.from_base_uri({folder!r}).build().read_snapshot()")
_ICEBERG = _Format("Iceberg", "iceberg", "pyiceberg.catalog.load_catalog(…).load_table(…).scan().to_arrow()")

_LOGS = {"_delta_log": _DELTA, ".hoodie": _HUDI}
"""Folders with a log."""
_METADATA, _METADATA_ENDINGS = "metadata", (".metadata.json", ".metadata.json.gz")
"""Iceberg's metadata folder, and the endings of its files."""


def check_folders(filesystem: pyarrow.fs.FileSystem, folders: Iterable[str]) -> None:
    """Refuse folders that belong to such a table."""
    checked = set[str]()
    for folder in folders:
        for each in _with_parents(folder):
            if each in checked:
                break
            checked.add(each)
            # Parent folders may be unreadable.
            with suppress(OSError):
                _check_folder(filesystem, each)


def check_listing(filesystem: pyarrow.fs.FileSystem, infos: Iterable[pyarrow.fs.FileInfo]) -> None:
    """Refuse listed files, at any depth, that belong to such a table."""
    for info in infos:
        path = PurePosixPath(info.path)
        folder = path if info.type == pyarrow.fs.FileType.Directory else path.parent
        if folder.name in _LOGS:
            raise _refusal(_LOGS[folder.name], str(folder.parent), filesystem)
        if folder.name == _METADATA and info.base_name.endswith(_METADATA_ENDINGS):
            raise _refusal(_ICEBERG, str(folder.parent), filesystem)


def _check_folder(filesystem: pyarrow.fs.FileSystem, folder: str) -> None:
    names = (*_LOGS, _METADATA)
    infos = filesystem.get_file_info([str(PurePosixPath(folder, name)) for name in names])
    folders = [info for info in infos if info.type == pyarrow.fs.FileType.Directory]
    check_listing(filesystem, folders)
    if folders:
        check_listing(filesystem, filesystem.get_file_info(pyarrow.fs.FileSelector(folders[-1].path)))


def _with_parents(folder: str) -> Iterator[str]:
    """Yield a folder and its parents, except the nameless root of all buckets."""
    path = PurePosixPath(folder)
    yield from (str(each) for each in (path, *path.parents) if each.name)


def _refusal(table: _Format, folder: str, filesystem: pyarrow.fs.FileSystem) -> DataError:
    folder = uri_of(folder, filesystem)
    return DataError(
        f"The path {folder!r} is {'an' if table is _ICEBERG else 'a'} {table.title} table, whose Parquet files "
        "include deleted and overwritten rows. Expected plain Parquet files. Read the table with "
        f"{table.call.format(folder=folder)}, or on Spark with spark.read.format({table.name!r}).load({folder!r}), "
        "and pass the result.",
        name="JN-LAKE-TABLE",
    )
