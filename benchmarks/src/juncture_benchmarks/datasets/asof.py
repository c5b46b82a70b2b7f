"""Generated tables for as-of joins: skewed keys, clustered times, unsorted rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import SpecError
from juncture_benchmarks.datasets.folders import TablePair, check_counts, write_folder

Keys = Literal["zipf", "uniform", "single", "none"]

SCALES = {
    "small": (1_000_000, 10_000_000),
    "medium": (10_000_000, 100_000_000),
    "large": (50_000_000, 500_000_000),
}
"""Rows of the left and of the right table at each named scale."""

_FORMAT = 1
_ENTITIES_MAX = 30_000
_ENTITY = pa.dictionary(pa.int16(), pa.string())

_EPOCH_MS = 1_704_067_200_000
_SPAN_MS = 30 * 24 * 3_600 * 1_000
_BURSTS = 1_000
_BURST_WIDTHS_MS = (10e3, 1_000e3)


@dataclass(frozen=True, kw_only=True, slots=True)
class AsofTables(TablePair):
    """Folder and properties of a generated pair of tables.

    Attributes
    ----------
    entities, zipf, keys
        As given to `write_asof`.
    rows_per_file, row_group_rows
        Files and row groups.
    """

    entities: int
    zipf: float
    keys: Keys
    rows_per_file: int
    row_group_rows: int

    @property
    def by(self) -> str | None:
        """The key to join by; None where the tables have none."""
        return None if self.keys == "none" else "entity"

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the files, as plain data."""
        fields = asdict(self)
        del fields["folder"]
        return {"format": _FORMAT, **fields}


def write_asof(
    folder: str | Path,
    *,
    left_rows: int,
    right_rows: int,
    entities: int = 10_000,
    zipf: float = 1.0,
    keys: Keys = "zipf",
    seed: int = 0,
    rows_per_file: int = 5_000_000,
    row_group_rows: int = 1_000_000,
    threads: int | None = None,
) -> AsofTables:
    """Write two tables to join as of a time, as Snappy-compressed Parquet.

    Both tables have the columns ``ts`` (int64, milliseconds since 1970), ``entity`` (string,
    ``e00000`` to ``e09999``) and ``val`` (float64 in [0, 1)).

    Times lie in the 30 days from 2024-01-01 and are clustered: each row belongs to one of 1,000 bursts,
    all equally likely, and has its burst's centre plus a normal offset. The centres are uniform over
    the span, the standard deviations log-uniform from 10 s to 1,000 s, and both tables share them. So a
    left row mostly has right rows close to it, and frequent entities repeat a time now and then
    (``small`` has some ten thousand right rows that share entity and time with another). Rows are in no order.

    Parameters
    ----------
    folder
        The folder. If an earlier call with the same arguments finished it, it is reused.
    left_rows, right_rows
        Rows of each table. `SCALES` names three sizes.
    entities
        Number of distinct entities, at most 30,000.
    zipf
        Exponent of the entities' frequencies: entity ``i`` has a share proportional to ``(i + 1) ** -zipf``.
    keys
        ``"zipf"``; ``"uniform"`` (all entities equally frequent); ``"single"`` (every row is ``e00000``);
        or ``"none"`` (no ``entity`` column).
    seed
        The same seed gives the same rows, whatever the number of threads (under one version of NumPy).
    rows_per_file, row_group_rows
        Files and row groups.
    threads
        Files written at once; by default one per core.

    Returns
    -------
    AsofTables
        The folders of both tables.

    Raises
    ------
    SpecError
        If an argument is out of its range.
    DataError
        If the folder exists and holds anything else.

    Notes
    -----
    Costs about 0.15 µs a row and core. Each thread holds one row group: some 60 MB at the default size.
    Files are written into a hidden folder beside `folder`, which is renamed when all is done.

    Examples
    --------
    >>> import tempfile
    >>> from juncture_benchmarks.datasets import write_asof
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_asof(f"{parent}/tiny", left_rows=1_000, right_rows=10_000)
    ...     sorted(file.name for file in tables.right.iterdir())
    ['part-00000.parquet']
    """
    tables = AsofTables(
        folder=Path(folder),
        left_rows=left_rows,
        right_rows=right_rows,
        entities=entities,
        zipf=float(zipf),
        keys=keys,
        seed=seed,
        rows_per_file=rows_per_file,
        row_group_rows=row_group_rows,
    )
    _check(tables)
    write_folder(
        tables.folder,
        tables.manifest(),
        maker="write_asof",
        rows=(left_rows, right_rows),
        rows_per_file=rows_per_file,
        threads=threads,
        write_file=partial(_write_file, tables),
    )
    return tables


