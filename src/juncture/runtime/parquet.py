"""Parquet files as a source: each row group is a part. Only footers are read when the files are opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.columnar.arrays import concatenated
from juncture.columnar.conversion import converted, converted_columns, with_types
from juncture.columnar.types import is_fixed
from juncture.errors import DataError
from juncture.kernels.array_types import Ints, Mask
from juncture.runtime.footers import (
    INT96_UNIT,
    Footer,
    check_whole_micros,
    column_of,
    extent_of,
    is_coded,
    joined_schema,
    opened,
    path_of,
    read_footers,
)
from juncture.runtime.lakes import lake_at
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.paths import FoundFile, Value, files_of, partitions_of
from juncture.runtime.sources import Source, numbers_in_parts

BATCH_ROWS = 1 << 20
"""The maximum number of rows that are decoded at once."""

_BATCH_BYTES = 8 << 20
"""The approximate maximum size of a decoded batch. Larger blocks are mapped and cleared for each allocation."""
_SHORT_BYTES = 256 << 20  # memory that is short, so that batches are smaller
_BATCHES_OF_SHORT_MEMORY = 64
"""How many batches fit in it. In each thread that decodes, Arrow retains freed memory of several times a batch."""
_BATCHES_PER_RELEASE = 2
"""After how many batches unused memory is released if memory is short. A release takes as long as some decoding."""
_PIECE_BYTES = 1 << 18  # bytes of a large column chunk that are read at once
_CODED_BYTES_MOST = 6.0  # maximum encoded bytes per string of columns that are read as dictionaries
_PHYSICAL_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_ASSUMED_VALUE_BYTES = 16


@dataclass(frozen=True)
class _RowGroup:
    file: int
    number: int


class ParquetSource(Source):
    """Parquet files: each row group is a part.

    Paths are files, folders (with all their Parquet files at any depth), globs, or URIs of `pyarrow.fs`. Files are in
    the order of paths; files of a folder or glob are sorted by name. Partition folders such as ``year=2026`` define
    columns, which are last. With `union_by_name`, files may lack columns of other files. The folder of a Delta or
    Iceberg table, as the only path, stands for the files, columns and partition values of one `version` of the table.

    Opening reads only the footers. Reading decodes one row group per thread, at most a million rows at once.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        union_by_name: bool = False,
        version: int | None = None,
        filesystem: pa.fs.FileSystem | None = None,
    ) -> None:
        if (lake := lake_at(paths, version, filesystem)) is not None:
            footers = read_footers(lake.files) if lake.files else []
            lake.check_files(footers)
            self._open(lake.files, footers, lake.schema, lake.partitions, live_rows=lake.live_rows)
            return
        files = [file for path in paths for file in files_of(path, filesystem)]
        partition, values = partitions_of(files)
        footers = read_footers(files)
        schema = joined_schema(files, [footer.schema for footer in footers], union_by_name=union_by_name)
        for name in partition.names:
            if name in schema.names:
                raise DataError(
                    f"The file {files[0].path!r} has the column {name!r}, but a folder in its path also defines it. "
                    "Rename the folder, or remove the column from the files.",
                    name="JN-PARTITION-NAME",
                )
        schema = pa.schema([*schema, *partition], schema.metadata)
        self._open(files, footers, schema, [dict(zip(partition.names, each, strict=True)) for each in values])

    def _open(
        self,
        files: Sequence[FoundFile],
        footers: Sequence[Footer],
        schema: pa.Schema,
        partitions: Sequence[Mapping[str, Value]],
        row_groups: Sequence[Sequence[int]] | None = None,
        live_rows: Mapping[int, Mask] = MappingProxyType({}),
    ) -> None:
        """Set the files, their footers and partition values, the row groups to read, and the live rows of files."""
        self._batch_bytes = _BATCH_BYTES
        self._starts: Ints | None = None
        self._converted: Mapping[str, pa.DataType] = {}
        self._repetitive = dict[str, bool]()
        self._buffered: Sequence[str] = ()
        self._buffers = dict[_RowGroup, list[pa.RecordBatch]]()
        self._columns = dict[str, pa.Array]()
        self._files, self._footers, self._partitions = files, footers, partitions
        self.schema = self._stored = schema
        self._is_whole = [footer.schema.equals(schema) for footer in footers]
        self._groups = [
            _RowGroup(file, number)
            for file, footer in enumerate(footers)
            for number in (range(footer.metadata.num_row_groups) if row_groups is None else row_groups[file])
            if footer.metadata.row_group(number).num_rows > 0
        ]
        self._live_rows = dict[_RowGroup, Mask]()
        for file, live in live_rows.items():
            mask = np.concatenate([live, np.ones(footers[file].metadata.num_rows - len(live), np.bool_)])
            first = 0
            for number in range(footers[file].metadata.num_row_groups):
                group = _RowGroup(file, number)
                self._live_rows[group] = mask[first : first + self._metadata(group).num_rows]
                first += self._metadata(group).num_rows
        self.part_rows = [
            int(np.count_nonzero(self._live_rows[group]))
            if group in self._live_rows
            else self._metadata(group).num_rows
            for group in self._groups
        ]

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group."""
        group = self._groups[part]
        if group in self._buffers and set(columns).issubset(self._buffered):
            return (self._decoded(batch.select(columns), coded) for batch in self._buffers[group])
        names = [*columns, *(name for name in self._buffered if name not in columns)]
        is_large = self._metadata(group).total_byte_size > self._batch_bytes
        batches = self._batches(
            part, names, (*coded, *self._buffered), self._batch_rows(names), _PIECE_BYTES if is_large else 0
        )
        return self._with_buffer(group, batches, columns, coded) if self._buffered else batches

    def _with_buffer(
        self, group: _RowGroup, batches: Iterable[pa.RecordBatch], columns: Sequence[str], coded: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group with some columns, and keep those that are buffered."""
        buffer = list[pa.RecordBatch]()
        for batch in batches:
            buffer.append(batch.select(self._buffered))
            yield self._decoded(batch.select(columns), coded)
        self._buffers[group] = buffer

    def _decoded(self, batch: pa.RecordBatch, coded: Collection[str]) -> pa.RecordBatch:
        """Return rows without dictionaries, except of columns in `coded`."""
        types = {
            field.name: wanted
            for field in batch.schema
            if field.name not in coded and field.type != (wanted := self.schema.field(field.name).type)
        }
        return converted_columns(batch, types)

    def buffering(self, columns: Sequence[str], /) -> Self:
        """Return the source that keeps columns of each row group that is read, and does not decode them again."""
        other = copy(self)
        other._buffered, other._buffers, other._columns = tuple(dict.fromkeys(columns)), {}, {}
        return other

    def column(self, name: str, /) -> pa.Array | None:
        """Return the values of a column of fixed width if it is buffered and all row groups have been read."""
        if name not in self._columns:
            is_whole = name in self._buffered and 0 < len(self._buffers) == len(self._groups)
            if not is_whole or not is_fixed(self.schema.field(name).type):
                return None
            self._columns[name] = concatenated(
                batch.column(name) for group in self._groups for batch in self._buffers[group]
            )
        return self._columns[name]

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the size of the columns' encoded, uncompressed pages."""
        names, wanted = set(self.schema.names), set(columns)
        chunks = chain.from_iterable(map(self._chunks, self._groups))
        return sum(
            chunk.total_uncompressed_size for chunk in chunks if column_of(chunk.path_in_schema, names) in wanted
        )

    def plain_bytes_of(self, columns: Sequence[str]) -> int:
        """Return the size of decoded columns by footers, of strings by the lengths of their least and greatest."""
        return sum(self._plain_bytes[name] for name in dict.fromkeys(columns))

    @cached_property
    def _plain_bytes(self) -> dict[str, int]:
        sizes = dict.fromkeys(self._stored.names, 0)
        for group in self._groups:
            for chunk in self._chunks(group):
                name = column_of(chunk.path_in_schema, sizes)
                sizes[name] += max(chunk.total_uncompressed_size, chunk.num_values * _value_bytes(chunk))
            for name, value in self._partitions[group.file].items():
                sizes[name] += self._metadata(group).num_rows * (4 + len(value) if isinstance(value, str) else 4)
        return sizes

    def _batch_rows(self, columns: Sequence[str]) -> int:
        """Return the number of rows to decode at once, fewer for wide rows."""
        row_bytes = self.plain_bytes_of(columns) // max(self.num_rows, 1)
        return max(1, min(BATCH_ROWS, self._batch_bytes // max(row_bytes, 1)))

    def within(self, memory: MemoryBudget, /) -> Self:
        """Return the source with batches that fit the memory."""
        smaller = copy(self)
        is_short = memory.total_bytes < _SHORT_BYTES
        smaller._batch_bytes = memory.total_bytes // _BATCHES_OF_SHORT_MEMORY if is_short else _BATCH_BYTES
        return smaller

    def converted(self, types: Mapping[str, pa.DataType]) -> Self:
        """Return the source with columns in other types of the same values."""
        other = copy(self)
        other.schema, other._converted = with_types(self.schema, types), types
        return other

    def selecting(self, columns: Sequence[str]) -> Self:
        """Return the source with these columns, in this order."""
        narrower = copy(self)
        narrower.schema = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        return narrower

    def only(self, parts: Sequence[int]) -> Self:
        """Return the source with these row groups."""
        fewer = copy(self)
        fewer._starts = self.row_numbers(self.bounds[list(parts)])
        fewer._groups = [self._groups[part] for part in parts]
        fewer.part_rows = [self.part_rows[part] for part in parts]
        fewer._repetitive = {}
        for attribute in ("bounds", "num_rows", "_plain_bytes"):
            fewer.__dict__.pop(attribute, None)
        return fewer

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of rows among those of all row groups."""
        return rows if self._starts is None else numbers_in_parts(rows, self.bounds, self._starts)

    def is_repetitive(self, column: str) -> bool:
        """Return whether a string column repeats so much that it is best read as a dictionary."""
        if column not in self._repetitive:
            value_bytes = self.bytes_of([column]) / max(self.num_rows, 1)
            self._repetitive[column] = is_coded(self._stored.field(column).type) and value_bytes < _CODED_BYTES_MOST
        return self._repetitive[column]

    def extent(self, part: int, column: str, /) -> pa.Array | None:
        """Return the minimum and maximum by the row group's statistics, or by the folder name."""
        partition = self._partitions[self._groups[part].file]
        if column in partition:
            return None if partition[column] is None else self._repeated(part, column, 2)
        chunk = self._chunk(part, column)
        if chunk is None or chunk[0].statistics is None or not chunk[0].statistics.has_min_max:
            return None
        extent = extent_of(chunk[0].statistics, chunk[1], self._stored.field(column).type)
        return None if extent is None else converted(extent, self.schema.field(column).type)

    def nulls(self, column: str, /) -> int | None:
        """Return the number of nulls in a column by the row groups' statistics, or by folder names."""
        total = 0
        if self.has_deleted_rows:
            # Footers also count nulls in rows that are deleted.
            return None
        for part, rows in enumerate(self.part_rows):
            partition = self._partitions[self._groups[part].file]
            if column in partition:
                total += rows if partition[column] is None else 0
                continue
            chunk = self._chunk(part, column)
            if chunk is None or chunk[0].statistics is None or not chunk[0].statistics.has_null_count:
                return None
            total += chunk[0].statistics.null_count
        return total

    @property
    def has_deleted_rows(self) -> bool:
        """Whether files have rows that the log of their table marks as deleted."""
        return bool(self._live_rows)

    def is_declared_sorted(self, column: str, /) -> bool:
        """Return whether each row group is declared ascending by a column first, and follows the previous row group."""
        last: pa.Scalar | None = None
        for part, group in enumerate(self._groups):
            declared = self._metadata(group).sorting_columns
            metadata = self._footers[group.file].metadata
            if not declared or declared[0].descending or path_of(metadata, declared[0].column_index) != column:
                return False
            extent = self.extent(part, column)
            if len(self._groups) > 1 and (extent is None or (last is not None and pc.less(extent[0], last).as_py())):
                return False
            last = None if extent is None else extent[1]
        return bool(self._groups)

    def has_descent(self, column: str, /) -> bool:
        """Return whether a row group has a lesser value than the one before, by their statistics."""
        extents = (self.extent(part, column) for part in range(len(self._groups)))
        counted = (extent for extent in extents if extent is not None)
        return any(pc.less(extent[0], previous[1]).as_py() for previous, extent in pairwise(counted))

    def first_rows(self, part: int, columns: Sequence[str], rows: int) -> pa.RecordBatch:
        """Return the first rows of a row group, the only ones that can be decoded alone."""
        # In pieces, to read no more than needed.
        return next(self._batches(part, columns, (), rows, _PIECE_BYTES))

    def _batches(
        self, part: int, columns: Sequence[str], coded: Collection[str], rows: int, piece_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in batches. Column chunks are read in pieces, or at once for 0 bytes."""
        group = self._groups[part]
        file, footer = self._files[group.file], self._footers[group.file]
        partition = self._partitions[group.file]
        inside = [name for name in columns if name not in partition and name in footer.schema.names]
        row_count = 0
        with opened(file, group.number) as content:
            if fine := [name for name in inside if name in footer.int96]:
                check_whole_micros(content, footer.metadata, group.number, fine, file.path)
            parquet = pq.ParquetFile(
                content,
                metadata=footer.metadata,
                read_dictionary=[name for name in inside if name in coded and self.is_repetitive(name)],
                pre_buffer=False,
                buffer_size=piece_bytes,
                coerce_int96_timestamp_unit=INT96_UNIT,
            )
            batches = parquet.iter_batches(rows, [group.number], inside, use_threads=False)
            for number, batch in enumerate(batches, 1):
                first_row, row_count = row_count, row_count + batch.num_rows
                if group in self._live_rows:
                    batch = batch.filter(pa.array(self._live_rows[group][first_row:row_count]))
                yield converted_columns(self._shaped(part, batch, columns, coded), self._converted)
                if self._batch_bytes < _BATCH_BYTES and number % _BATCHES_PER_RELEASE == 0:
                    # Memory is short, and Arrow soon caches more freed memory than a batch needs.
                    pa.default_memory_pool().release_unused()
            if row_count != (expected := self._metadata(group).num_rows):
                raise DataError(
                    f"Row group {group.number} of the Parquet file {file.path!r} has {row_count:,} rows, but "
                    f"{expected:,} by its footer. The file is damaged. Write it again, or exclude it.",
                    name="JN-FILE-DAMAGED",
                )

    def _shaped(
        self, part: int, batch: pa.RecordBatch, columns: Sequence[str], coded: Collection[str]
    ) -> pa.RecordBatch:
        """Return rows of a row group with these columns, in the types that all files share."""
        file = self._groups[part].file
        if self._is_whole[file]:
            return batch.select(columns)
        arrays, fields = [], []
        for name in columns:
            field = self._stored.field(name)
            if name in self._partitions[file]:
                array = self._repeated(part, name, batch.num_rows, is_coded=name in coded)
            else:
                is_repeated = name in coded and self.is_repetitive(name)
                wanted = _dictionary_of(field.type) if is_repeated else field.type
                if name not in batch.schema.names:
                    array = pa.nulls(batch.num_rows, wanted)
                else:
                    array = batch.column(name)
                    # Stored dictionary columns have their own index type.
                    if array.type != wanted and not (pat.is_dictionary(array.type) and pat.is_dictionary(wanted)):
                        array = converted(array, wanted)
            arrays.append(array)
            fields.append(field.with_type(array.type))
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, self._stored.metadata))

    def _repeated(self, part: int, column: str, rows: int, *, is_coded: bool = False) -> pa.Array:
        """Return the value of a partition column, repeated for the rows of a row group."""
        data_type = self._stored.field(column).type
        value = pa.scalar(self._partitions[self._groups[part].file][column], data_type)
        if not (is_coded and pat.is_string(data_type)):
            return pa.repeat(value, rows)
        index = pa.scalar(0 if value.is_valid else None, pa.int32())
        return pa.DictionaryArray.from_arrays(pa.repeat(index, rows), pa.repeat(value, 1).drop_null())

    def _metadata(self, group: _RowGroup) -> pq.RowGroupMetaData:
        return self._footers[group.file].metadata.row_group(group.number)

    def _chunks(self, group: _RowGroup) -> Iterator[pq.ColumnChunkMetaData]:
        metadata = self._metadata(group)
        return map(metadata.column, range(metadata.num_columns))

    def _chunk(self, part: int, column: str) -> tuple[pq.ColumnChunkMetaData, pq.ParquetColumnSchema] | None:
        """Return the footer's metadata of a column in a row group, unless it is nested."""
        group = self._groups[part]
        footer = self._footers[group.file].metadata
        metadata = self._metadata(group)
        for number in range(metadata.num_columns):
            # The path of a field within a struct may equal the name of another column.
            if path_of(footer, number) == footer.schema.column(number).name == column:
                return metadata.column(number), footer.schema.column(number)
        return None


def _dictionary_of(data_type: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.binary() if pat.is_binary(data_type) else pa.string())


def _value_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Return the estimated size of a decoded value of a column chunk."""
    if column.physical_type in _PHYSICAL_BYTES:
        return _PHYSICAL_BYTES[column.physical_type]
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return _ASSUMED_VALUE_BYTES
    # Long strings may be truncated in statistics, but not to less than a few dozen bytes.
    ends = [len(value) for value in (statistics.min_raw, statistics.max_raw) if isinstance(value, bytes | str)]
    return sum(ends) // len(ends) + 4 if ends else _ASSUMED_VALUE_BYTES
