"""Footers of Parquet files: columns, row groups, minimum and maximum values, and the schema of a table's files.

A shared schema has columns by name, with types that are equal in Parquet. Deprecated 96-bit timestamps have nanoseconds
but are read in microseconds, so a row group with finer ones is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, raw_values, validity, with_fields
from juncture.columnar.types import plain_type
from juncture.errors import DataError
from juncture.runtime.paths import FoundFile
from juncture.runtime.stores import store_failure, uri_of
from juncture.runtime.threads import Threads

INT96_UNIT = "us"
"""The unit of deprecated 96-bit timestamps, as in Spark. Nanoseconds would end in 2262."""

_TAIL_BYTES = 1 << 16  # bytes at the end of a file that are read first. They usually include the whole footer
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Footer:
    """The footer of a Parquet file: schema, metadata, and a digest that identifies it."""

    schema: pa.Schema
    metadata: pq.FileMetaData
    digest: bytes

    @cached_property
    def int96(self) -> frozenset[str]:
        """The columns with 96-bit timestamps, at any depth."""
        leaves = (self.metadata.schema.column(number) for number in range(len(self.metadata.schema)))
        paths = [leaf.path.split(".") for leaf in leaves if leaf.physical_type == "INT96"]
        # A name may contain dots, so all prefixes are included. Prefixes that are not columns have no effect.
        return frozenset(name for path in paths for name in accumulate(path, "{}.{}".format))


@contextmanager
def opened(file: FoundFile, row_group: int | None = None) -> Iterator[pa.NativeFile]:
    """Open an unchanged file, and name it, with its row group, in read errors."""
    try:
        with file.filesystem.open_input_file(file.path) as content:
            check_unchanged(file)
            yield content
    except FileNotFoundError as error:
        raise changed(file.path, "was removed") from error
    except PermissionError as error:
        raise DataError(
            f"The Parquet file {file.path!r} cannot be read: {error}. Grant permission to read it, or exclude it.",
            name="JN-FILE-ACCESS",
        ) from error
    except (pa.ArrowException, OSError) as error:
        if (failure := store_failure(uri_of(file.path, file.filesystem), error)) is not None:
            raise failure from error
        check_unchanged(file)
        what = "The" if row_group is None else f"Row group {row_group} of the"
        raise DataError(
            f"{what} Parquet file {file.path!r} cannot be read, and may be truncated or damaged: {error}. Write it "
            "again, or exclude it.",
            name="JN-FILE-DAMAGED",
        ) from error


def changed(path: str, how: str = "has changed") -> DataError:
    """Return the error for a file that is not the planned one."""
    return DataError(f"The file {path!r} {how} since the join was planned. Plan it again.", name="JN-FILE-CHANGED")


def check_unchanged(file: FoundFile) -> None:
    """Refuse a file that has changed since planning."""
    info = file.filesystem.get_file_info(file.path)
    if info.type == pa.fs.FileType.NotFound:
        raise changed(file.path, "was removed")
    if (info.size, info.mtime_ns) != (file.size_bytes, file.mtime_ns):
        raise changed(file.path)


def read_footers(files: Sequence[FoundFile]) -> list[Footer]:
    """Read only the footers of files, at least one."""
    with Threads(min(8, len(files))) as threads:
        return list(threads.map(_footer, files))


def _footer(file: FoundFile) -> Footer:
    with opened(file) as content:
        size = file.size_bytes
        tail = content.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
        length = int.from_bytes(tail[-_LENGTH_BYTES:][:4], "little") + _LENGTH_BYTES
        if len(tail) < length <= size:
            tail = content.read_at(length, size - length)
        parquet = pq.ParquetFile(pa.BufferReader(tail), coerce_int96_timestamp_unit=INT96_UNIT)
        digest = blake2b(tail[-length:], digest_size=16).digest()
        return Footer(parquet.schema_arrow, parquet.metadata, digest)


def path_of(metadata: pq.FileMetaData, number: int) -> str:
    """Return the path of a file's column, whose parts are the names of nested fields."""
    return str(metadata.schema.column(number).path)


def column_of(path: str, names: Container[str]) -> str:
    """Return the column of a path within a file, whose names may have dots: ``a.b`` of ``a.b.list.element``."""
    while path and path not in names:
        path = path.rpartition(".")[0]
    return path


