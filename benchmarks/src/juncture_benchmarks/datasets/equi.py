"""Generated tables for equality joins: accounts with keys of text or numbers, and payments that name one of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.errors import SpecError
from juncture_benchmarks.datasets.folders import TablePair, check_counts
from juncture_benchmarks.datasets.numbered import Ints, Layout, Random, check_share, write_numbered

__all__ = ["KEY_DIGITS", "EquiTables", "KeyKind", "key_texts", "write_keyed"]

KeyKind = Literal["text", "integer"]

KEY_DIGITS = 9
"""Digits of a text key, after a ``u``."""

_FORMAT = 1
_HOT_KEY = 0
_KEY_TYPES: dict[KeyKind, pa.DataType] = {"text": pa.string(), "integer": pa.int64()}


@dataclass(frozen=True, kw_only=True, slots=True)
class EquiTables(TablePair):
    """Folder and properties of a generated pair of tables.

    Attributes
    ----------
    keys, hot_share, key_kind
        As given to `write_keyed`.
    """

    keys: int
    hot_share: float = 0.0
    key_kind: KeyKind = "text"

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the files, as plain data."""
        even: dict[str, Any] = {
            "format": _FORMAT,
            "left_rows": self.left_rows,
            "right_rows": self.right_rows,
            "keys": self.keys,
            "seed": self.seed,
        }
        if self.hot_share:
            even["hot_share"] = self.hot_share
        if self.key_kind != "text":
            even["key_kind"] = self.key_kind
        return even


def write_keyed(
    folder: str | Path,
    *,
    left_rows: int,
    right_rows: int,
    keys: int,
    hot_share: float = 0.0,
    key_kind: KeyKind = "text",
    seed: int = 0,
    threads: int | None = None,
) -> EquiTables:
    """Write two tables to join by a key of text or by an integer, as Parquet.

    Both have ``key`` (string or int64), ``id`` (int64, the number of the row) and ``val`` (float64 in [0, 1)). The
    smaller table has every key once at most, in no order; the larger one has random ones.

    Parameters
    ----------
    folder
        The folder. If an earlier call with the same arguments finished it, it is reused.
    left_rows, right_rows
        Rows of each table.
    keys
        Number of keys; at least the number of rows of the smaller table.
    hot_share
        Which share of the larger table's rows have one and the same key, which the smaller table has too, from 0 to 1.
    key_kind
        ``"text"``: a ``u`` and the digits of a number below ``keys``; ``"integer"``: the number itself.
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
    >>> import pyarrow.parquet as pq
    >>> from juncture_benchmarks.datasets import write_keyed
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_keyed(f"{parent}/tiny", left_rows=10, right_rows=1_000, keys=20)
    ...     pq.read_table(tables.left).num_rows
    10
    """
    check_counts({"keys": keys}, least=max(1, min(left_rows, right_rows)))
    check_share("hot_share", hot_share)
    if key_kind not in _KEY_TYPES:
        raise SpecError(f"key_kind must be one of {', '.join(map(repr, _KEY_TYPES))}, but is {key_kind!r}")
    tables = EquiTables(
        folder=Path(folder),
        left_rows=left_rows,
        right_rows=right_rows,
        keys=keys,
        seed=seed,
        hot_share=hot_share,
        key_kind=key_kind,
    )
    schema = pa.schema({"key": _KEY_TYPES[key_kind], "id": pa.int64(), "val": pa.float64()})
    layout = Layout(schemas=(schema, schema), rows_per_file=10_000_000, row_group_rows=1_000_000)
    write_numbered(tables, tables.manifest(), layout, partial(_columns, tables), maker="write_keyed", threads=threads)
    return tables


def _columns(tables: EquiTables, side: int, random: Random, numbers: Ints) -> list[Any]:
    is_small = (tables.left_rows <= tables.right_rows) == (side == 0)
    keys = _scattered(numbers, tables.keys) if is_small else _random_keys(random, len(numbers), tables)
    return [key_texts(keys) if tables.key_kind == "text" else keys, numbers, random.random(len(numbers))]


def _random_keys(random: Random, count: int, tables: EquiTables) -> Ints:
    """Return keys at random, some of them the one that is hot: the first of the smaller table."""
    keys = random.integers(0, tables.keys, count)
    return np.where(random.random(count) < tables.hot_share, _HOT_KEY, keys) if tables.hot_share else keys


def _scattered(numbers: Ints, count: int) -> Ints:
    """Return different numbers below a count for different ones, in no visible order."""
    step = next(step for step in range(int(count * 0.618) | 1, 2 * count + 2, 2) if np.gcd(step, count) == 1)
    return numbers * step % count


def key_texts(keys: Ints) -> pa.Array:
    """Return keys as text: a ``u`` and digits."""
    width = KEY_DIGITS + 1
    letters = np.full((len(keys), width), ord("u"), np.uint8)
    for place in range(KEY_DIGITS):
        letters[:, KEY_DIGITS - place] = ord("0") + keys // 10**place % 10
    offsets = np.arange(0, width * (len(keys) + 1), width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(letters))
