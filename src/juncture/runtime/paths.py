"""Which files a path leads to: a file, all those of a folder or glob, or what a URI names."""

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
"""Returns whether a file of a folder belongs to the table, by its name."""


@dataclass(frozen=True)
class FoundFile:
    """A file, as it was when it was found.

    Attributes
    ----------
    path, filesystem
        Where it is.
    size_bytes, mtime_ns
        Its size and its time of modification. The file has changed if either differs.
    base
        The folder that was named: that of a file, a folder itself, or what comes before the first wildcard of a glob.
    """

    path: str
    filesystem: pa.fs.FileSystem
    size_bytes: int
    mtime_ns: int
    base: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the folders from the one that was named down to the file."""
        return PurePosixPath(self.path).relative_to(self.base).parts[:-1]


def is_parquet(name: str) -> bool:
    """Return whether a name is that of a Parquet file."""
    return PurePosixPath(name).suffix.lower() in _SUFFIXES


def files_of(path: str) -> list[FoundFile]:
    """Return the Parquet files that a path leads to, those of a folder or glob by name, each once.

    Raises
    ------
    DataError
        If there are none, or `listed` raises it.
    """
    files = listed(path)
    if not files:
        raise _nothing(path)
    return files


def listed(path: str, is_data: IsData = is_parquet) -> list[FoundFile]:
    """Return the files that a path leads to, if there are any.

    Parameters
    ----------
    path
        A file, a folder, a glob, or a URI that `pyarrow.fs` knows, which may be a glob too; ``?`` begins its options.
    is_data
        Which files of a folder count. One that is named, or that a glob matches, always does.

    Raises
    ------
    DataError
        If some cannot be listed, a link among them leads nowhere, or they are those of a Delta, Iceberg or Hudi table.
    """
    try:
        return listed_on(*_place(path), is_data)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def listed_on(filesystem: pa.fs.FileSystem, path: str, is_data: IsData = is_parquet) -> list[FoundFile]:
    """Return the files that a path within a filesystem leads to, as `listed` does."""
    is_local = isinstance(filesystem, pa.fs.LocalFileSystem)
    kind = filesystem.get_file_info(path).type
    base, matches = path, [path]
    if kind == pa.fs.FileType.File:
        base = str(PurePosixPath(path).parent)
    elif kind == pa.fs.FileType.NotFound and not _WILDCARDS.isdisjoint(path):
        base, pattern = _split(path)
        matches = sorted(_matched_here(base, pattern) if is_local else _matched(filesystem, base, pattern))
    # A match may lie within another.
    files = list(dict.fromkeys(file for match in matches for file in _expanded(filesystem, match, is_data)))
    lake_tables.check_folders(filesystem, _folders([base, *matches], files, with_links=is_local))
    infos = filesystem.get_file_info(files)
    return [FoundFile(info.path, filesystem, info.size, info.mtime_ns, base) for info in infos]


def kind_at(path: str) -> pa.fs.FileType:
    """Return what is at a path or URI.

    Raises
    ------
    DataError
        If that is unknown.
    """
    try:
        filesystem, inner = _place(path)
        return filesystem.get_file_info(inner).type
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def file_at(path: str) -> FoundFile | None:
    """Return the file of a path or URI, or None if there is none.

    Raises
    ------
    DataError
        If that is unknown.
    """
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
        # Brackets are no part of a URI, but of globs.
        filesystem, inner = pa.fs.FileSystem.from_uri(path.replace("[", "%5B").replace("]", "%5D"))
        return filesystem, inner
    return pa.fs.LocalFileSystem(), str(Path(path).expanduser())


def _nothing(path: str) -> DataError:
    """Return the error to raise where a path leads to no Parquet file."""
    try:
        filesystem, inner = _place(path)
        kind = filesystem.get_file_info(inner).type
        check_bucket(path, filesystem, inner)
    except (pa.ArrowException, OSError) as error:
        return unreadable(path, error)
    reason = "nothing is there" if _WILDCARDS.isdisjoint(inner) else "the glob matches none"
    if kind == pa.fs.FileType.Directory:
        reason = "the folder holds none"
    return DataError(
        f"The path {shown(path)!r} leads to no Parquet file: {reason}. Expected a file, a folder that holds "
        f"{_SUFFIXES[0]} files, or a glob that matches some."
    )


def _expanded(filesystem: pa.fs.FileSystem, path: str, is_data: IsData) -> list[str]:
    """Return a file itself, and of a folder the data files in it."""
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
    """Return what comes before the first wildcard of a glob, and the names after it."""
    parts = PurePosixPath(pattern).parts
    base = tuple(takewhile(_WILDCARDS.isdisjoint, parts))
    return str(PurePosixPath(*base)) if base else "", parts[len(base) :]


def _matched_here(base: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the files and folders of this machine that a glob matches."""
    for match in Path(base).glob(str(PurePosixPath(*pattern))):
        if not any(map(_is_hidden, match.relative_to(base).parts)):
            yield str(match)


def _matched(filesystem: pa.fs.FileSystem, folder: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the files and folders elsewhere that a glob matches, folder by folder, so that no others are listed."""
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
    """Return the folders that were named or lead to files; of files that a folder holds those alone that links do."""
    found = set(files)
    folders = {PurePosixPath(path).parent if path in found else PurePosixPath(path) for path in named}
    if not with_links:
        return set(map(str, folders))
    folders |= {PurePosixPath(file).parent for file in files}
    linked = {os.path.realpath(path) for path in folders}
    linked |= {str(Path(file).resolve().parent) for file in files if Path(file).is_symlink()}
    return {*(str(Path(folder).absolute()) for folder in folders), *linked}


def _inside(folder: Path, is_data: IsData, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """Yield the data files of a folder of this machine at any depth, through links too, except back into itself."""
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
    """Yield the data files of a folder elsewhere at any depth."""
    root = PurePosixPath(filesystem.get_file_info(folder).path)
    infos = filesystem.get_file_info(pa.fs.FileSelector(folder, recursive=True))
    lake_tables.check_listing(filesystem, infos)
    for info in infos:
        inner = PurePosixPath(info.path).relative_to(root)
        if info.type == pa.fs.FileType.File and is_data(inner.name) and not any(map(_is_hidden, inner.parts)):
            yield info.path


def _check_link(path: Path) -> None:
    """Refuse a link to what is not there, whose rows would be lost without a word.

    Raises
    ------
    DataError
        If it is one.
    """
    if path.is_symlink() and not path.exists():
        raise DataError(
            f"{str(path)!r} is a link to {str(path.readlink())!r}, which does not exist. Correct or remove the link."
        )


def _is_hidden(name: str) -> bool:
    """Return whether a name is hidden, such as Spark's markers; not a partition folder whose column has such a name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
