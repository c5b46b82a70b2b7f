"""Generated tables for range and overlap joins: events and measurements, points, intervals; even or skewed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.errors import SpecError
from juncture_benchmarks.datasets.folders import TablePair, check_counts
from juncture_benchmarks.datasets.numbered import Ints, Layout, Random, check_share, write_numbered

__all__ = ["VALUE_BITS", "RangeTables", "write_events", "write_intervals", "write_points"]

VALUE_BITS = 20
"""Values are whole multiples of two to the power of minus this, so that sums of them are exact in any order."""

_FORMAT = 1
_ROWS_PER_FILE = 5_000_000
_ROW_GROUP_ROWS = 250_000

_LATEST_US = 1_473_694_000_000_000
_STEP_US = 10_000_000
_LATENESS_US = 5_000_000
_EVENT_TYPES = ("LoginEvent", "PurchaseEvent", "DetailsUpdateEvent")
_TIME = pa.timestamp("us", tz="UTC")

_SCHEMAS: dict[str, tuple[pa.Schema, pa.Schema]] = {
    "events": (
        pa.schema({"eid": pa.int64(), "eventTime": _TIME, "eventType": pa.string()}),
        pa.schema({"mid": pa.int64(), "measurementTime": _TIME, "value": pa.float64()}),
    ),
    "points": (pa.schema({"ts": pa.int64(), "id": pa.int64(), "val": pa.float64()}),) * 2,
    "intervals": (pa.schema({"start": pa.int64(), "stop": pa.int64(), "id": pa.int64(), "val": pa.float64()}),) * 2,
}

Shape = Literal["events", "points", "intervals"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeTables(TablePair):
    """Folder and properties of a generated pair of tables.

    Attributes
    ----------
    shape
        ``"events"``, ``"points"`` or ``"intervals"``: which function made them.
    settings
        Further arguments.
    """

    shape: Shape
    settings: Mapping[str, int | float]

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the files, as plain data."""
        return {
            "format": _FORMAT,
            "shape": self.shape,
            "left_rows": self.left_rows,
            "right_rows": self.right_rows,
            "seed": self.seed,
            **self.settings,
        }


def write_events(
    folder: str | Path, *, left_rows: int, right_rows: int, seed: int = 0, threads: int | None = None
) -> RangeTables:
    """Write events and measurements to join by time, as Parquet.

    The left table has ``eid`` (int64), ``eventTime`` (timestamp in UTC, microseconds) and ``eventType`` (string): an
    event every ten seconds, back from 2016-09-12 15:26:40. The right one has ``mid``, ``measurementTime`` and
    ``value`` (float64 in [0, 1)): a measurement for every ten seconds, each up to five seconds late. Both are in
    order of their ids, from the latest to the earliest.

    Parameters
    ----------
    folder
        The folder. If an earlier call with the same arguments finished it, it is reused.
    left_rows, right_rows
        Rows of each table.
    seed
        The same seed gives the same rows, whatever the number of threads (under one version of NumPy).
    threads
        Files written at once; by default one per core.

    Returns
    -------
    RangeTables
        The folders of both tables.

    Raises
    ------
    SpecError
        If an argument is out of its range.
    DataError
        If the folder exists and holds anything else.

    Notes
    -----
    The tables of "Efficient Range-Joins With Spark 2.0", there made from the present time and without a seed.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> from juncture_benchmarks.datasets import write_events
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_events(f"{parent}/tiny", left_rows=1_000, right_rows=1_000)
    ...     pq.read_table(tables.left).num_rows
    1000
    """
    tables = RangeTables(
        folder=Path(folder), shape="events", left_rows=left_rows, right_rows=right_rows, seed=seed, settings={}
    )
    return _write(tables, "write_events", _events, threads)


def write_points(
    folder: str | Path,
    *,
    left_rows: int,
    right_rows: int,
    span: int,
    stretch: int = 0,
    hot_share: float = 0.0,
    seed: int = 0,
    threads: int | None = None,
) -> RangeTables:
    """Write two tables of points on a line to join by distance, as Parquet.

    Both tables have ``ts`` (int64, uniform in [0, span)), ``id`` (int64, the number of the row) and ``val`` (float64
    in [0, 1)). Rows are in no order.

    With a `hot_share`, that share of both tables lies in one stretch in the middle: left rows in its first half, right
    rows in its second. So all of them share a bin as wide as the stretch, and yet no hot right row is at or before a
    hot left one. The other left rows keep away from there as well, so a look-back of at most `stretch` meets none of
    the hot right rows: the matches are those with the other right rows, about as many for any left row.

    Parameters
    ----------
    folder, left_rows, right_rows, seed, threads
        As for `write_events`.
    span
        Length of the line.
    stretch
        Length of the hot stretch, if any.
    hot_share
        The share of rows in it.

    Returns
    -------
    RangeTables
        The folders of both tables.

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
    >>> from juncture_benchmarks.datasets import write_points
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_points(f"{parent}/tiny", left_rows=10, right_rows=1_000, span=100_000)
    ...     pq.read_table(tables.right).column_names
    ['ts', 'id', 'val']
    """
    check_counts({"stretch": stretch}, least=0)
    if span <= 3 * stretch or span < 1:
        raise SpecError(f"span must be at least 1 and more than three times the stretch, but is {span}")
    check_share("hot_share", hot_share)
    if hot_share and stretch < 2:
        raise SpecError(f"hot_share={hot_share} needs a stretch of at least 2, but stretch is {stretch}")
    tables = RangeTables(
        folder=Path(folder),
        shape="points",
        left_rows=left_rows,
        right_rows=right_rows,
        seed=seed,
        settings={"span": span, "stretch": stretch, "hot_share": float(hot_share)},
    )
    return _write(tables, "write_points", _points, threads)


