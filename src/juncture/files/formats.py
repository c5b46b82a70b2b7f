"""File formats: by name, by extension, or by the first bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from juncture.errors import DataError, SpecError

if TYPE_CHECKING:
    from juncture.runtime.paths import FoundFile


Format = Literal["parquet", "csv", "tsv", "json", "arrow"]

FORMATS: tuple[Format, ...] = ("parquet", "csv", "tsv", "json", "arrow")

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""Formats by file extension."""

ARROW_START = b"ARROW1"
"""First bytes of an Arrow file; Arrow streams have none."""

COMPRESSED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""First bytes of compressed files, by file extension."""


def format_of(path: str, *, named: str | None, argument: str, inside: Sequence[Path] = ()) -> Format:
    """Return the format of a file or folder: by extension, else `named`, else Parquet for a folder.

    `inside` are files of a folder. `named` is considered last because it may be meant for another of several inputs.
    """
    if not path.strip():
        raise SpecError(f"{argument} {path!r} is empty. Expected a file, a folder or a glob.", name="JN-ARGUMENT-VALUE")
    if named is not None:
        # Imported late, so that a missing file is reported without importing NumPy.
        from juncture.spec.arguments import check_choice

        check_choice("--format", named, FORMATS)
    by_name = (each for each in map(format_by_name, (Path(path), *inside)) if each is not None)
    chosen = next(by_name, None) or next((each for each in FORMATS if each == named), None)
    if chosen or Path(path).is_dir():
        return chosen or "parquet"
    raise SpecError(
        f"{argument} {path} has no extension of a known format. Expected one of {', '.join(_ENDINGS)}. Rename it, or "
        f"pass --format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.",
        name="JN-FILE-FORMAT",
    )


def format_by_name(path: Path) -> Format | None:
    """Return the format of a file extension, ignoring compression extensions, or None."""
    ending = Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return _ENDINGS.get(ending.lower())


def format_of_start(start: bytes) -> Format:
    """Return the format of content by its first bytes; CSV by default."""
    if start.startswith(b"PAR1"):
        return "parquet"
    # An Arrow stream starts with a length that no text has, an Arrow file with a magic string.
    if start.startswith((b"\xff\xff\xff\xff", ARROW_START)):
        return "arrow"
    if start.lstrip()[:1] in (b"{", b"["):
        return "json"
    return "tsv" if b"\t" in start.partition(b"\n")[0] and b"," not in start.partition(b"\n")[0] else "csv"


WILDCARDS = frozenset("*?[")
"""Characters that make a path a glob."""


def files_of(path: str, what: str) -> list[FoundFile]:
    """Return the files at a local path or glob, of a lake table the current ones. `what` is its name in messages."""
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
        from juncture.runtime.lakes import lake_at
        from juncture.runtime.paths import listed

        if is_there and (lake := lake_at([path])) is not None:
            return list(lake.files)
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
