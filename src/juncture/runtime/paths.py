"""The files at a path: a file, or the files of a folder, glob or URI, with the partition values in their folders.

Parquet files in folders of Delta, Iceberg and Hudi tables include deleted and overwritten rows, and only a log beside
the files lists the current ones. `juncture.runtime.lakes` reads such a table by its folder. Any other path to its files
is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError
from juncture.runtime.stores import check_bucket, infos_of, path_text, place_of, unreadable, uri_of


@dataclass(frozen=True)
class _Format:
    """A table format: its title, and its name in Spark."""

    title: str
    name: str


_DELTA, _HUDI, _ICEBERG = _Format("Delta", "delta"), _Format("Hudi", "hudi"), _Format("Iceberg", "iceberg")

_LOGS = {"_delta_log": _DELTA, ".hoodie": _HUDI}  # folders with a log
_METADATA, _METADATA_ENDINGS = "metadata", (".metadata.json", ".metadata.json.gz")
"""Iceberg's metadata folder, and the endings of its files."""


def lake_format(filesystem: pyarrow.fs.FileSystem, folder: str) -> str | None:
    """Return ``"Delta"``, ``"Iceberg"`` or ``"Hudi"`` for the folder of such a table, else None."""
    # The root of an object store has no name.
    table = _table_in(filesystem, folder) if PurePosixPath(folder).name else None
    return None if table is None else table.title


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
    table = _table_in(filesystem, folder)
    if table is not None:
        raise _refusal(table, folder, filesystem)


def _table_in(filesystem: pyarrow.fs.FileSystem, folder: str) -> _Format | None:
    """Return the format of the table whose folder this is."""
    infos = infos_of(filesystem, [str(PurePosixPath(folder, name)) for name in (*_LOGS, _METADATA)])
    folders = [info for info in infos if info.type == pyarrow.fs.FileType.Directory]
    for info in folders:
        if info.base_name in _LOGS:
            return _LOGS[info.base_name]
    inside = filesystem.get_file_info(pyarrow.fs.FileSelector(folders[-1].path)) if folders else []
    return _ICEBERG if any(info.base_name.endswith(_METADATA_ENDINGS) for info in inside) else None


def _with_parents(folder: str) -> Iterator[str]:
    """Yield a folder and its parents, except the nameless root of all buckets."""
    path = PurePosixPath(folder)
    yield from (str(each) for each in (path, *path.parents) if each.name)


def _refusal(table: _Format, folder: str, filesystem: pyarrow.fs.FileSystem) -> DataError:
    folder = uri_of(folder, filesystem)
    remedy = f"Pass {folder!r} as the only path of a table"
    if table is _HUDI:
        remedy = f"Read the table with hudi.HudiTableBuilder.from_base_uri({folder!r}).build().read_snapshot()"
    return DataError(
        f"The path {folder!r} is {'an' if table is _ICEBERG else 'a'} {table.title} table, whose Parquet files "
        f"include deleted and overwritten rows. {remedy}, or read it on Spark with "
        f"spark.read.format({table.name!r}).load({folder!r}), and pass the result.",
        name="JN-LAKE-TABLE",
    )


_SUFFIXES = (".parquet", ".parq", ".pq")
_WILDCARDS = frozenset("*?[")

IsData = Callable[[str], bool]
"""Returns whether a file in a folder belongs to the table, by its name."""