def _check(tables: AsofTables) -> None:
    """Refuse arguments that no table can have."""
    values = asdict(tables)
    check_counts({name: values[name] for name in ("left_rows", "right_rows", "seed")}, least=0)
    check_counts({name: values[name] for name in ("rows_per_file", "row_group_rows")}, least=1)
    if not 1 <= tables.entities <= _ENTITIES_MAX:
        raise SpecError(f"entities must be from 1 to {_ENTITIES_MAX:,}, but is {tables.entities}")
    if not math.isfinite(tables.zipf):
        raise SpecError(f"zipf must be a finite number, but is {tables.zipf}")
    if tables.keys not in get_args(Keys):
        raise SpecError(f"keys must be one of {', '.join(get_args(Keys))}, but is {tables.keys!r}")


def _write_file(tables: AsofTables, path: Path, side: int, index: int, rows: int) -> None:
    """Write one file, one row group at a time."""
    fields = [pa.field("ts", pa.int64()), pa.field("entity", _ENTITY), pa.field("val", pa.float64())]
    if tables.by is None:
        del fields[1]
    with pq.ParquetWriter(
        path,
        pa.schema(fields),
        compression="snappy",
        use_dictionary=["entity"],
        # Without Arrow's own schema in the footer, readers see the dictionary-coded column as plain strings.
        store_schema=False,
    ) as writer:
        for batch in _batches(tables, side, index, rows):
            writer.write_batch(batch, row_group_size=tables.row_group_rows)


def _batches(tables: AsofTables, side: int, index: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Generate the rows of one file; its random stream depends on the seed and its place only."""
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence((tables.seed, side, index))))
    centres, widths = _bursts(tables.seed)
    weights = _weights(tables)
    names = pa.array([f"e{number:05d}" for number in range(tables.entities)])
    for start in range(0, rows, tables.row_group_rows):
        count = min(tables.row_group_rows, rows - start)
        columns: dict[str, Any] = {"ts": _times(random, centres, widths, count)}
        if tables.by is not None:
            columns["entity"] = pa.DictionaryArray.from_arrays(_codes(random, weights, count), names)
        columns["val"] = random.random(count)
        yield pa.RecordBatch.from_pydict(columns)


def _bursts(seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Centre and standard deviation of every burst, in milliseconds."""
    random = np.random.default_rng(np.random.SeedSequence((seed, 2)))
    centres = _EPOCH_MS + random.random(_BURSTS) * _SPAN_MS
    narrow, wide = _BURST_WIDTHS_MS
    widths = narrow * (wide / narrow) ** random.random(_BURSTS)
    return centres, widths


def _times(
    random: np.random.Generator, centres: npt.NDArray[np.float64], widths: npt.NDArray[np.float64], count: int
) -> npt.NDArray[np.int64]:
    """Draw times around the bursts, in no order."""
    burst = random.integers(0, _BURSTS, count, dtype=np.int32)
    offsets = random.standard_normal(count)
    offsets *= widths[burst]
    offsets += centres[burst]
    return offsets.astype(np.int64)


def _weights(tables: AsofTables) -> npt.NDArray[np.float64]:
    """Return each entity's share of the rows."""
    ranks = np.arange(1.0, tables.entities + 1)
    if tables.keys == "single":
        return np.where(ranks == 1.0, 1.0, 0.0)
    exponent = tables.zipf if tables.keys == "zipf" else 0.0
    shares: npt.NDArray[np.float64] = ranks**-exponent
    shares /= shares.sum()
    return shares


def _codes(random: np.random.Generator, weights: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int16]:
    """Draw entity numbers by weight: counts first, then a shuffle, which is much faster than a search per row."""
    numbers = np.arange(len(weights), dtype=np.int16)
    codes = np.repeat(numbers, random.multinomial(count, weights))
    random.shuffle(codes)
    return codes
