"""Parquet files as no writer should leave them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["write_short"]


def write_short(path: Path, columns: tuple[str, ...] = ("ts", "k")) -> None:
    """Write a file of one row group that lacks one of the 11 rows of its footer, in some or all of the columns.

    All its values are equal, so that 10 and 11 of them take as many bytes.
    """
    whole, short = (_written(rows) for rows in (11, 10))
    content = bytearray(whole)
    for column in pq.ParquetFile(BytesIO(whole)).metadata.row_group(0).to_dict()["columns"]:
        start = column["dictionary_page_offset"] or column["data_page_offset"]
        end = start + column["total_compressed_size"]
        if column["path_in_schema"] in columns:
            content[start:end] = short[start:end]
    path.write_bytes(content)


def _written(rows: int) -> bytes:
    sink = BytesIO()
    table = pa.table({"ts": pa.array([7] * rows, pa.int64()), "k": ["x"] * rows})
    pq.write_table(table, sink, write_statistics=False)
    return sink.getvalue()
