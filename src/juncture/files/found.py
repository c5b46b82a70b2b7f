"""Files of any format at a local path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from juncture.errors import DataError

if TYPE_CHECKING:
    from juncture.runtime.paths import FoundFile

WILDCARDS = frozenset("*?[")
"""Characters that make a path a glob."""


def files_of(path: str, what: str) -> list[FoundFile]:
    """Return the files at a local path or glob. `what` is its name in messages."""
    if "://" in path:
        raise DataError(
            f"The {what} {path.partition('?')[0]} is a URI, but only Parquet files can be read from a URI. Copy it to "
            "this machine, or write Parquet.",
            name="JN-FILE-REMOTE",
        )
    is_there = Path(path).exists()
    files = list["FoundFile"]()
    if is_there or not WILDCARDS.isdisjoint(path):
        # Imported late, so that a missing file is reported without importing Arrow.
        from juncture.runtime.paths import listed

        files = listed(path, lambda _: True)
    if not files:
        raise DataError(
            f"The {what} {path} {'is a folder without files' if is_there else 'does not exist'}. Expected a file, a "
            "folder of files, or a glob.",
            name="JN-FILE-MISSING",
        )
    return files


def paths_of(path: str, what: str) -> list[Path]:
    """Return the files at a local path or glob as paths."""
    return [Path(file.path) for file in files_of(path, what)]
