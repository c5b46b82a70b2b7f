"""Writing of generated tables whose rows are made of their numbers, and of random streams that depend on the seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import SpecError
from juncture.kernels.array_types import Ints
from juncture_benchmarks.datasets.folders import TablePair, check_counts, write_folder

__all__ = ["Columns", "Ints", "Layout", "Random", "check_share", "write_numbered"]

Random = np.random.Generator
Columns = Callable[[int, Random, Ints], list[Any]]
"""Makes the columns of some rows, given the number of their side, what is random in them, and their own numbers."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Contents of the files of a pair of tables.

    Attributes
    ----------
    schemas
        The columns of both tables.
    rows_per_file, row_group_rows
        Files and row groups.
    coded
        The columns with dictionaries in the files.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    rows_per_file: int
    row_group_rows: int
    coded: tuple[str, ...] = ()


def write_numbered(
    tables: TablePair,
    manifest: Mapping[str, Any],
    layout: Layout,
    columns: Columns,
    *,
    maker: str,
    threads: int | None,
) -> None:
    """Write a pair of tables as Parquet, unless they are there already.

    Parameters
    ----------
    tables
        Folder, number of rows, and seed.
    manifest, maker, threads
        As for `juncture_benchmarks.datasets.folders.write_folder`.
    layout, columns
        Contents of the files.

    Raises
    ------
    SpecError
        If a count is out of its range.
    DataError
        If the folder exists and holds anything else.
    """
    check_counts({name: getattr(tables, name) for name in ("left_rows", "right_rows", "seed")}, least=0)
    write_folder(
        tables.folder,
        manifest,
        maker=maker,
        rows=(tables.left_rows, tables.right_rows),
        rows_per_file=layout.rows_per_file,
        threads=threads,
        write_file=partial(_write_file, tables.seed, layout, columns),
    )


def check_share(name: str, share: float) -> None:
    """Refuse what is not a share.

    Raises
    ------
    SpecError
        If it is below 0 or above 1.
    """
    if not 0.0 <= share <= 1.0:
        raise SpecError(f"{name} must be from 0 to 1, but is {share}")


def _write_file(seed: int, layout: Layout, columns: Columns, path: Path, side: int, index: int, rows: int) -> None:
    """Write one file, one row group at a time; its random stream depends on the seed and its place only."""
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, side, index))))
    schema, group = layout.schemas[side], layout.row_group_rows
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=list(layout.coded)) as writer:
        for start in range(0, rows, group):
            first = index * layout.rows_per_file + start
            numbers = np.arange(first, first + min(group, rows - start), dtype=np.int64)
            made = columns(side, random, numbers)
            arrays = [pa.array(values, field.type) for values, field in zip(made, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), row_group_size=group)
