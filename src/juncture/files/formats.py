"""Formats of files: by name, by ending, or by how a file begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from juncture.errors import SpecError
from juncture.spec.arguments import check_choice

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
"""What the ending of a name says of a file's format."""

ARROW_START = b"ARROW1"
"""How a file of Arrow begins, other than a stream."""

COMPRESSED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""The endings of compressed files, and how these begin."""


def format_of(path: str, *, named: str | None, argument: str, inside: Sequence[Path] = ()) -> Format:
    """Return a file's format, by its ending or that of the files inside of it, else by name; Parquet for a folder.

    The name comes last, since it may be that of several inputs, of which some say themselves what they are.

    Raises
    ------
    SpecError
        If neither says which.
    """
    if not path.strip():
        raise SpecError(f"{argument} {path!r} names nothing. Expected a file, a folder or a glob.")
    if named is not None:
        check_choice("--format", named, FORMATS)
    by_name = (found for found in map(format_by_name, (Path(path), *inside)) if found is not None)
    known = next(by_name, None) or next((each for each in FORMATS if each == named), None)
    if known or Path(path).is_dir():
        return known or "parquet"
    raise SpecError(
        f"{argument} {path} has an ending that says nothing of its format. Expected one of {', '.join(_ENDINGS)}; "
        f"or pass --format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}."
    )


def format_by_name(path: Path) -> Format | None:
    """Return the format that the ending of a name says, but for that of a compression, or None if it says none.

    Examples
    --------
    >>> format_by_name(Path("trades.csv.gz")), format_by_name(Path("trades"))
    ('csv', None)
    """
    ending = Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return _ENDINGS.get(ending.lower())


def format_of_start(start: bytes) -> Format:
    r"""Return the format of what has no name, by how it begins: CSV if by nothing else.

    Examples
    --------
    >>> format_of_start(b"PAR1\x15"), format_of_start(b' [{"a": 1}]'), format_of_start(b"a,b\n1,2\n")
    ('parquet', 'json', 'csv')
    """
    if start.startswith(b"PAR1"):
        return "parquet"
    # A stream of Arrow begins with a length that no text has, a file with a name.
    if start.startswith((b"\xff\xff\xff\xff", ARROW_START)):
        return "arrow"
    if start.lstrip()[:1] in (b"{", b"["):
        return "json"
    return "tsv" if b"\t" in start.partition(b"\n")[0] and b"," not in start.partition(b"\n")[0] else "csv"
