"""Folders as Delta, Iceberg and Hudi leave them: one file that counts, and one whose rows were deleted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

LOGS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00001-5f1b.metadata.json",
    "Hudi": ".hoodie/hoodie.properties",
}
"""A file by which each is known."""


def write_lake(folder: Path, table: str, rows: pa.Table) -> Path:
    """Write a table with partitions, of which one file has been deleted by the log alone, and return its folder."""
    for day in (1, 2):
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(rows, folder / f"day={day}" / "part-0.parquet")
    (folder / LOGS[table]).parent.mkdir()
    (folder / LOGS[table]).write_text("{}")
    return folder
