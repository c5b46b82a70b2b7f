"""Paths in arguments: local paths, and ``-`` for standard input or output."""

from __future__ import annotations

from pathlib import Path

from juncture.files.formats import WILDCARDS, files_of

STANDARD_INPUT = "-"
STANDARD_OUTPUT = Path("-")


def is_here(path: str) -> bool:
    """Return whether a path is local and can be read repeatedly."""
    return bool(path.strip()) and path != STANDARD_INPUT and "://" not in path and not Path(path).is_fifo()


def check_there(path: str, side: str) -> None:
    """Raise `DataError` for a missing local path, before slow imports."""
    if is_here(path) and WILDCARDS.isdisjoint(path) and not Path(path).exists():
        files_of(path, f"{side} input")
