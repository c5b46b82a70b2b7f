"""Joins of two streams in this process, with one thread each: Juncture, and both joins of DataFusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

import juncture as jn

__all__ = ["CONDITION", "Contestant", "Sides", "contestants", "juncture"]

CONDITION = "l.k = r.k AND l.a + 1 > r.a + 5 AND l.a + 3 < r.a + 10"


@dataclass(frozen=True)
class Sides:
    """Two tables, and how many rows come at once.

    Attributes
    ----------
    left, right
        The tables.
    batch_rows
        Number of rows per batch.
    folder
        Folder of ``left.csv`` and ``right.csv``.
    """

    left: pa.Table
    right: pa.Table
    batch_rows: int
    folder: Path

    def write(self) -> None:
        """Write both as CSV, which is all that DataFusion reads as a stream."""
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(self.left, self.folder / "left.csv", options)
        pyarrow.csv.write_csv(self.right, self.folder / "right.csv", options)


@dataclass(frozen=True)
class Contestant:
    """A contestant that joins two streams.

    Attributes
    ----------
    name, title
        Its short name, and its name in tables.
    join
        Makes the join of two sides, and returns what runs it, yielding record batches of both rows.
    scan
        The same for what only reads both sides, where that is part of the join; None where rows are in memory.
    is_quadratic
        Whether its time is quadratic in the rows. Then it runs once.
    """

    name: str
    title: str
    join: Callable[[Sides], Callable[[], Iterator[Any]]]
    scan: Callable[[Sides], Callable[[], Iterator[Any]]] | None = None
    is_quadratic: bool = False


def juncture(sides: Sides) -> Callable[[], Iterator[Any]]:
    """Return our join of both sides, batch by batch."""
    order = jn.Order("a", delay=1)
    join = jn.stream(sides.left.schema, sides.right.schema, jn.Where(CONDITION), left_order=order, right_order=order)
    left, right = (table.to_batches(sides.batch_rows) for table in (sides.left, sides.right))
    return partial(join.run, left, right)


def datafusion(sides: Sides, queries: tuple[str, ...], *, is_stream: bool) -> Callable[[], Iterator[Any]]:
    """Return what runs queries in DataFusion, with both sides as streams, or as tables."""
    import datafusion as library

    settings = {
        "datafusion.execution.batch_size": str(sides.batch_rows),
        "datafusion.execution.target_partitions": "1",
        "datafusion.optimizer.repartition_joins": "false",
    }
    context = library.SessionContext(library.SessionConfig(settings))
    kind, order = ("UNBOUNDED EXTERNAL", "WITH ORDER (a ASC)") if is_stream else ("EXTERNAL", "")
    for name, side in (("l", "left"), ("r", "right")):
        path = sides.folder / f"{side}.csv"
        context.sql(
            f"CREATE {kind} TABLE {name} (k BIGINT NOT NULL, a BIGINT NOT NULL) STORED AS CSV {order} "
            f"LOCATION '{path}' OPTIONS ('format.has_header' 'false')"
        )
    frames = [context.sql(query) for query in queries]

    def run() -> Iterator[Any]:
        for frame in frames:
            for batch in frame.execute_stream():
                yield batch.to_pyarrow()

    return run


_QUERY = (f"SELECT l.k, l.a, r.k AS k_right, r.a AS a_right FROM l JOIN r ON {CONDITION}",)
_SCANS = ("SELECT k, a FROM l", "SELECT k, a FROM r")


def contestants() -> list[Contestant]:
    """Return all that take part: DataFusion where it is installed."""
    ours = Contestant("juncture", "Juncture", juncture)
    if find_spec("datafusion") is None:
        return [ours]
    return [
        ours,
        Contestant(
            "symmetric",
            "DataFusion, SymmetricHashJoinExec",
            partial(datafusion, queries=_QUERY, is_stream=True),
            partial(datafusion, queries=_SCANS, is_stream=True),
        ),
        Contestant(
            "hash",
            "DataFusion, HashJoinExec",
            partial(datafusion, queries=_QUERY, is_stream=False),
            partial(datafusion, queries=_SCANS, is_stream=False),
            is_quadratic=True,
        ),
    ]