@dataclass(frozen=True)
class FoundFile:
    """A file with its size and modification time at listing, by which changes are detected."""

    path: str
    filesystem: pa.fs.FileSystem
    size_bytes: int
    mtime_ns: int
    # Below it, folder names are partition columns: a file's parent, a folder, or what a glob has before a wildcard.
    base: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the folders from `base` down to the file."""
        return PurePosixPath(self.path).relative_to(self.base).parts[:-1]


def is_parquet(name: str) -> bool:
    """Return whether a name is that of a Parquet file."""
    return PurePosixPath(name).suffix.lower() in _SUFFIXES


def files_of(path: str, filesystem: pa.fs.FileSystem | None = None) -> list[FoundFile]:
    """Return the Parquet files at a path, each once; those of a folder or glob by name."""
    files = listed(path, filesystem=filesystem)
    if not files:
        raise _nothing(path, filesystem)
    return files


def listed(path: str, is_data: IsData = is_parquet, *, filesystem: pa.fs.FileSystem | None = None) -> list[FoundFile]:
    """Return the files at a path, or an empty list.

    The path is a file, folder, glob or URI, with options after ``?``, or a path within a filesystem. `is_data` selects
    in folders.
    """
    try:
        return listed_on(*place_of(path, filesystem), is_data)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def listed_on(filesystem: pa.fs.FileSystem, path: str, is_data: IsData = is_parquet) -> list[FoundFile]:
    """Return the files at a path within a filesystem, as `listed`."""
    is_local = isinstance(filesystem, pa.fs.LocalFileSystem)
    kind = infos_of(filesystem, [path])[0].type
    base, matches = path, [path]
    if kind == pa.fs.FileType.File:
        base = str(PurePosixPath(path).parent)
    elif kind == pa.fs.FileType.NotFound and not _WILDCARDS.isdisjoint(path):
        base, pattern = _split(path)
        matches = sorted(_matched_here(base, pattern) if is_local else _matched(filesystem, base, pattern))
    # A match may be inside another match.
    files = list(dict.fromkeys(file for match in matches for file in _expanded(filesystem, match, is_data)))
    check_folders(filesystem, _folders([base, *matches], files, with_links=is_local))
    infos = filesystem.get_file_info(files)
    return [FoundFile(info.path, filesystem, info.size, info.mtime_ns, base) for info in infos]


def kind_at(path: str, filesystem: pa.fs.FileSystem | None = None) -> pa.fs.FileType:
    """Return the kind of file at a path or URI."""
    try:
        filesystem, inner = place_of(path, filesystem)
        return infos_of(filesystem, [inner])[0].type
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def file_at(path: str, filesystem: pa.fs.FileSystem | None = None) -> FoundFile | None:
    """Return the file at a path or URI, or None."""
    try:
        filesystem, inner = place_of(path, filesystem)
        [info] = infos_of(filesystem, [inner])
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if info.type != pa.fs.FileType.File:
        return None
    return FoundFile(info.path, filesystem, info.size, info.mtime_ns, str(PurePosixPath(info.path).parent))


def _nothing(path: str, filesystem: pa.fs.FileSystem | None) -> DataError:
    """Return the error for a path without Parquet files."""
    try:
        filesystem, inner = place_of(path, filesystem)
        kind = infos_of(filesystem, [inner])[0].type
        check_bucket(path, filesystem, inner)
    except (pa.ArrowException, OSError) as error:
        return unreadable(path, error)
    reason = "does not exist" if _WILDCARDS.isdisjoint(inner) else "is a glob without matches"
    if kind == pa.fs.FileType.Directory:
        reason = "is a folder without Parquet files"
    return DataError(
        f"The path {path_text(path)!r} {reason}. Expected a Parquet file, a folder with {_SUFFIXES[0]} files, or a "
        "glob that matches some.",
        name="JN-FILE-MISSING",
    )


def _expanded(filesystem: pa.fs.FileSystem, path: str, is_data: IsData) -> list[str]:
    """Return a file itself, or the data files of a folder."""
    kind = infos_of(filesystem, [path])[0].type
    is_local = isinstance(filesystem, pa.fs.LocalFileSystem)
    if kind == pa.fs.FileType.File:
        return [path]
    if kind == pa.fs.FileType.Directory:
        return sorted(_inside(Path(path), is_data) if is_local else _listed(filesystem, path, is_data))
    if is_local:
        _check_link(Path(path))
    return []


def _split(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Return the part of a glob before its first wildcard, and the names after it."""
    parts = PurePosixPath(pattern).parts
    base = tuple(takewhile(_WILDCARDS.isdisjoint, parts))
    return str(PurePosixPath(*base)) if base else "", parts[len(base) :]