def is_coded(data_type: pa.DataType) -> bool:
    """Return whether Arrow can read a column as a dictionary."""
    return bool(pat.is_string(data_type) or pat.is_binary(data_type) or pat.is_large_string(data_type))


def extent_of(statistics: pq.Statistics, column: pq.ParquetColumnSchema, data_type: pa.DataType) -> pa.Array | None:
    """Return a column chunk's minimum and maximum in its type; None for types whose statistics may be wrong.

    Those of strings may be truncated by the writer. Then they are bounds, not values of the chunk.
    """
    if pat.is_signed_integer(data_type):
        return array_of(np.array([statistics.min, statistics.max], f"i{data_type.bit_width // 8}"), data_type)
    if pat.is_float32(data_type) or pat.is_float64(data_type):
        return array_of(np.array([statistics.min, statistics.max], f"f{data_type.bit_width // 8}"), data_type)
    if pat.is_date32(data_type):
        # As integers, because Python's dates end in year 9999.
        return array_of(np.array([statistics.min_raw, statistics.max_raw], np.int32), data_type)
    if pat.is_timestamp(data_type) and column.physical_type == "INT64":
        # As integers, because datetimes would truncate nanoseconds.
        unit = json.loads(column.logical_type.to_json()).get("timeUnit")
        units = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
        if unit not in units:
            return None
        raw = array_of(np.array([statistics.min_raw, statistics.max_raw], np.int64), pa.timestamp(units[unit]))
        return raw.cast(pa.timestamp(data_type.unit), safe=False).view(data_type)
    if is_coded(data_type):
        limits = statistics.min_raw, statistics.max_raw
        wide = pat.is_large_string(data_type)
        offsets = np.cumsum([0, *map(len, limits)]).astype(np.int64 if wide else np.int32)
        return pa.Array.from_buffers(data_type, 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(limits))])
    return None


_WIDTHS = (
    ((pat.is_string, pat.is_large_string, pat.is_string_view), pa.string(), pa.large_string()),
    ((pat.is_binary, pat.is_large_binary, pat.is_binary_view), pa.binary(), pa.large_binary()),
    ((pat.is_date32, pat.is_date64), pa.date32(), pa.date32()),
)
"""Groups of types that are equal in Parquet, with their plain and their wide type."""

_LISTS = (pat.is_list, pat.is_large_list, pat.is_list_view, pat.is_large_list_view)


