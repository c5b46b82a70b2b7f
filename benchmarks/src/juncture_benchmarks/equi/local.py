"""Equality joins in-process, by Juncture and other libraries, each as its documentation advises.

Every function opens the Parquet files of both tables. It returns the answer whole and in memory, in the engine's own
form: the left columns, then the right ones with ``_right``. With a memory limit it yields batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from juncture_benchmarks.engines import Engines, engine_contestant
from juncture_benchmarks.equi.task import IDS, Task
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer, found_pairs

__all__ = ["JOINING", "LIMITED", "LocalTrial", "contestant"]

_QUERY = (
    "SELECT l.*, r.id AS id_right, r.val AS val_right "
    "FROM read_parquet('{left}/*.parquet') l JOIN read_parquet('{right}/*.parquet') r USING (key)"
)


def juncture(task: Task) -> pa.Table:
    """Join with Juncture."""
    import juncture as jn

    return jn.join(task.left, task.right, on="key")


def juncture_any_order(task: Task) -> pa.Table:
    """Join with Juncture, in no order."""
    import juncture as jn

    return jn.join(task.left, task.right, on="key", maintain_order=None)


def duckdb(task: Task) -> pa.Table:
    """Join with DuckDB."""
    import duckdb as database

    with database.connect() as connection:
        return connection.sql(_QUERY.format(left=task.left, right=task.right)).to_arrow_table()


def polars(task: Task) -> Any:
    """Join with Polars."""
    import polars as pl

    left, right = (pl.scan_parquet(f"{side}/*.parquet") for side in (task.left, task.right))
    return left.join(right, on="key").collect()


def juncture_limited(task: Task) -> Iterator[pa.RecordBatch]:
    """Join with Juncture, within some memory."""
    import juncture as jn

    yield from jn.plan(task.left, task.right, jn.Equi(on="key"), memory=task.memory_bytes).batches()


def juncture_any_order_limited(task: Task) -> Iterator[pa.RecordBatch]:
    """Join with Juncture, within some memory and in no order."""
    import juncture as jn

    spec = jn.Equi(on="key")
    yield from jn.plan(task.left, task.right, spec, memory=task.memory_bytes, maintain_order=None).batches()


def duckdb_limited(task: Task) -> Iterator[pa.RecordBatch]:
    """Join with DuckDB, within some memory and in no order."""
    import duckdb as database

    with database.connect() as connection:
        connection.execute(f"SET memory_limit = '{task.memory_bytes}B'")
        connection.execute("SET preserve_insertion_order = false")
        yield from connection.sql(_QUERY.format(left=task.left, right=task.right)).to_arrow_reader(1_000_000)


def polars_streaming(task: Task) -> Iterator[pa.RecordBatch]:
    """Join with Polars' streaming engine, which has no memory limit."""
    import polars as pl

    left, right = (pl.scan_parquet(f"{side}/*.parquet") for side in (task.left, task.right))
    for frame in left.join(right, on="key").collect_batches(engine="streaming"):
        yield from frame.to_arrow().to_batches()


JOINING: Engines = {
    "juncture": ("Juncture", "juncture", juncture),
    "juncture-any-order": ("Juncture, in any order", "juncture", juncture_any_order),
    "duckdb": ("DuckDB", "duckdb", duckdb),
    "polars": ("Polars", "polars", polars),
}
"""Title, package and function of each engine that joins in memory."""

LIMITED: Engines = {
    "juncture-limited": ("Juncture, memory=", "juncture", juncture_limited),
    "juncture-any-order-limited": ("Juncture, memory=, in any order", "juncture", juncture_any_order_limited),
    "duckdb-limited": ("DuckDB, memory_limit", "duckdb", duckdb_limited),
    "polars-streaming": ("Polars, streaming, without a limit", "polars", polars_streaming),
}
"""The same of each whose rows go by as they come, within a limit where it can be set."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe an engine that does a join, having warmed up on a tiny one."""
    return engine_contestant({**JOINING, **LIMITED}, name, f"{__name__}:LocalTrial", task, tiny)


class LocalTrial:
    """One run of an engine."""

    def __init__(self, engine: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._is_limited = engine in LIMITED
        self._work = {**JOINING, **LIMITED}[engine][2]
        self._task, self._tiny = Task(**task), Task(**tiny)

    def warm_up(self) -> None:
        """Do the tiny join."""
        self._join(self._tiny)

    def run(self) -> Any:
        """Do the join."""
        return self._join(self._task)

    def answer(self, result: Any) -> dict[str, Any]:
        """Boil the result down."""
        if isinstance(result, Answer):
            return asdict(result)
        return asdict(found_pairs(IDS, result if isinstance(result, pa.Table) else result.to_arrow()))

    def _join(self, task: Task) -> Any:
        """Join; what does not fit in memory is boiled down as it goes by, in the time that is measured."""
        result = self._work(task)
        return found_pairs(IDS, result) if self._is_limited else result
