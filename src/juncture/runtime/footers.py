"""What Parquet files say of themselves: their columns, their row groups, the least and the greatest values."""

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
"""In what the deprecated 96-bit timestamps are read, as Spark does: in nanoseconds they would end in 2262."""

_TAIL_BYTES = 1 << 16
"""How much of the end of a file is read first, most often with all of the footer."""
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Footer:
    """What a Parquet file says of itself.

    Attributes
    ----------
    schema
        Of its rows.
    metadata
        Of its row groups.
    digest
        Identifies this footer.
    """

    schema: pa.Schema
    metadata: pq.FileMetaData
    digest: bytes

    @cached_property
    def int96(self) -> frozenset[str]:
        """The columns that hold 96-bit timestamps, at any depth."""
        leaves = (self.metadata.schema.column(number) for number in range(len(self.metadata.schema)))
        paths = [leaf.path.split(".") for leaf in leaves if leaf.physical_type == "INT96"]
        # A name may have dots itself: what is not a column does no harm.
        return frozenset(name for path in paths for name in accumulate(path, "{}.{}".format))


@contextmanager
def opened(file: FoundFile, row_group: int | None = None) -> Iterator[pa.NativeFile]:
    """Open a file, if it is still the one that was found, and name it in errors of reading it, or a row group of it.

    Raises
    ------
    DataError
        If it has changed or gone since, may not be read, or is damaged.
    """
    try:
        with file.filesystem.open_input_file(file.path) as content:
            check_unchanged(file)
            yield content
    except FileNotFoundError as error:
        raise changed(file.path, "is not there any more") from error
    except PermissionError as error:
        raise DataError(
            f"The Parquet file {file.path!r} may not be read: {error}. Grant the right to read it, or leave it out."
        ) from error
    except (pa.ArrowException, OSError) as error:
        check_unchanged(file)
        what = "The" if row_group is None else f"Row group {row_group} of the"
        raise DataError(
            f"{what} Parquet file {file.path!r} cannot be read, it may be cut off or damaged: {error}. Write it again, "
            "or leave it out."
        ) from error


def changed(path: str, how: str = "has changed") -> DataError:
    """Return the error to raise where a file is not the one that a join was planned with."""
    return DataError(f"The file {path!r} {how} since the join was planned. Plan it again.")


def check_unchanged(file: FoundFile) -> None:
    """Refuse a file that is another one by now.

    Raises
    ------
    DataError
        If it is, or has gone.
    """
    info = file.filesystem.get_file_info(file.path)
    if info.type == pa.fs.FileType.NotFound:
        raise changed(file.path, "is not there any more")
    if (info.size, info.mtime_ns) != (file.size_bytes, file.mtime_ns):
        raise changed(file.path)


def read_footers(files: Sequence[FoundFile]) -> list[Footer]:
    """Read the footers of files, at least one, and nothing else.

    Raises
    ------
    DataError
        If one cannot be read.
    """
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
    """Return the path of a column of a file, whose parts are the names of nested fields."""
    return str(metadata.schema.column(number).path)


def column_of(path: str, names: Container[str]) -> str:
    """Return the column to which a path within a file belongs, by the names of all columns, which may have dots.

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
    if is_coded(data_type):
        limits = statistics.min_raw, statistics.max_raw
        wide = pat.is_large_string(data_type)
        offsets = np.cumsum([0, *map(len, limits)]).astype(np.int64 if wide else np.int32)
        return pa.Array.from_buffers(data_type, 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(limits))])
    return None
