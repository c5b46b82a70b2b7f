"""Files of any format that a path of this machine leads to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from juncture.errors import DataError

if TYPE_CHECKING:
    from juncture.runtime.paths import FoundFile

WILDCARDS = frozenset("*?[")
"""What makes a glob of a path."""


def files_of(path: str, what: str) -> list[FoundFile]:
    """Return the files that a path of this machine stands for, as `juncture.runtime.paths.listed` finds them.

    Parameters
    ----------
    path
        A file, a folder or a glob.
    what
        What an error calls it.

    Raises
    ------
    DataError
        If there are none, or they are those of a Delta, Iceberg or Hudi table.
    """
    if "://" in path:
        raise DataError(
            f"The {what} {path.partition('?')[0]} is a URI, by which Parquet files alone are read. Copy it to this "
            "machine, or write Parquet."
        )
    is_there = Path(path).exists()
    files = list["FoundFile"]()
    if is_there or not WILDCARDS.isdisjoint(path):
        # Loaded when there may be a file: that there is none is said at once.
        from juncture.runtime.paths import listed

        files = listed(path, lambda _: True)
    if not files:
        raise DataError(f"The {what} {path} {'is a folder without files' if is_there else 'does not exist'}.")
    return files


def paths_of(path: str, what: str) -> list[Path]:
    """Return the same as paths."""
    return [Path(file.path) for file in files_of(path, what)]