def joined_schema(
    files: Sequence[FoundFile], schemas: Sequence[pa.Schema], *, union_by_name: bool = False
) -> pa.Schema:
    """Return the schema of files in the order of the first one; with `union_by_name`, files may lack columns."""
    alike: list[tuple[pa.Schema, list[str]]] = []
    for file, schema in zip(files, schemas, strict=True):
        same = next((paths for representative, paths in alike if representative.equals(schema)), None)
        if same is None:
            alike.append((schema, [file.path]))
        else:
            same.append(file.path)
    if len(alike) == 1:
        return schemas[0]
    differences, fields = list[str](), list[pa.Field]()
    for name in dict.fromkeys(name for schema, _ in alike for name in schema.names):
        there = [(schema.field(name), paths) for schema, paths in alike if name in schema.names]
        lacking = [path for schema, paths in alike if name not in schema.names for path in paths]
        if lacking and not union_by_name:
            [holder, *others] = [path for _, paths in there for path in paths]
            is_extra = not others and holder != files[0].path
            differences.append(
                f"column {name!r} exists only in {holder!r}"
                if is_extra
                else f"column {name!r} is missing in {lacking[0]!r}"
            )
        field, [first, *_] = there[0]
        for other, paths in there[1:]:
            common = common_type(field.type, other.type)
            if common is None:
                differences.append(f"column {name!r} is {other.type} in {paths[0]!r} and {field.type} in {first!r}")
                break
            field = field.with_type(common).with_nullable(field.nullable or other.nullable)
        fields.append(field.with_nullable(True) if lacking else field)
    if differences:
        raise DataError(
            f"The Parquet files of one table have different columns: {'; '.join(differences)}. Expected the same "
            "columns with the same types. Write or exclude a file, or pass juncture.Files(…, union_by_name=True) to "
            "fill missing columns with null.",
            name="JN-FILE-COLUMNS",
        )
    return pa.schema(fields, schemas[0].metadata)


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type for the values of two types that are equal in Parquet, or None.

    Such types differ only in Arrow's metadata in a file, which other libraries omit or write differently.
    """
    if one == other:
        return one
    one, other = _nullable(plain_type(one)), _nullable(plain_type(other))
    if one == other:
        return one
    for kinds, narrow, wide in _WIDTHS:
        if _are(one, kinds) and _are(other, kinds):
            return wide if wide in (one, other) else narrow
    if pat.is_timestamp(one) and pat.is_timestamp(other) and one.unit == other.unit and one.tz and other.tz:
        return pa.timestamp(one.unit, "UTC")
    if pat.is_decimal(one) and pat.is_decimal(other) and (one.precision, one.scale) == (other.precision, other.scale):
        # Beyond 38 digits, there is only decimal256.
        return pa.decimal128(one.precision, one.scale)
    return _common_nested(one, other)


def _common_nested(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    one_parts, other_parts = _parts(one), _parts(other)
    if one.id != other.id and not (_are(one, _LISTS) and _are(other, _LISTS)):
        return None
    if not one_parts or [name for name, _ in one_parts] != [name for name, _ in other_parts]:
        return None
    if pat.is_fixed_size_list(one) and one.list_size != other.list_size:
        return None
    types = [common_type(left, right) for (_, left), (_, right) in zip(one_parts, other_parts, strict=True)]
    if any(each is None for each in types):
        return None
    wide = next((each for each in (one, other) if pat.is_large_list(each) or pat.is_large_list_view(each)), one)
    remaining = iter(types)
    return with_fields(wide, lambda field: field.with_type(next(remaining)))


def _parts(data_type: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the names and types of the parts of a nested type. Names of list items are ignored."""
    if pat.is_struct(data_type):
        return [(field.name, field.type) for field in data_type]
    if pat.is_map(data_type):
        return [("key", data_type.key_type), ("value", data_type.item_type)]
    return [("item", data_type.value_type)] if _are(data_type, (*_LISTS, pat.is_fixed_size_list)) else []


def _are(data_type: pa.DataType, kinds: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(is_kind(data_type) for is_kind in kinds)


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """Return a type that allows nulls at any depth."""
    return with_fields(data_type, lambda field: field.with_type(_nullable(field.type)).with_nullable(True))


_ROWS = 1 << 16


def check_whole_micros(
    content: pa.NativeFile, metadata: pq.FileMetaData, row_group: int, columns: Sequence[str], path: str
) -> None:
    """Refuse a row group with 96-bit timestamps finer than microseconds, which would be truncated.

    Arrow detects this only in nanoseconds, which wrap around beyond 2262. There, both units have different times.
    """
    readers = [
        pq.ParquetFile(content, metadata=metadata, coerce_int96_timestamp_unit=unit, pre_buffer=False)
        for unit in ("us", "ns")
    ]
    batches = (reader.iter_batches(_ROWS, [row_group], list(columns), use_threads=False) for reader in readers)
    for coarse, fine in zip(*batches, strict=True):
        for name in columns:
            for micros, nanos in zip(_times(coarse.column(name)), _times(fine.column(name)), strict=True):
                counts = raw_values(nanos, np.int64)
                lost = (counts // 1_000 == raw_values(micros, np.int64)) & (counts % 1_000 != 0)
                valid = validity(nanos)
                if (lost if valid is None else lost & valid).any():
                    raise DataError(
                        f"The column {name!r} of the Parquet file {path!r} has 96-bit timestamps finer than "
                        "microseconds, the unit in which they are read. Write it with 64-bit timestamps in "
                        "nanoseconds.",
                        name="JN-INT96-PRECISION",
                    )


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamps within an array."""
    if pat.is_struct(array.type):
        for child in array.flatten():
            yield from _times(child)
    elif pat.is_map(array.type):
        yield from _times(array.keys)
        yield from _times(array.items)
    elif pat.is_nested(array.type):
        yield from _times(array.flatten())
    elif pat.is_timestamp(array.type):
        yield array
