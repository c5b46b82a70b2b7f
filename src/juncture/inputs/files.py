"""Files that a user names as a table, with what is to be said of them besides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from juncture.errors import SpecError
from juncture.files.formats import FORMATS, Format
from juncture.spec.arguments import check_choice
from juncture.spec.values import flag


@dataclass(frozen=True)
class Files:
    """Files that are one table. It goes wherever a path does.

    Parameters
    ----------
    path
        A file, a folder, a glob or a URI, or a list of them.
    format
        Their format: ``"parquet"``, ``"csv"``, ``"tsv"``, ``"json"`` (an object per line, or a list of objects) or
        ``"arrow"``. By default the endings of their names say it, and without one it is Parquet.
    union_by_name
        Whether Parquet files may lack columns that others have. The table has the columns of all files then, by name,
        and they are null where a file lacks them.

    Raises
    ------
    SpecError
        If it is no path, names nothing, or an argument has a value that makes no sense.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import juncture as jn
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.table({"k": [1]}), folder / "2025.parquet")
    >>> pq.write_table(pa.table({"k": [1], "v": [5]}), folder / "2026.parquet")
    >>> jn.join(pa.table({"k": [1]}), jn.Files(folder, union_by_name=True), on="k").to_pydict()
    {'k': [1, 1], 'v': [None, 5]}
    """

    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: Format | None = None
    union_by_name: bool = False

    def __post_init__(self) -> None:
        if not is_path(self.path):
            raise SpecError(
                f"path={self.path!r} ({type(self.path).__name__}) is no path. Expected a file, a folder, a glob or a "
                "URI, or a list of them."
            )
        if self.format is not None:
            check_choice("format", self.format, FORMATS)
        flag("union_by_name", self.union_by_name)
        for path in self.paths:
            if not path.strip():
                raise SpecError(
                    f"path={path!r} names nothing. Expected a file, a folder ('.' for the working directory), a glob "
                    "or a URI."
                )

    @classmethod
    def of(cls, table: Files | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Files:
        """Return what a user passes in place of a table, which leads to files."""
        return table if isinstance(table, Files) else cls(table)

    @property
    def paths(self) -> list[str]:
        """The paths, as text."""
        parts = [self.path] if isinstance(self.path, str | os.PathLike) else self.path
        return [os.fspath(part) for part in parts]


def is_path(table: object) -> bool:
    """Tell whether an input is a path, or several."""
    parts = table if isinstance(table, list | tuple) else [table]
    return bool(parts) and all(isinstance(part, str | os.PathLike) for part in parts)
