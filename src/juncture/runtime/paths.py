"""The files at a path: a file, or the files of a folder, glob or URI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError
from juncture.runtime import lake_tables
from juncture.runtime.stores import check_bucket, shown, unreadable

_SUFFIXES = (".parquet", ".parq", ".pq")
_WILDCARDS = frozenset("*?[")

IsData = Callable[[str], bool]
"""Returns whether a file in a folder belongs to the table, by its name."""


@dataclass(frozen=True)
class FoundFile:
    """A file with its size and modification time at listing, by which changes are detected.

    `base` is the folder below which folder names are partition columns: the parent of a single file, a folder itself,
    or the part of a glob before its first wildcard.
    """

    path: str
    filesystem: pa.fs.FileSystem
    size_bytes: int
    mtime_ns: int
    base: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the folders from `base` down to the file."""
        return PurePosixPath(self.path).relative_to(self.base).parts[:-1]


def is_parquet(name: str) -> bool:
    """Return whether a name is that of a Parquet file."""
    return PurePosixPath(name).suffix.lower() in _SUFFIXES


def files_of(path: str) -> list[FoundFile]:
    """Return the Parquet files at a path, each once; those of a folder or glob by name."""
    files = listed(path)
    if not files:
        raise _nothing(path)
    return files


def listed(path: str, is_data: IsData = is_parquet) -> list[FoundFile]:
    """Return the files at a path, or an empty list.

    The path is a file, folder, glob or URI of `pyarrow.fs`, whose options follow ``?``. `is_data` selects files in
    folders; files that are named or match a glob are always included.
    """
    try:
        return listed_on(*_place(path), is_data)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def listed_on(filesystem: pa.fs.FileSystem, path: str, is_data: IsData = is_parquet) -> list[FoundFile]:
    """Return the files at a path within a filesystem, as `listed`."""
    is_local = isinstance(filesystem, pa.fs.LocalFileSystem)
    kind = filesystem.get_file_info(path).type
    base, matches = path, [path]
    if kind == pa.fs.FileType.File:
        base = str(PurePosixPath(path).parent)
    elif kind == pa.fs.FileType.NotFound and not _WILDCARDS.isdisjoint(path):
        base, pattern = _split(path)
        matches = sorted(_matched_here(base, pattern) if is_local else _matched(filesystem, base, pattern))
    # A match may be inside another match.
    files = list(dict.fromkeys(file for match in matches for file in _expanded(filesystem, match, is_data)))
    lake_tables.check_folders(filesystem, _folders([base, *matches], files, with_links=is_local))
    infos = filesystem.get_file_info(files)
    return [FoundFile(info.path, filesystem, info.size, info.mtime_ns, base) for info in infos]


def kind_at(path: str) -> pa.fs.FileType:
    """Return the kind of file at a path or URI."""
    try:
        filesystem, inner = _place(path)
        return filesystem.get_file_info(inner).type
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def file_at(path: str) -> FoundFile | None:
    """Return the file at a path or URI, or None."""
    try:
        filesystem, inner = _place(path)
        info = filesystem.get_file_info(inner)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if info.type != pa.fs.FileType.File:
        return None
    return FoundFile(info.path, filesystem, info.size, info.mtime_ns, str(PurePosixPath(info.path).parent))


def _place(path: str) -> tuple[pa.fs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path within it."""
    if "://" in path:
        # Brackets are invalid in a URI, but are glob characters.
        filesystem, inner = pa.fs.FileSystem.from_uri(path.replace("[", "%5B").replace("]", "%5D"))
        return filesystem, inner
    return pa.fs.LocalFileSystem(), str(Path(path).expanduser())


def _nothing(path: str) -> DataError:
    """Return the error for a path without Parquet files."""
    try:
        filesystem, inner = _place(path)
        kind = filesystem.get_file_info(inner).type
        check_bucket(path, filesystem, inner)
    except (pa.ArrowException, OSError) as error:
        return unreadable(path, error)
    reason = "does not exist" if _WILDCARDS.isdisjoint(inner) else "is a glob without matches"
    if kind == pa.fs.FileType.Directory:
        reason = "is a folder without Parquet files"
    return DataError(
        f"The path {shown(path)!r} {reason}. Expected a Parquet file, a folder with {_SUFFIXES[0]} files, or a glob "
        "that matches some.",
        name="JN-FILE-MISSING",
    )


def _expanded(filesystem: pa.fs.FileSystem, path: str, is_data: IsData) -> list[str]:
    """Return a file itself, or the data files of a folder."""
    kind = filesystem.get_file_info(path).type
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
    lake_tables.check_listing(filesystem, infos)
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
