"""`Files`: files as one table, with their format."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from juncture.errors import SpecError, wrong_type
from juncture.files.formats import FORMATS, Format
from juncture.spec.arguments import check_choice
from juncture.values import flag

if TYPE_CHECKING:
    import pyarrow.fs


@dataclass(frozen=True)
class Files:
    """Files that form one table. Accepted wherever a path is.

    Parameters
    ----------
    path
        A file, folder, glob or URI, or a list of them.
    format
        ``"parquet"``, ``"csv"``, ``"tsv"``, ``"json"`` (one object per line, or a list of objects) or ``"arrow"``. By
        default, detected from the file extension; Parquet without one.
    version
        The version of a Delta table, or the snapshot of an Iceberg table. None for the current one.
    union_by_name
        Whether Parquet files may lack columns that other files have. The table then has the columns of all files, with
        null where a file lacks a column.
    filesystem
        The file system of the paths, of ``pyarrow.fs`` or fsspec. By default, that of the URI, or local files.
    storage_options
        Options of the object store, such as ``{"endpoint_override": "http://localhost:9000", "region": "eu-west-1"}``,
        in addition to those of the environment.

    Raises
    ------
    SpecError
        If ``path`` is not a path or is empty, or an argument has an invalid value.

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
    version: int | None = None
    filesystem: Any = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not is_path(self.path):
            raise wrong_type("path", self.path, "a path", "a file, folder, glob or URI, or a list of them")
        if self.format is not None:
            check_choice("format", self.format, FORMATS)
        flag("union_by_name", self.union_by_name)
        if self.storage_options and self.filesystem is not None:
            raise SpecError(
                "storage_options= are those of a URI, but filesystem= already has options. Pass one of them.",
                name="JN-ARGUMENT-CONFLICT",
            )
        for path in self.paths:
            if not path.strip():
                raise SpecError(
                    f"path={path!r} is empty. Expected a file, a folder ('.' for the working directory), a glob or a "
                    "URI.",
                    name="JN-ARGUMENT-VALUE",
                )

    @classmethod
    def of(cls, table: Any) -> Files:
        """Return a path, `Files`, or a table of deltalake or pyiceberg as `Files`."""
        if isinstance(table, Files):
            return table
        if is_from(table, "deltalake", "DeltaTable"):
            return cls(table.table_uri, version=table.version())
        # The catalog, not the folder, names the current metadata of an Iceberg table.
        return cls(table.metadata_location, "parquet") if is_lake(table) else cls(table)

    @property
    def paths(self) -> list[str]:
        """The paths as strings, with the storage options after the ``?`` of URIs."""
        parts = [self.path] if isinstance(self.path, str | os.PathLike) else self.path
        paths = [os.fspath(part) for part in parts]
        if not self.storage_options:
            return paths
        from juncture.runtime.stores import with_options

        return [with_options(path, self.storage_options) for path in paths]

    @property
    def store(self) -> pyarrow.fs.FileSystem | None:
        """The file system as one of Arrow; None for that of each path."""
        if self.filesystem is None:
            return None
        from juncture.runtime.stores import as_arrow

        return as_arrow(self.filesystem)


def is_from(table: object, package: str, name: str) -> bool:
    """Return whether a table is of a class of a package, without importing the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(table, getattr(module, name))


def is_lake(table: object) -> bool:
    """Return whether an input is a table of deltalake or pyiceberg."""
    return is_from(table, "deltalake", "DeltaTable") or is_from(table, "pyiceberg.table", "Table")


def is_path(table: object) -> bool:
    """Return whether an input is a path or a list of paths."""
    parts = table if isinstance(table, list | tuple) else [table]
    return bool(parts) and all(isinstance(part, str | os.PathLike) for part in parts)