def _matched_here(base: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the local files and folders that a glob matches."""
    for match in Path(base).glob(str(PurePosixPath(*pattern))):
        if not any(map(_is_hidden, match.relative_to(base).parts)):
            yield str(match)


def _matched(filesystem: pa.fs.FileSystem, folder: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the remote files and folders that a glob matches. Only matching folders are listed."""
    name, *rest = pattern
    if name == "**":
        for each in (folder, *_folders_within(filesystem, folder)):
            yield from _matched(filesystem, each, rest) if rest else [each]
        return
    for info in filesystem.get_file_info(pa.fs.FileSelector(folder, allow_not_found=True)):
        if _is_hidden(info.base_name) or not fnmatchcase(info.base_name, name):
            continue
        if not rest:
            yield info.path
        elif info.type == pa.fs.FileType.Directory:
            yield from _matched(filesystem, info.path, rest)


def _folders_within(filesystem: pa.fs.FileSystem, folder: str) -> Iterator[str]:
    for info in filesystem.get_file_info(pa.fs.FileSelector(folder, recursive=True, allow_not_found=True)):
        inner = PurePosixPath(info.path).relative_to(PurePosixPath(folder))
        if info.type == pa.fs.FileType.Directory and not any(map(_is_hidden, inner.parts)):
            yield info.path


def _folders(named: Sequence[str], files: Sequence[str], *, with_links: bool) -> set[str]:
    """Return the folders that were named or contain named files; of files inside folders, only the targets of links."""
    paths = set(files)
    folders = {PurePosixPath(path).parent if path in paths else PurePosixPath(path) for path in named}
    if not with_links:
        return set(map(str, folders))
    folders |= {PurePosixPath(file).parent for file in files}
    linked = {os.path.realpath(path) for path in folders}
    linked |= {str(Path(file).resolve().parent) for file in files if Path(file).is_symlink()}
    return {*(str(Path(folder).absolute()) for folder in folders), *linked}


def _inside(folder: Path, is_data: IsData, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """Yield the data files of a local folder at any depth, following links except cycles."""
    real = folder.resolve()
    if real in above:
        return
    for entry in folder.iterdir():
        if _is_hidden(entry.name):
            continue
        if entry.is_dir():
            yield from _inside(entry, is_data, (*above, real))
        elif entry.is_file():
            if is_data(entry.name):
                yield str(entry)
        else:
            _check_link(entry)


def _listed(filesystem: pa.fs.FileSystem, folder: str, is_data: IsData) -> Iterator[str]:
    """Yield the data files of a remote folder at any depth."""
    root = PurePosixPath(filesystem.get_file_info(folder).path)
    infos = filesystem.get_file_info(pa.fs.FileSelector(folder, recursive=True))
    check_listing(filesystem, infos)
    for info in infos:
        inner = PurePosixPath(info.path).relative_to(root)
        if info.type == pa.fs.FileType.File and is_data(inner.name) and not any(map(_is_hidden, inner.parts)):
            yield info.path


def _check_link(path: Path) -> None:
    """Refuse a broken link, whose rows would be missing silently."""
    if path.is_symlink() and not path.exists():
        raise DataError(
            f"The path {str(path)!r} is a link to {str(path.readlink())!r}, which does not exist. Correct or remove "
            "the link.",
            name="JN-FILE-MISSING",
        )


def _is_hidden(name: str) -> bool:
    """Return whether a name is hidden, such as Spark's markers. Partition folders are not hidden."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def sync_path(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


Value = Any
"""A partition value: of folders an integer or text, of lake tables any value of the column's type, or None."""

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The folder name of null."""

_INT32 = range(-(1 << 31), 1 << 31)


def partitions_of(files: Sequence[FoundFile]) -> tuple[pa.Schema, list[tuple[Value, ...]]]:
    """Return the partition columns of files, text unless all values are 32-bit integers, and each file's values."""
    texts = [partition_of(file) for file in files]
    names = list(texts[0])
    for file, partition in zip(files, texts, strict=True):
        if list(partition) != names:
            raise DataError(
                f"The folders of {file.path!r} define {_names(partition)}, but the folders of {files[0].path!r} "
                f"define {_names(names)}. Expected the same partition columns for all files of a table. Move or "
                "exclude a file.",
                name="JN-FILE-COLUMNS",
            )
    fields, columns = [], []
    for name in names:
        column = [partition[name] for partition in texts]
        present = [text for text in column if text is not None]
        are_integers = bool(present) and all(re.fullmatch("-?[0-9]+", text) and int(text) in _INT32 for text in present)
        fields.append(pa.field(name, pa.int32() if are_integers else pa.string()))
        columns.append([int(text) if are_integers and text is not None else text for text in column])
    values: list[tuple[Value, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(files)
    return pa.schema(fields), values


def partition_of(file: FoundFile) -> dict[str, str | None]:
    """Return the partition columns of a file, each with its value as text."""
    values: dict[str, str | None] = {}
    for folder in file.folders:
        name, separator, value = folder.partition("=")
        if not (name and separator):
            continue
        try:
            name, text = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise DataError(
                f"The folder {folder!r} of {file.path!r} defines a column whose decoded name is not UTF-8: {error}. "
                "Rename the folder.",
                name="JN-PARTITION-NAME",
            ) from error
        if name in values:
            raise DataError(
                f"The folders of {file.path!r} define the column {name!r} twice. Expected one folder per column. "
                "Rename one of them.",
                name="JN-PARTITION-NAME",
            )
        values[name] = None if value == NULL_NAME else text
    return values


def _names(names: Sequence[str] | dict[str, str | None]) -> str:
    text = ", ".join(map(repr, names))
    return f"the columns {text}" if len(names) > 1 else f"the column {text}" if names else "no columns"
