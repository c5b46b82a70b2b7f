"""Output files of commands, which appear completely or not at all."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from juncture.errors import PlanError
from juncture.files.formats import COMPRESSED

_DATA_SUFFIXES = (".parquet", ".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".arrow", ".crc", *COMPRESSED)


def check_target(target: Path, *, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """Refuse an output path that cannot be written, before any work is done.

    With `overwrite` it may exist, but a folder with other files than data files, or an input, is never replaced.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", str(target)):
        raise PlanError(
            f"{target} is a URI. Expected a file or folder of this machine. Write there, then copy it.",
            name="JN-OUTPUT-LOCAL",
        )
    if not target.parent.is_dir():
        raise PlanError(
            f"{target} cannot be written, because the folder {target.parent} does not exist. Create it, or pass "
            "another path.",
            name="JN-OUTPUT-FOLDER",
        )
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise PlanError(f"{target} exists. Pass --overwrite to replace it, or another -o.", name="JN-OUTPUT-EXISTS")
    target_path = target.resolve()
    for path in map(Path.resolve, inputs):
        if target_path == path or path in target_path.parents:
            raise PlanError(
                f"{target} is an input of the join, so it is not replaced. Pass another -o.", name="JN-OUTPUT-INPUT"
            )
        if target_path in path.parents:
            raise PlanError(
                f"{target} contains an input of the join, so it is not replaced. Pass another -o.",
                name="JN-OUTPUT-INPUT",
            )
    other = next((path for path in _files(target) if not _is_data(path)), None)
    if other is not None:
        raise PlanError(
            f"{target} contains {other.relative_to(target)}, which is not an output of a join, so it is not replaced. "
            "Pass another -o.",
            name="JN-OUTPUT-EXISTS",
        )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file or folder, and move it there atomically if the block succeeds."""
    token = secrets.token_hex(4)
    fresh = target.with_name(f".{target.name}.{token}.new")
    stale = target.with_name(f".{target.name}.{token}.old")
    try:
        yield fresh
        if target.exists() or target.is_symlink():
            target.rename(stale)
        try:
            fresh.rename(target)
        except BaseException:
            if stale.exists():
                stale.rename(target)
            raise
    finally:
        _remove(fresh)
        _remove(stale)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, at any depth; none for a file."""
    return (path for path in folder.rglob("*") if not path.is_dir()) if folder.is_dir() else iter(())


def _is_data(path: Path) -> bool:
    return path.name.startswith("_") or path.name.endswith(_DATA_SUFFIXES)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
