"""Range and overlap joins in-process, by Juncture and other libraries, each as its documentation advises.

Every function opens the Parquet files of both tables and returns the result, whole and in memory, in the engine's own
form: the left columns, then the right ones with ``_right``; or ``id``, ``count``, ``mean`` and ``max``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from juncture_benchmarks.engines import Engines, engine_contestant
from juncture_benchmarks.harness import Contestant
from juncture_benchmarks.pairs import Answer, found_pairs
from juncture_benchmarks.range.answer import AGGREGATES, found_aggregates
from juncture_benchmarks.range.task import Task

__all__ = ["AGGREGATING", "JOINING", "LocalTrial", "contestant"]


def juncture(task: Task) -> pa.Table:
    """Join with Juncture."""
    import juncture as jn

    return jn.plan(task.left, task.right, task.spec()).execute()


def duckdb(task: Task) -> pa.Table:
    """Join with DuckDB, which takes its IEJoin for two inequalities."""
    return _duckdb(f"SELECT {task.shown()} FROM {_from(task)}")


def polars(task: Task) -> Any:
    """Join with Polars' `join_where`."""
    import polars as pl

    left, right = (pl.scan_parquet(f"{side}/*.parquet") for side in (task.left, task.right))
    if task.shape == "intervals":
        conditions = [pl.col("start") < pl.col("stop_right"), pl.col("start_right") < pl.col("stop")]
    else:
        lower = pl.col("ts") + task.lower
        after = pl.col("ts_right") > lower if task.closed == "right" else pl.col("ts_right") >= lower
        conditions = [after, pl.col("ts_right") <= pl.col("ts") + task.upper]
    return left.join_where(right, *conditions).collect()


def numpy(task: Task) -> pa.Table:
    """Join with NumPy: sort both sides, search one for both ends of each window, and write out what is between."""
    left, right = (pq.read_table(side, partitioning=None).combine_chunks() for side in (task.left, task.right))
    ours, theirs = left["ts"].to_numpy(), right["ts"].to_numpy()
    # Searches in order stay close to each other in memory, which makes them several times faster.
    our_order, their_order = np.argsort(ours), np.argsort(theirs)
    ours, theirs = ours[our_order], theirs[their_order]
    first = np.searchsorted(theirs, ours + task.lower, "right" if task.closed == "right" else "left")
    end = np.searchsorted(theirs, ours + task.upper, "right")
    lefts = np.repeat(our_order, end - first)
    rights = their_order[np.arange(len(lefts)) + np.repeat(end - np.cumsum(end - first), end - first)]
    names = [*left.column_names, *(f"{name}_right" for name in right.column_names)]
    columns = [
        table[name].to_numpy()[rows] for table, rows in ((left, lefts), (right, rights)) for name in left.schema.names
    ]
    return pa.table(columns, names=names)


def juncture_agg(task: Task) -> pa.Table:
    """Aggregate with Juncture as it joins."""
    import juncture as jn

    joined = jn.plan(task.left, task.right, task.spec({task.value: AGGREGATES})).execute()
    return joined.rename_columns({f"{task.value}_{name}": name for name in AGGREGATES})


def juncture_group(task: Task) -> pa.Table:
    """Join with Juncture, then group with Arrow."""
    grouped = juncture(task).group_by("id").aggregate([(f"{task.value}_right", name) for name in AGGREGATES])
    return grouped.rename_columns({f"{task.value}_right_{name}": name for name in AGGREGATES})


def duckdb_group(task: Task) -> pa.Table:
    """Join and group with DuckDB."""
    functions = f"count(*) AS count, avg(r.{task.value}) AS mean, max(r.{task.value}) AS max"
    return _duckdb(f"SELECT l.id, {functions} FROM {_from(task)} GROUP BY l.id")


JOINING: Engines = {
    "juncture": ("Juncture", "juncture", juncture),
    "duckdb": ("DuckDB", "duckdb", duckdb),
    "polars": ("Polars, join_where", "polars", polars),
    "numpy": ("NumPy, sort and search", "numpy", numpy),
}
"""Title, package and function of each engine that joins."""

AGGREGATING: Engines = {
    "juncture-agg": ("Juncture, agg=", "juncture", juncture_agg),
    "juncture-group": ("Juncture, join then group", "juncture", juncture_group),
    "duckdb-group": ("DuckDB, join and group", "duckdb", duckdb_group),
}
"""The same of each that aggregates."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe an engine that does a join, having warmed up on a tiny one."""
    return engine_contestant({**JOINING, **AGGREGATING}, name, f"{__name__}:LocalTrial", task, tiny)


class LocalTrial:
    """One run of an engine."""

    def __init__(self, engine: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._aggregates = engine in AGGREGATING
        self._work = {**JOINING, **AGGREGATING}[engine][2]
        self._task, self._tiny = Task(**task), Task(**tiny)

    def warm_up(self) -> None:
        """Do the tiny join."""
        self._work(self._tiny)

    def run(self) -> Any:
        """Do the join."""
        return self._work(self._task)

    def answer(self, result: Any) -> dict[str, Any]:
        """Boil the result down."""
        table = result if isinstance(result, pa.Table) else result.to_arrow()
        return asdict(_aggregates(table) if self._aggregates else found_pairs(self._task.joined_ids, table))


def _aggregates(table: pa.Table) -> Answer:
    ids, count, mean, most = (table[name].fill_null(0).to_numpy() for name in ("id", *AGGREGATES))
    return found_aggregates(ids, count.astype(np.int64), mean, most)


def _duckdb(query: str) -> pa.Table:
    import duckdb as database

    with database.connect() as connection:
        return connection.sql(query).to_arrow_table()


def _from(task: Task) -> str:
    left, right = (f"read_parquet('{side}/*.parquet')" for side in (task.left, task.right))
    return f"{left} l JOIN {right} r ON {task.condition()}"