def write_intervals(
    folder: str | Path,
    *,
    left_rows: int,
    right_rows: int,
    span: int,
    length: int,
    long_share: float = 0.0,
    seed: int = 0,
    threads: int | None = None,
) -> RangeTables:
    """Write two tables of intervals on a line to join by overlap, as Parquet.

    Both tables have ``start`` (int64, uniform in [0, span)), ``stop`` (int64, after the start), ``id`` (int64, the
    number of the row) and ``val`` (float64 in [0, 1)). Rows are in no order. A left interval overlaps about
    ``2 * length * right_rows / span`` right ones.

    Parameters
    ----------
    folder, left_rows, right_rows, seed, threads
        As for `write_events`.
    span
        Length of the line.
    length
        The mean length of the intervals; each has from half to one and a half of it.
    long_share
        The share of intervals that cover the whole range of values, evenly among the rows of both tables.

    Returns
    -------
    RangeTables
        The folders of both tables.

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
    >>> from juncture_benchmarks.datasets import write_intervals
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     tables = write_intervals(f"{parent}/tiny", left_rows=10, right_rows=1_000, span=100_000, length=50)
    ...     pq.read_table(tables.right).column_names
    ['start', 'stop', 'id', 'val']
    """
    check_counts({"span": span, "length": length}, least=1)
    check_share("long_share", long_share)
    tables = RangeTables(
        folder=Path(folder),
        shape="intervals",
        left_rows=left_rows,
        right_rows=right_rows,
        seed=seed,
        settings={"span": span, "length": length, "long_share": float(long_share)},
    )
    return _write(tables, "write_intervals", _intervals, threads)


def _write(
    tables: RangeTables,
    maker: str,
    columns: Callable[[RangeTables, int, Random, Ints], list[Any]],
    threads: int | None,
) -> RangeTables:
    """Write both tables, whose columns a function makes from the numbers of rows."""
    layout = Layout(
        schemas=_SCHEMAS[tables.shape],
        rows_per_file=_ROWS_PER_FILE,
        row_group_rows=_ROW_GROUP_ROWS,
        coded=("eventType",),
    )
    write_numbered(tables, tables.manifest(), layout, partial(columns, tables), maker=maker, threads=threads)
    return tables


def _events(_: RangeTables, side: int, random: Random, numbers: Ints) -> list[Any]:
    times = _LATEST_US - _STEP_US * numbers
    if side == 0:
        kinds = pa.DictionaryArray.from_arrays(random.integers(0, 3, len(numbers), dtype=np.int8), list(_EVENT_TYPES))
        return [numbers, times, kinds.cast(pa.string())]
    return [numbers, times + random.integers(0, _LATENESS_US, len(numbers)), _values(random, len(numbers))]


def _points(tables: RangeTables, side: int, random: Random, numbers: Ints) -> list[Any]:
    span, stretch = int(tables.settings["span"]), int(tables.settings["stretch"])
    share, rows = tables.settings["hot_share"], len(numbers)
    if not share:
        return [random.integers(0, span, rows), numbers, _values(random, rows)]
    middle = span // 2
    half = stretch // 2
    if side == 0:
        # Here a look-back of the stretch could meet hot right rows.
        elsewhere = random.integers(0, span - 2 * stretch, rows)
        elsewhere += np.where(elsewhere >= middle, 2 * stretch, 0)
        hot = middle + random.integers(0, half, rows)
    else:
        elsewhere = random.integers(0, span, rows)
        hot = middle + half + random.integers(0, stretch - half, rows)
    return [np.where(random.random(rows) < share, hot, elsewhere), numbers, _values(random, rows)]


def _intervals(tables: RangeTables, _: int, random: Random, numbers: Ints) -> list[Any]:
    span, length = int(tables.settings["span"]), int(tables.settings["length"])
    share, rows = tables.settings["long_share"], len(numbers)
    starts = random.integers(0, span, rows)
    stops = starts + np.maximum(random.integers(length // 2, length + length // 2 + 1, rows), 1)
    if share:
        # The rows in which the number of long ones so far goes up.
        long = np.floor((numbers + 1) * share) > np.floor(numbers * share)
        starts[long], stops[long] = 0, span + 2 * length
    return [starts, stops, numbers, _values(random, rows)]


def _values(random: Random, rows: int) -> npt.NDArray[np.float64]:
    return np.asarray(random.integers(0, 2**VALUE_BITS, rows) / 2.0**VALUE_BITS, dtype=np.float64)
