"""Files of any format that a path of this machine leads to."""

from __future__ import annotations

import glob
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from juncture.errors import DataError

if TYPE_CHECKING:
    from juncture.runtime.paths import FoundFile

WILDCARDS = frozenset("*?[")
"""What makes a glob of a path."""


def files_of(path: str, what: str) -> list[Path]:
    """Return the files that a path of this machine stands for.

    Parameters
    ----------
    path
        A file, a folder or a glob.
    what
        What an error calls it.

    Raises
    ------
    DataError
        If there are none.
    """
    found = Path(path)
    if found.is_file():
        return [found]
    matches = [found] if found.is_dir() else [Path(name) for name in glob.glob(path, recursive=True)]  # noqa: PTH207 - Path.glob takes no absolute pattern
    files = [file for match in matches for file in ([match] if match.is_file() else match.rglob("*"))]
    files = list({file for file in files if file.is_file() and not file.name.startswith((".", "_"))})
    if not files:
        state = "is a folder without files" if found.is_dir() else "does not exist"
        raise DataError(f"The {what} {path} {state}.")
    return sorted(files)


def found_file(file: Path, root: Path) -> FoundFile:
    """Return a file with the folders below the one that was named, which may stand for columns."""
    # Loaded when there is a file: that there is none is said at once.
    from pyarrow.fs import LocalFileSystem

    from juncture.runtime.paths import FoundFile

    base = file.parent if file == root else Path(*takewhile(WILDCARDS.isdisjoint, root.parts))
    status = file.stat()
    return FoundFile(str(file), LocalFileSystem(), status.st_size, status.st_mtime_ns, str(base))
