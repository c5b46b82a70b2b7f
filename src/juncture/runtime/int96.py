"""Deprecated 96-bit timestamps of Parquet, which have nanoseconds but are read in microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values, validity
from juncture.errors import DataError

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
