"""Folders of generated tables: whole or not there, and found again by how they were made."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juncture.errors import DataError, SpecError

__all__ = ["TablePair", "WriteFile", "check_counts", "write_folder"]

_SIDES = ("left", "right")

_MANIFEST = "manifest.json"

WriteFile = Callable[[Path, int, int, int], None]
"""Writes one file, given its path, the number of its side, its own number and how many rows it has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePair:
    """Folder and properties of a generated pair of tables.

    Attributes
    ----------
    folder
        Holds ``left/`` and ``right/``, each with ``part-00000.parquet`` and so on.
    left_rows, right_rows, seed
        As given to the function that wrote them.
    """

    folder: Path
    left_rows: int
    right_rows: int
    seed: int

    @property
    def left(self) -> Path:
        """The folder of the left table."""
        return self.folder / _SIDES[0]

    @property
    def right(self) -> Path:
        """The folder of the right table."""
        return self.folder / _SIDES[1]


def write_folder(
    folder: Path,
    manifest: Mapping[str, Any],
    *,
    maker: str,
    rows: tuple[int, int],
    rows_per_file: int,
    threads: int | None,
    write_file: WriteFile,
) -> None:
    """Write a pair of tables into a folder, unless it holds them already.

    The files are written into a hidden folder beside it, which is renamed when all is done.

    Parameters
    ----------
    folder
        Gets ``left/`` and ``right/``, each with ``part-00000.parquet`` and so on, and a manifest.
    manifest
        Everything that decides the bytes of the files, as plain data.
    maker
        The name of the public function that asks, for messages.
    rows, rows_per_file
        Rows of each table, and of a file.
    threads
        Files written at once; None for one per core.
    write_file
        Writes one of them.

    Raises
    ------
    SpecError
        If `threads` is less than 1.
    DataError
        If the folder exists and holds anything else.
    """
    if threads is not None and threads < 1:
        raise SpecError(f"threads must be at least 1, but is {threads}")
    if _is_finished(folder, manifest, maker):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_files(partial, rows, rows_per_file, threads or os.cpu_count() or 1, write_file)
        (partial / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        partial.chmod(0o755)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def check_counts(values: Mapping[str, int], *, least: int) -> None:
    """Refuse counts that are too small.

    Raises
    ------
    SpecError
        If one of them is.
    """
    for name, value in values.items():
        if value < least:
            raise SpecError(
                f"{name} must {'not be negative' if least == 0 else f'be at least {least}'}, but is {value}"
            )


def _is_finished(folder: Path, manifest: Mapping[str, Any], maker: str) -> bool:
    """Return whether the folder already has exactly these tables; raise an error for any other content."""
    if not folder.exists():
        return False
    try:
        found = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError):
        raise DataError(
            f"folder {str(folder)!r} exists and was not written by {maker}; give another folder or remove it"
        ) from None
    if found != manifest:
        other = [name for name in manifest if found.get(name) != manifest[name]]
        raise DataError(
            f"folder {str(folder)!r} holds tables made with other values of "
            f"{', '.join(other) or 'unknown settings'}; give another folder or remove it"
        )
    return True


def _write_files(folder: Path, rows: tuple[int, int], rows_per_file: int, threads: int, write_file: WriteFile) -> None:
    """Write every file of both tables, several at once; the first failure stops the rest."""
    with ThreadPoolExecutor(threads) as pool:
        written = []
        for side, (name, side_rows) in enumerate(zip(_SIDES, rows, strict=True)):
            (folder / name).mkdir()
            # An empty table still has one file, which says what its columns are.
            for index in range(max(1, -(-side_rows // rows_per_file))):
                path = folder / name / f"part-{index:05d}.parquet"
                file_rows = min(rows_per_file, side_rows - index * rows_per_file)
                written.append(pool.submit(write_file, path, side, index, file_rows))
        try:
            for each in written:
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
