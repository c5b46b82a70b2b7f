"""Delta and Iceberg tables: the Parquet files of one version, with the schema and partition values of the table's log.

What Parquet files alone do not show is refused by name: rows that are deleted within files, and columns that files
store under other names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.types as pat

from juncture.errors import DataError, JunctureError, SpecError, optional_packages
from juncture.kernels.array_types import Mask
from juncture.runtime.footers import Footer
from juncture.runtime.paths import FoundFile, Value, lake_format
from juncture.runtime.stores import delta_store, iceberg_store, path_text, place_of, unreadable

_METADATA_FILE = re.compile(r"v?(\d+)[^/]*\.metadata\.json")


@dataclass(frozen=True)
class LakeTable:
    """The files of one version of a table."""

    path: str
    schema: pa.Schema
    files: Sequence[FoundFile]
    partitions: Sequence[Mapping[str, Value]]  # the values that a file's columns have in all rows
    field_ids: Mapping[str, int] = field(default_factory=dict)  # of Iceberg's columns, by which files store them
    logged: Sequence[frozenset[str]] = ()  # for each file, the columns whose values the log has if the file lacks them
    live_rows: Mapping[int, Mask] = field(default_factory=dict)  # of files with deleted rows, by number

    def check_files(self, footers: Sequence[Footer]) -> None:
        """Refuse files whose columns are not those of the table under the same names."""
        for number, (file, footer, partition) in enumerate(zip(self.files, footers, self.partitions, strict=True)):
            stored = {name: footer.schema.field(name) for name in footer.schema.names}
            ids = {name: int((each.metadata or {}).get(b"PARQUET:field_id", -1)) for name, each in stored.items()}
            names = {field_id: name for name, field_id in ids.items() if field_id >= 0}
            for column in self.schema:
                wanted = self.field_ids.get(column.name)
                name = names.get(wanted) if wanted is not None and names else column.name
                if name is not None and name != column.name:
                    raise self._refusal(f"column {column.name!r} is stored as {name!r} in {file.path!r}")
                if name is None and column.name in stored:
                    raise self._refusal(f"{file.path!r} has another column of the name {column.name!r}")
                here = stored.get(column.name)
                if here is None and self.logged and column.name in self.logged[number]:
                    raise self._refusal(f"{file.path!r} lacks the column {column.name!r}, whose value the log has")
                if here is not None and column.name in partition:
                    raise self._refusal(f"{file.path!r} has the partition column {column.name!r}")
                if here is not None and pat.is_nested(column.type) and not _is_alike(here.type, column.type):
                    raise self._refusal(f"the nested column {column.name!r} has another type in {file.path!r}")

    def _refusal(self, why: str) -> DataError:
        return _refused(self.path, why)


def lake_at(
    paths: Sequence[str], version: int | None = None, filesystem: pa.fs.FileSystem | None = None
) -> LakeTable | None:
    """Return the table at the only path, a folder or an Iceberg metadata file; None for plain files.

    `version` is a version of a Delta table or a snapshot of an Iceberg table; the default is the current one.
    """
    table = None
    if len(paths) == 1:
        try:
            store, inner = place_of(paths[0], filesystem)
            form = "Iceberg" if _METADATA_FILE.fullmatch(PurePosixPath(inner).name) else lake_format(store, inner)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(paths[0], error) from error
        if form in ("Delta", "Iceberg") and filesystem is not None:
            raise SpecError(
                f"filesystem= does not apply to the {form} table {path_text(paths[0])!r}, whose log its own library "
                "reads. Pass its URI with storage_options=.",
                name="JN-ARGUMENT-CONFLICT",
            )
        if form == "Delta":
            table = _delta(paths[0], version)
        elif form == "Iceberg":
            is_metadata = _METADATA_FILE.fullmatch(PurePosixPath(inner).name) is not None
            metadata = paths[0] if is_metadata else _current_metadata(paths[0], store, inner)
            table = _iceberg(paths[0], metadata, version)
    if table is None and version is not None:
        raise SpecError(
            f"version={version!r} applies to one Delta or Iceberg table, but {[path_text(path) for path in paths]!r} "
            "is none. Remove it, or pass the folder of the table.",
            name="JN-ARGUMENT-CONFLICT",
        )
    return table


def _delta(path: str, version: int | None) -> LakeTable:
    with optional_packages("A Delta table"):
        from deltalake import DeltaTable
    uri, options = delta_store(path)
    table = _read(path, version, lambda: DeltaTable(uri, version=version, storage_options=options or None))
    if (table.metadata().configuration or {}).get("delta.columnMapping.mode", "none") != "none":
        raise _refused(path, "its columns are mapped to other names in files (delta.columnMapping.mode)")
    actions = pa.table(table.get_add_actions(flatten=False))
    values = actions.column("partition").to_pylist() if "partition" in actions.schema.names else []
    uris = table.file_uris()
    partitions = [dict(each or {}) for each in values or [{}] * len(uris)]
    data_files = _data_files(path, uris)
    return LakeTable(path, pa.schema(table.schema()), data_files, partitions, live_rows=_live_rows(path, table, uris))


def _live_rows(path: str, table: Any, uris: Sequence[str]) -> dict[int, Mask]:
    """Return a mask of the live rows of each file with a deletion vector; rows beyond its end are live."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    numbers, live_rows = {_path_of(uri): number for number, uri in enumerate(uris)}, dict[int, Mask]()
    for vector in pa.table(table.deletion_vectors()).to_pylist():
        file = _path_of(vector["filepath"])
        # Unlike other paths, these have the escapes of URIs.
        number = numbers.get(unquote(file), numbers.get(file))
        if number is None:
            raise _refused(path, f"a deletion vector is of the unknown file {file!r}")
        live_rows[number] = np.array(vector["selection_vector"], np.bool_)
    return live_rows


