"""Tables that can be read again, part by part and from any thread: Arrow tables and Parquet files.

A *source* is cut into *parts*: row groups of Parquet files, slices of a table. Its rows are numbered from 0 in the
order of the parts, and all that a join remembers of a row is this number.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.local.arrays import array_of
from juncture.local.conversion import converted_columns, with_types
from juncture.local.threads import Threads

__all__ = ["BATCH_ROWS", "ParquetSource", "Source", "TableSource"]

BATCH_ROWS = 1 << 20
"""The most rows that are decoded at once."""

_BATCH_BYTES = 8 << 20
"""About how much is decoded at once, at most: from some size on, every block is mapped anew, and cleared first."""
_BATCHES_OF_MEMORY = 32
_PIECE_BYTES = 1 << 18
"""How much of a large column chunk is read at once."""
_PHYSICAL_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_ASSUMED_VALUE_BYTES = 16
_SLICE_ROWS = 1 << 18
_SUFFIXES = (".parquet", ".parq", ".pq")


class Source(ABC):
    """A table that can be read again and again, in parts, by several threads at once.

    Attributes
    ----------
    schema
        Of the rows.
    part_rows
        The number of rows of each part.
    """

    schema: pa.Schema
    part_rows: Sequence[int]

    @abstractmethod
    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, a million at a time at most.

        Parameters
        ----------
        part
            Which part.
        columns
            Which columns, in this order.
        coded
            Those that may come dictionary-encoded, if that is cheaper to read.

        Raises
        ------
        DataError
            If a file cannot be read.
        """

    @abstractmethod
    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take in memory."""

    def plain_bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes the values of some columns take once they are decoded."""
        return self.bytes_of(columns)

    def within(self, _memory_bytes: int, /) -> Self:
        """Return the same rows in batches that suit what may be held, if they have to be decoded."""
        return self

    def extent(self, _part: int, _column: str, /) -> pa.Array | None:
        """Return the least and the greatest value of a column in a part, if that is known without reading it."""
        return None

    def ends(self, column: str) -> pa.Array | None:
        """Return the least and the greatest value of a column, if that is known without reading it."""
        extents = [self.extent(part, column) for part in range(len(self.part_rows))]
        known = [extent for extent in extents if extent is not None]
        if not known or len(known) < len(extents):
            return None
        ends = pc.min_max(pa.chunked_array(known))
        return pa.array([ends["min"], ends["max"]], known[0].type)

    def nulls(self, _column: str, /) -> int | None:
        """Return how many values of a column are null, if that is known without reading it."""
        return None

    def is_declared_sorted(self, _column: str, /) -> bool:
        """Tell whether whoever wrote the rows says that they ascend by a column."""
        return False

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """The number of each part's first row, and the number of all rows at the end."""
        return np.concatenate([[0], np.cumsum(np.asarray(self.part_rows, np.int64))]).astype(np.int64)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.bounds[-1])


