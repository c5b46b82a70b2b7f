"""The files that a command reads, brought into the one format that the engines read."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from juncture.cli.progress import step
from juncture.cli.text import read_text
from juncture.errors import DataError, SpecError
from juncture.spec.arguments import check_choice

__all__ = ["FORMATS", "Format", "as_parquet", "format_of"]

Format = Literal["parquet", "csv", "json"]

FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}
"""What the ending of a name says of a file's format."""

_COMPRESSED = (".gz", ".bz2", ".zst")


def format_of(path: str, *, named: str | None, argument: str) -> Format:
    """Return a file's format, by name or by its ending; Parquet for a folder.

    Raises
    ------
    SpecError
        If neither says which.
    """
    if not path.strip():
        raise SpecError(f"{argument} {path!r} names nothing. Expected a file, a folder or a glob.")
    if named is not None:
        check_choice("--format", named, ("parquet", "csv", "json"))
        return FORMATS[f".{named}"]
    suffix = _ending(Path(path))
    if suffix in FORMATS:
        return FORMATS[suffix]
    folder = Path(path)
    if folder.is_dir():
        endings = (_ending(file) for file in sorted(folder.iterdir()))
        return next((FORMATS[ending] for ending in endings if ending in FORMATS), "parquet")
    raise SpecError(
        f"{argument} {path} has an ending that says nothing of its format. Expected one of {', '.join(FORMATS)}; "
        "or pass --format parquet, csv or json."
    )


def as_parquet(path: str, *, side: str, named: str | None, nulls: Sequence[str], folder: Path) -> str:
    """Return a path to Parquet with the rows of an input.

    Parameters
    ----------
    path
        A file, folder or glob of one format; for Parquet also a URI.
    side
        ``"left"`` or ``"right"``.
    named, nulls
        ``--format`` and ``--null``.
    folder
        Where text is converted to.

    Raises
    ------
    SpecError, DataError
        If the format is not known, or there is nothing to read.
    """
    file_format = format_of(path, named=named, argument=side.upper())
    if "://" in path and file_format == "parquet":
        return path
    files = _files(path, side)
    if file_format == "parquet":
        return path
    _check_folders(files, Path(path), file_format)
    target = folder / f"{side}.parquet"
    packed = any(file.suffix.lower() in _COMPRESSED for file in files)
    total = None if packed else 2 * sum(file.stat().st_size for file in files)
    with step(f"Reading {path}", total=total) as reading:
        read_text(files, file_format, target, nulls=nulls, advance=reading.advance)
    return str(target)


def _files(path: str, side: str) -> list[Path]:
    """Return the files that a path stands for."""
    found = Path(path)
    if found.is_file():
        return [found]
    if found.is_dir():
        files = [file for file in found.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    else:
        files = [Path(name) for name in glob.glob(path, recursive=True)]  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not files:
        state = "is a folder without files" if found.is_dir() else "does not exist"
        raise DataError(f"The {side} input {path} {state}.")
    return sorted(files)


def _check_folders(files: Sequence[Path], root: Path, file_format: Format) -> None:
    """Refuse folders that stand for columns, which are read with Parquet only.

    Raises
    ------
    DataError
        If there is one.
    """
    for file in files:
        inner = file.relative_to(root).parts if file.is_relative_to(root) else ()
        for name in inner[:-1]:
            if "=" in name:
                raise DataError(
                    f"The folder {name!r} in {str(root)!r} stands for the column {name.partition('=')[0]!r}, which is "
                    f"read with Parquet, not with {file_format}. Convert the files to Parquet, or pass a glob to do "
                    "without the column."
                )


def _ending(path: Path) -> str:
    """Return the last ending but that of a compression."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()