def _iceberg(path: str, metadata: str, version: int | None) -> LakeTable:
    with optional_packages("An Iceberg table"):
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.table import StaticTable
    uri, properties = iceberg_store(metadata)
    table = _read(path, version, lambda: StaticTable.from_metadata(uri, properties))
    if version is not None and table.snapshot_by_id(version) is None:
        raise _no_version(path, version, "it has no such snapshot")
    scan = table.scan(snapshot_id=version)
    schema, tasks = scan.projection(), list(scan.plan_files())
    for task in tasks:
        if task.delete_files:
            raise _refused(path, "it has delete files, which mark deleted rows within data files")
        if task.file.file_format.name != "PARQUET":
            raise _refused(path, f"{task.file.file_path!r} is {task.file.file_format.name}")
    return LakeTable(
        path,
        schema_to_pyarrow(schema, include_field_ids=False),
        _data_files(path, [task.file.file_path for task in tasks]),
        [{}] * len(tasks),
        {column.name: column.field_id for column in schema.fields},
        [_logged(schema, table.specs()[task.file.spec_id]) for task in tasks],
    )


def _logged(schema: Any, partitioning: Any) -> frozenset[str]:
    """Return the columns of an Iceberg table that may be missing in a file without being null."""
    from pyiceberg.transforms import IdentityTransform

    by_value = {each.source_id for each in partitioning.fields if isinstance(each.transform, IdentityTransform)}
    columns = (each for each in schema.fields if each.field_id in by_value or each.initial_default is not None)
    return frozenset(each.name for each in columns)


def _current_metadata(path: str, filesystem: pa.fs.FileSystem, folder: str) -> str:
    """Return the newest metadata file in the folder of an Iceberg table, which a catalog would name."""
    infos = filesystem.get_file_info(pa.fs.FileSelector(str(PurePosixPath(folder, "metadata"))))
    files = [(match, info.base_name) for info in infos if (match := _METADATA_FILE.fullmatch(info.base_name))]
    newest_number = max((int(match[1]) for match, _ in files), default=None)
    newest = [name for match, name in files if int(match[1]) == newest_number]
    if len(newest) != 1:
        raise _refused(path, f"its folder has several newest metadata files, or compressed ones: {newest}")
    uri, has_options, options = path.partition("?")
    return f"{uri.rstrip('/')}/metadata/{newest[0]}{has_options}{options}"


def _read(path: str, version: int | None, read: Callable[[], Any]) -> Any:
    """Read a table's log, whose library raises exceptions of many kinds."""
    try:
        return read()
    except JunctureError:
        raise
    except Exception as error:
        if version is not None:
            raise _no_version(path, version, str(error)) from error
        raise DataError(
            f"The log of the table {path_text(path)!r} cannot be read: {error}. Check the path and its permissions, or "
            "read the table with its own library and pass the result.",
            name="JN-LAKE-TABLE",
        ) from error


def _no_version(path: str, version: int, why: str) -> DataError:
    return DataError(
        f"version={version!r} of the table {path_text(path)!r} cannot be read: {why}. Pass an existing version that "
        "was not vacuumed, or None for the current one.",
        name="JN-LAKE-TABLE",
    )


def _refused(path: str, why: str) -> DataError:
    return DataError(
        f"The table {path_text(path)!r} cannot be read from its Parquet files, because {why}. Compact or rewrite the "
        "table, or read it with its own library (deltalake, pyiceberg or Spark) and pass the result.",
        name="JN-LAKE-TABLE",
    )


def _data_files(table: str, uris: Sequence[str]) -> list[FoundFile]:
    """Return files with their sizes, on the filesystem of their table."""
    filesystem, _ = place_of(table)
    infos = filesystem.get_file_info([_path_of(uri) for uri in uris])
    for info, uri in zip(infos, uris, strict=True):
        if info.type != pa.fs.FileType.File:
            raise DataError(
                f"The file {path_text(uri)!r}, which the log of its table lists, does not exist. It may have been "
                "vacuumed. Pass a newer version.",
                name="JN-FILE-MISSING",
            )
    # Values are those of the log, so folders below the base are none of the table's.
    return [
        FoundFile(info.path, filesystem, info.size, info.mtime_ns, str(PurePosixPath(info.path).parent))
        for info in infos
    ]


def _path_of(uri: str) -> str:
    """Return the path of a file within its filesystem. Logs have paths as they are, without escapes of URIs."""
    scheme, has_scheme, path = uri.rpartition("://")
    if not has_scheme or scheme == "file":
        return path
    container, _, inner = path.partition("/")
    return f"{container.partition('@')[0]}/{inner}"


def _is_alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether nested types have the same fields, whose names in lists and maps depend on the writer."""
    if pat.is_nested(stored) != pat.is_nested(wanted) or stored.num_fields != wanted.num_fields:
        return False
    if pat.is_struct(wanted) and [each.name for each in stored] != [each.name for each in wanted]:
        return False
    return all(_is_alike(stored.field(i).type, wanted.field(i).type) for i in range(wanted.num_fields))
