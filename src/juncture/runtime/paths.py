"""Which Parquet files a path leads to: a file, all those of a folder or glob, or what a URI names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs

from juncture.errors import DataError

_SUFFIXES = (".parquet", ".parq", ".pq")
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class FoundFile:
    """A Parquet file, as it was when it was found.

    Attributes
    ----------
    path, filesystem
        Where it is.
    size_bytes, mtime_ns
        How large it was, and when it was last written: one of which either is another by now has changed.
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


def files_of(path: str) -> list[FoundFile]:
    """Return the Parquet files that a path leads to, those of a folder or glob by name, each once.

    Raises
    ------
    DataError
        If there are none, some cannot be listed, or a link among them leads nowhere.
    """
    try:
        filesystem, inner = _place(path)
        base, files = _expanded(filesystem, inner, may_be_glob="://" not in path)
        infos = filesystem.get_file_info(files)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"The path {path!r} cannot be read: {error}") from error
    if not files:
        raise DataError(
            f"The path {path!r} leads to no Parquet file. Expected a file, a folder that holds {_SUFFIXES[0]} files, "
            "or a glob that matches some."
        )
    return [FoundFile(info.path, filesystem, info.size, info.mtime_ns, base) for info in infos]


def file_at(path: str) -> FoundFile | None:
    """Return the file of a path or URI, or None if there is none.

    Raises
    ------
    DataError
        If nobody can tell.
    """
    try:
        filesystem, inner = _place(path)
        info = filesystem.get_file_info(inner)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"The path {path!r} cannot be read: {error}") from error
    if info.type != pa.fs.FileType.File:
        return None
    return FoundFile(info.path, filesystem, info.size, info.mtime_ns, str(PurePosixPath(info.path).parent))


def _place(path: str) -> tuple[pa.fs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path within it."""
    if "://" in path:
        filesystem, inner = pa.fs.FileSystem.from_uri(path)
        return filesystem, inner
    return pa.fs.LocalFileSystem(), str(Path(path).expanduser())


def _expanded(filesystem: pa.fs.FileSystem, path: str, *, may_be_glob: bool) -> tuple[str, list[str]]:
    """Return the folder that a path names, and the files that it leads to."""
    kind = filesystem.get_file_info(path).type
    if kind == pa.fs.FileType.File:
        return str(PurePosixPath(path).parent), [path]
    is_local = isinstance(filesystem, pa.fs.LocalFileSystem)
    if kind == pa.fs.FileType.Directory:
        return path, sorted(_inside(Path(path)) if is_local else _listed(filesystem, path))
    if may_be_glob and not _WILDCARDS.isdisjoint(path):
        return _matched(Path(path))
    if is_local:
        _check_link(Path(path))
    return path, []


def _matched(pattern: Path) -> tuple[str, list[str]]:
    """Return what comes before the first wildcard of a glob, and the files that are its matches or within them."""
    base = Path(*takewhile(_WILDCARDS.isdisjoint, pattern.parts))
    matches = sorted(str(match) for match in base.glob(str(pattern.relative_to(base))) if not _is_hidden(match.name))
    local = pa.fs.LocalFileSystem()
    # A match may lie within another.
    found = dict.fromkeys(file for match in matches for file in _expanded(local, match, may_be_glob=False)[1])
    return str(base), list(found)


def _inside(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """Yield the data files of a folder of this machine at any depth, through links too, except back into itself."""
    real = folder.resolve()
    if real in above:
        return
    for entry in folder.iterdir():
        if _is_hidden(entry.name):
            continue
        if entry.is_dir():
            yield from _inside(entry, (*above, real))
        elif entry.is_file():
            if _is_data(entry.name):
                yield str(entry)
        else:
            _check_link(entry)


def _listed(filesystem: pa.fs.FileSystem, folder: str) -> Iterator[str]:
    """Yield the data files of a folder elsewhere at any depth."""
    root = PurePosixPath(filesystem.get_file_info(folder).path)
    for info in filesystem.get_file_info(pa.fs.FileSelector(folder, recursive=True)):
        inner = PurePosixPath(info.path).relative_to(root)
        if info.type == pa.fs.FileType.File and _is_data(inner.name) and not any(map(_is_hidden, inner.parts)):
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
            f"{str(path)!r} is a link to {str(path.readlink())!r}, where there is nothing. Mend the link, or remove it."
        )


def _is_data(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in _SUFFIXES


def _is_hidden(name: str) -> bool:
    """Tell Spark's markers and other hidden names, but not folders that stand for a column whose name is like that."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
