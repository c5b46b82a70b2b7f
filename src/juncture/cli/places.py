"""The paths that a command is given: those of this machine, and ``-`` for a pipe."""

from __future__ import annotations

from pathlib import Path

from juncture.files.found import WILDCARDS, files_of

STANDARD_INPUT = "-"
STANDARD_OUTPUT = Path("-")


def is_here(path: str) -> bool:
    """Return whether a path is one of this machine that can be read again."""
    return bool(path.strip()) and path != STANDARD_INPUT and "://" not in path and not Path(path).is_fifo()


def check_there(path: str, side: str) -> None:
    """Refuse a path of this machine that leads nowhere.

    This is asked before anything is loaded that reads: so what is said most often is said at once.

    Raises
    ------
    DataError
        If there is no such file or folder.
    """
    if is_here(path) and WILDCARDS.isdisjoint(path) and not Path(path).exists():
        files_of(path, f"{side} input")
