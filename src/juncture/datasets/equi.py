"""Generated tables for equality joins: accounts with keys of text, and payments that name one of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.datasets.folders import SIDES, check_counts, write_folder
from juncture.errors import SpecError

__all__ = ["KEY_DIGITS", "EquiTables", "write_keyed"]

KEY_DIGITS = 9
"""Keys are a ``u`` and so many digits."""

_FORMAT = 1
_HOT_KEY = 0
_ROWS_PER_FILE = 10_000_000
_ROW_GROUP_ROWS = 1_000_000
_SCHEMA = pa.schema({"key": pa.string(), "id": pa.int64(), "val": pa.float64()})

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class EquiTables:
    """Where a generated pair of tables lies, and how it was made.

    Attributes
    ----------
    folder
        Holds ``left/`` and ``right/``, each with ``part-00000.parquet`` and so on.
    left_rows, right_rows, keys, seed
        As given to `write_keyed`.
    hot_share
        The same.
    """

    folder: Path
    left_rows: int
    right_rows: int
    keys: int
    seed: int
    hot_share: float = 0.0

    @property
    def left(self) -> Path:
        """The folder of the left table."""
        return self.folder / SIDES[0]

    @property
    def right(self) -> Path:
        """The folder of the right table."""
        return self.folder / SIDES[1]

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the files, as plain data."""
        even = {
            "format": _FORMAT,
            "left_rows": self.left_rows,
            "right_rows": self.right_rows,
            "keys": self.keys,
            "seed": self.seed,
        }
        return even | {"hot_share": self.hot_share} if self.hot_share else even


def write_keyed(
    folder: str | Path,
    *,
    left_rows: int,
    right_rows: int,
    keys: int,
    hot_share: float = 0.0,
    seed: int = 0,
    threads: int | None = None,
) -> EquiTables:
    """Write two tables to join by a key of text, as Parquet.

    Both have ``key`` (string), ``id`` (int64, the number of the row) and ``val`` (float64 in [0, 1)). The smaller table
    has every key once at most, in no order; the larger one has random ones.

    Parameters
    ----------
    folder
        Where to write. A folder that an earlier call finished with the same arguments is kept as it is.
    left_rows, right_rows
        Rows of each table.
    keys
        How many keys there are; at least as many as the smaller table has rows.
    hot_share
        Which share of the larger table's rows have one and the same key, which the smaller table has too, from 0 to 1.
    seed
        The same seed gives the same rows, whatever the number of threads (under one version of NumPy).
    threads
        Files written at once; by default one per core.

    Raises
    ------
    SpecError
        If an argument is out of its range.
    DataError
        If the folder exists and holds anything else.

    Examples
    --------
    >>> import tempfile
    >>> from juncture.datasets import write_keyed
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_keyed(f"{parent}/tiny", left_rows=10, right_rows=1_000, keys=20)
    ...     pq.read_table(tables.left).num_rows
    10
    """
    check_counts({"left_rows": left_rows, "right_rows": right_rows, "seed": seed}, least=0)
    check_counts({"keys": keys}, least=max(1, min(left_rows, right_rows)))
    if not 0 <= hot_share <= 1:
        raise SpecError(f"hot_share={hot_share!r} is not a share. Expected a number from 0 to 1.")
    tables = EquiTables(
        folder=Path(folder), left_rows=left_rows, right_rows=right_rows, keys=keys, seed=seed, hot_share=hot_share
    )
    write_folder(
        tables.folder,
        tables.manifest(),
        maker="write_keyed",
        rows=(left_rows, right_rows),
        rows_per_file=_ROWS_PER_FILE,
        threads=threads,
        write_file=partial(_write_file, tables),
    )
    return tables


def _write_file(tables: EquiTables, path: Path, side: int, index: int, rows: int) -> None:
    """Write one file, one row group at a time; its random stream depends on the seed and its place only."""
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence((tables.seed, side, index))))
    is_small = (tables.left_rows <= tables.right_rows) == (side == 0)
    with pq.ParquetWriter(path, _SCHEMA, compression="snappy", use_dictionary=False) as writer:
        for start in range(0, rows, _ROW_GROUP_ROWS):
            first = index * _ROWS_PER_FILE + start
            numbers = np.arange(first, first + min(_ROW_GROUP_ROWS, rows - start), dtype=np.int64)
            keys = _scattered(numbers, tables.keys) if is_small else _random_keys(random, len(numbers), tables)
            arrays = [_texts(keys), pa.array(numbers), pa.array(random.random(len(numbers)))]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA), row_group_size=_ROW_GROUP_ROWS)


def _random_keys(random: np.random.Generator, count: int, tables: EquiTables) -> Ints:
    """Return keys at random, some of them the one that is hot: the first of the smaller table."""
    keys = random.integers(0, tables.keys, count)
    return np.where(random.random(count) < tables.hot_share, _HOT_KEY, keys) if tables.hot_share else keys


def _scattered(numbers: Ints, count: int) -> Ints:
    """Return different numbers below a count for different ones, in no visible order."""
    step = next(step for step in range(int(count * 0.618) | 1, 2 * count + 2, 2) if np.gcd(step, count) == 1)
    return numbers * step % count


def _texts(keys: Ints) -> pa.Array:
    """Return keys as text."""
    width = KEY_DIGITS + 1
    letters = np.full((len(keys), width), ord("u"), np.uint8)
    for place in range(KEY_DIGITS):
        letters[:, KEY_DIGITS - place] = ord("0") + keys // 10**place % 10
    offsets = np.arange(0, width * (len(keys) + 1), width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(letters))