class TableSource(Source):
    """An Arrow table in memory.

    Attributes
    ----------
    table
        The table.
    """

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self.table = table
        starts = range(0, table.num_rows, _SLICE_ROWS)
        self.part_rows = [min(_SLICE_ROWS, table.num_rows - start) for start in starts]

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield views of a slice's rows."""
        start = part * _SLICE_ROWS
        yield from self.table.select(columns).slice(start, _SLICE_ROWS).to_batches()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes that the columns take."""
        return int(self.table.select(columns).nbytes)

    def nulls(self, column: str, /) -> int | None:
        """Return how many values of a column are null."""
        return int(self.table.column(column).null_count)


@dataclass(frozen=True)
class _RowGroup:
    file: int
    number: int


class ParquetSource(Source):
    """Parquet files: each row group is a part.

    Parameters
    ----------
    paths
        Files, folders (all their Parquet files, at any depth), globs, or URIs that `pyarrow.fs` knows. Files come in
        the order of the paths, those of a folder or glob by name.
    row_groups
        For each file, which of its row groups to read; by default all.

    Raises
    ------
    DataError
        If there is no file, one cannot be read, or has other columns than the first.

    Notes
    -----
    Opening reads the footers only. Reading decodes one row group at a time in each thread, a million rows at once.
    """

    def __init__(self, paths: Sequence[str], row_groups: Sequence[Sequence[int]] | None = None) -> None:
        self._batch_bytes = _BATCH_BYTES
        self._converted: Mapping[str, pa.DataType] = {}
        self._files = [file for path in paths for file in _files(path)]
        with Threads(min(8, len(self._files))) as threads:
            footers = list(threads.map(_footer, self._files))
        self.schema, self._metadata = footers[0]
        self._footers = []
        for file, (schema, metadata) in zip(self._files, footers, strict=True):
            _check_siblings(self._files[0], self.schema, file, schema)
            self._footers.append(metadata)
        self._groups = [
            _RowGroup(file, number)
            for file, metadata in enumerate(self._footers)
            for number in (range(metadata.num_row_groups) if row_groups is None else row_groups[file])
            if metadata.row_group(number).num_rows > 0
        ]
        self.part_rows = [self._footers[group.file].row_group(group.number).num_rows for group in self._groups]

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group."""
        group = self._groups[part]
        is_large = self._footers[group.file].row_group(group.number).total_byte_size > self._batch_bytes
        return self._batches(part, columns, coded, self._batch_rows(columns), _PIECE_BYTES if is_large else 0)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the bytes of the columns' encoded, uncompressed pages."""
        wanted = set(columns)
        total = 0
        for group in self._groups:
            metadata = self._footers[group.file].row_group(group.number)
            for number in range(metadata.num_columns):
                column = metadata.column(number)
                if column.path_in_schema.partition(".")[0] in wanted or column.path_in_schema in wanted:
                    total += column.total_uncompressed_size
        return total

    def plain_bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes the values of the columns take once they are decoded, by footers alone.

        A string that occurs often is written once: the lengths of the least and the greatest tell what it takes then.
        """
        return sum(self._plain_bytes[name] for name in dict.fromkeys(columns))

    @cached_property
    def _plain_bytes(self) -> dict[str, int]:
        found = dict.fromkeys(self.schema.names, 0)
        for group in self._groups:
            footer = self._footers[group.file]
            metadata = footer.row_group(group.number)
            for number in range(metadata.num_columns):
                column = metadata.column(number)
                path = column.path_in_schema
                name = path if path in found else path.partition(".")[0]
                found[name] += max(column.total_uncompressed_size, column.num_values * _value_bytes(column))
        return found

    def _batch_rows(self, columns: Sequence[str]) -> int:
        """Return how many rows to decode at once, fewer of wide ones."""
        row_bytes = self.plain_bytes_of(columns) // max(self.num_rows, 1)
        return max(1, min(BATCH_ROWS, self._batch_bytes // max(row_bytes, 1)))

    def within(self, memory_bytes: int, /) -> Self:
        """Return the same, decoded in batches that suit what may be held."""
        smaller = copy(self)
        smaller._batch_bytes = min(_BATCH_BYTES, memory_bytes // _BATCHES_OF_MEMORY)
        return smaller

    def converted(self, types: Mapping[str, pa.DataType]) -> Self:
        """Return the same with some columns in other types of the same values."""
        other = copy(self)
        other._converted, other.schema = types, with_types(self.schema, types)
        return other

    def only(self, parts: Sequence[int]) -> Self:
        """Return the same with some of the row groups."""
        fewer = copy(self)
        fewer._groups = [self._groups[part] for part in parts]
        fewer.part_rows = [self.part_rows[part] for part in parts]
        for known in ("bounds", "_plain_bytes"):
            fewer.__dict__.pop(known, None)
        return fewer

    def value_bytes(self, column: str) -> float:
        """Return the encoded bytes of one value of a column, on average: few where it is dictionary-encoded."""
        return self.bytes_of([column]) / max(self.num_rows, 1)

    def extent(self, part: int, column: str, /) -> pa.Array | None:
        """Return the least and the greatest value by the row group's statistics."""
        found = self._chunk(part, column)
        if found is None or found[0].statistics is None or not found[0].statistics.has_min_max:
            return None
        return _extent(found[0].statistics, found[1], self.schema.field(column).type)

    def nulls(self, column: str, /) -> int | None:
        """Return how many values of a column are null by the row groups' statistics."""
        total = 0
        for part in range(len(self.part_rows)):
            found = self._chunk(part, column)
            if found is None or found[0].statistics is None or not found[0].statistics.has_null_count:
                return None
            total += found[0].statistics.null_count
        return total

    def is_declared_sorted(self, column: str, /) -> bool:
        """Tell whether each row group is declared to ascend by a column first of all, and follows the one before."""
        last: pa.Scalar | None = None
        for part, group in enumerate(self._groups):
            footer = self._footers[group.file]
            declared = footer.row_group(group.number).sorting_columns
            if not declared or declared[0].descending or _path(footer, declared[0].column_index) != column:
                return False
            extent = self.extent(part, column)
            if len(self._groups) > 1 and (extent is None or (last is not None and pc.less(extent[0], last).as_py())):
                return False
            last = None if extent is None else extent[1]
        return bool(self._groups)

    def first_rows(self, part: int, columns: Sequence[str], rows: int) -> pa.RecordBatch:
        """Return the first rows of a row group. Others could not be had without decoding these.

        Raises
        ------
        DataError
            If a file cannot be read.
        """
        # Piece by piece, so that no more is read than that.
        return next(self._batches(part, columns, (), rows, _PIECE_BYTES))

    def _batches(
        self, part: int, columns: Sequence[str], coded: Collection[str], rows: int, piece_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group, so many at a time; column chunks are read in such pieces, for 0 at once."""
        group = self._groups[part]
        path, filesystem = self._files[group.file]
        with _reading(path), filesystem.open_input_file(path) as content:
            strings = [name for name in coded if _is_coded(self.schema.field(name).type)]
            file = pq.ParquetFile(
                content,
                metadata=self._footers[group.file],
                read_dictionary=strings,
                pre_buffer=False,
                buffer_size=piece_bytes,
            )
            for batch in file.iter_batches(rows, [group.number], list(columns), use_threads=False):
                yield converted_columns(batch.select(columns), self._converted)
                if self._batch_bytes < _BATCH_BYTES:
                    # Little may be held, and what Arrow keeps of the batches before is soon more than a batch.
                    pa.default_memory_pool().release_unused()

    def _chunk(self, part: int, column: str) -> tuple[pq.ColumnChunkMetaData, pq.ParquetColumnSchema] | None:
        """Return what a row group's footer says of a column, if that is not nested."""
        group = self._groups[part]
        footer = self._footers[group.file]
        metadata = footer.row_group(group.number)
        for number in range(metadata.num_columns):
            # The path of a column within a struct may read like the name of a column.
            if _path(footer, number) == footer.schema.column(number).name == column:
                return metadata.column(number), footer.schema.column(number)
        return None


def _path(footer: pq.FileMetaData, number: int) -> str:
    return str(footer.schema.column(number).path)


def _value_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Return about how many bytes a value of a column chunk takes once it is decoded."""
    if column.physical_type in _PHYSICAL_BYTES:
        return _PHYSICAL_BYTES[column.physical_type]
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return _ASSUMED_VALUE_BYTES
    # Long ones may be cut off in statistics, but not to less than a few dozen bytes.
    ends = [len(value) for value in (statistics.min_raw, statistics.max_raw) if isinstance(value, bytes | str)]
    return sum(ends) // len(ends) + 4 if ends else _ASSUMED_VALUE_BYTES


def _is_coded(data_type: pa.DataType) -> bool:
    """Tell whether Arrow can read a column as a dictionary."""
    return bool(pat.is_string(data_type) or pat.is_binary(data_type) or pat.is_large_string(data_type))


def _extent(statistics: pq.Statistics, column: pq.ParquetColumnSchema, data_type: pa.DataType) -> pa.Array | None:
    """Return a column chunk's statistics as values of its type; None for types in which they may be wrong.

    Those of strings may be cut off by the writer, and are limits then that no value of the chunk has.
    """
    if pat.is_signed_integer(data_type):
        return array_of(np.array([statistics.min, statistics.max], f"i{data_type.bit_width // 8}"), data_type)
    if pat.is_float32(data_type) or pat.is_float64(data_type):
        return array_of(np.array([statistics.min, statistics.max], f"f{data_type.bit_width // 8}"), data_type)
    if pat.is_date32(data_type):
        # As integers, because Python's dates end in 9999.
        return array_of(np.array([statistics.min_raw, statistics.max_raw], np.int32), data_type)
    if pat.is_timestamp(data_type) and column.physical_type == "INT64":
        # As integers, because datetimes would cut nanoseconds off.
        unit = json.loads(column.logical_type.to_json()).get("timeUnit")
        units = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
        if unit not in units:
            return None
        raw = array_of(np.array([statistics.min_raw, statistics.max_raw], np.int64), pa.timestamp(units[unit]))
        return raw.cast(pa.timestamp(data_type.unit), safe=False).view(data_type)
    if _is_coded(data_type):
        limits = statistics.min_raw, statistics.max_raw
        wide = pat.is_large_string(data_type)
        offsets = np.cumsum([0, *map(len, limits)]).astype(np.int64 if wide else np.int32)
        return pa.Array.from_buffers(data_type, 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(limits))])
    return None


Place = tuple[str, pa.fs.FileSystem]


def _files(path: str) -> list[Place]:
    """Return the Parquet files that a path leads to.

    Raises
    ------
    DataError
        If there are none.
    """
    try:
        if "://" in path:
            filesystem, inner = pa.fs.FileSystem.from_uri(path)
        else:
            filesystem, inner = pa.fs.LocalFileSystem(), str(Path(path).expanduser())
        found = _expand(filesystem, inner, local="://" not in path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"The path {path!r} cannot be read: {error}") from error
    if not found:
        raise DataError(
            f"The path {path!r} leads to no Parquet file. Expected a file, a folder that holds {_SUFFIXES[0]} files, "
            "or a glob that matches some."
        )
    return [(file, filesystem) for file in found]


def _expand(filesystem: pa.fs.FileSystem, path: str, *, local: bool) -> list[str]:
    """Return the files of a file, folder or glob."""
    info = filesystem.get_file_info(path)
    if info.type == pa.fs.FileType.File:
        return [path]
    if info.type == pa.fs.FileType.Directory:
        root = PurePosixPath(info.path)
        inside = filesystem.get_file_info(pa.fs.FileSelector(path, recursive=True))
        files = sorted(file.path for file in inside if file.type == pa.fs.FileType.File)
        data = [file for file in files if _is_data(PurePosixPath(file).relative_to(root))]
        for file in data:
            _check_partition(path, PurePosixPath(file).relative_to(root))
        return data
    if local and any(character in path for character in "*?["):
        start = Path(path).anchor
        matches = sorted(map(str, Path(start or ".").glob(str(Path(path).relative_to(start)))))
        shown = [match for match in matches if not Path(match).name.startswith(("_", "."))]
        return [file for match in shown for file in _expand(filesystem, match, local=False)]
    return []


def _check_partition(folder: str, path: PurePosixPath) -> None:
    """Refuse a folder whose subfolders stand for columns, which would be lost without a word.

    Raises
    ------
    DataError
        If a subfolder is named like ``year=2026``.
    """
    for name in path.parts[:-1]:
        if "=" in name:
            raise DataError(
                f"The folder {folder!r} is partitioned: its subfolder {name!r} stands for the column "
                f"{name.partition('=')[0]!r}, which its files lack. Read it with pyarrow.dataset.dataset(…, "
                "partitioning='hive') and pass that, or name the files with a glob to do without the column."
            )


def _is_data(path: PurePosixPath) -> bool:
    """Tell a data file from Spark's markers and other hidden files."""
    return path.suffix.lower() in _SUFFIXES and not any(part.startswith(("_", ".")) for part in path.parts)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"The Parquet file {path!r} cannot be read, it may be cut off or damaged: {error}. Write it again, or "
            "leave it out."
        ) from error


def _footer(place: Place) -> tuple[pa.Schema, pq.FileMetaData]:
    path, filesystem = place
    with _reading(path), filesystem.open_input_file(path) as content:
        file = pq.ParquetFile(content)
        return file.schema_arrow, file.metadata


def _check_siblings(first: Place, expected: pa.Schema, place: Place, schema: pa.Schema) -> None:
    """Refuse a file with other columns than the first, naming the difference.

    Raises
    ------
    DataError
        If a column is missing, of another type, or more.
    """
    if schema.names == expected.names and schema.types == expected.types:
        return
    differences = []
    for field in expected:
        found = schema.field(field.name).type if field.name in schema.names else None
        if found is None:
            differences.append(f"{field.name!r} is missing")
        elif found != field.type:
            differences.append(f"{field.name!r} is {found} instead of {field.type}")
    differences += [f"{name!r} is only there" for name in schema.names if name not in expected.names]
    difference = "; ".join(differences) or "the columns come in another order"
    raise DataError(
        f"The Parquet file {place[0]!r} has another schema than {first[0]!r}: {difference}. All files of one table "
        "need the same columns: rewrite it, or leave it out."
    )
