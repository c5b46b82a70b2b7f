"""Footers of Parquet files: columns, row groups, and minimum and maximum values."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
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

from juncture.columnar.arrays import array_of
from juncture.errors import DataError
from juncture.runtime.paths import FoundFile
from juncture.runtime.threads import Threads

INT96_UNIT = "us"
"""The unit of deprecated 96-bit timestamps, as in Spark. Nanoseconds would end in 2262."""

_TAIL_BYTES = 1 << 16
"""Bytes at the end of a file that are read first. They usually include the whole footer."""
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
    """Return the column of a path within a file. Column names may contain dots.

    Examples
    --------
    >>> column_of("a.b.list.element", {"a.b", "c"})
    'a.b'
    """
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
