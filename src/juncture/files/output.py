"""Files that a command writes: they appear whole or not at all."""

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
    """Refuse a place to write to, before any work is done.

    Parameters
    ----------
    target
        The file or folder to write.
    overwrite
        Whether it may exist already. A folder that holds anything but data files is never replaced.
    inputs
        Files and folders that are read, none of which it may be, lie in or hold.

    Raises
    ------
    PlanError
        If it exists, is no data, is or holds an input, has no folder to lie in, or is a URI.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", str(target)):
        raise PlanError(f"{target} is a URI. Expected a file or folder of this machine: write there, and copy it.")
    if not target.parent.is_dir():
        raise PlanError(f"{target} cannot be written, since there is no folder {target.parent}. Make it first.")
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise PlanError(f"{target} exists. Pass --overwrite to replace it, or another -o.")
    place = target.resolve()
    for path in map(Path.resolve, inputs):
        if place == path or path in place.parents:
            raise PlanError(f"{target} is an input of the join, so it is not replaced. Pass another -o.")
        if place in path.parents:
            raise PlanError(f"{target} holds an input of the join, so it is not replaced. Pass another -o.")
    other = next((path for path in _files(target) if not _is_data(path)), None)
    if other is not None:
        raise PlanError(
            f"{target} holds {other.relative_to(target)}, which is no output of a join, so it is not replaced. "
            "Pass another -o."
        )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary name beside a file or folder, whose content takes its place if the block succeeds.

    Yields
    ------
    Path
        Where to write, in the same folder, so that the last step is a rename. Gone afterwards, however the block
        ends.
    """
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
    """Yield the files of a folder, at any depth; none of a file."""
    return (path for path in folder.rglob("*") if not path.is_dir()) if folder.is_dir() else iter(())


def _is_data(path: Path) -> bool:
    return path.name.startswith("_") or path.name.endswith(_DATA_SUFFIXES)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
