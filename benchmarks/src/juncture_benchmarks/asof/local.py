"""The as-of join in-process, by Juncture and other libraries, each as its documentation advises.

Every function opens the Parquet files of both tables and returns the joined table, whole and in memory, in the
engine's own form: ``ts``, ``entity``, ``val`` and the match as ``ts_right`` and ``val_right``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from juncture_benchmarks.asof.answer import found_answer
from juncture_benchmarks.datasets import AsofTables
from juncture_benchmarks.harness import Contestant


@dataclass(frozen=True)
class Task:
    """Inputs of a join: two folders of Parquet files, and the key column, if any."""

    left: str
    right: str
    by: str | None


def juncture(task: Task, algorithm: str = "auto") -> pa.Table:
    """Join with Juncture; `coalesce=False` keeps the right time."""
    import juncture as jn

    return jn.join_asof(task.left, task.right, on="ts", by=task.by, coalesce=False, algorithm=algorithm)


def polars(task: Task, engine: Literal["auto", "streaming"] = "auto") -> Any:
    """Join with Polars, which wants both sides sorted by time; ``auto`` is its streaming engine."""
    import polars as pl

    left, right = (pl.scan_parquet(f"{side}/*.parquet").sort("ts") for side in (task.left, task.right))
    # It cannot check the order within groups, and warns if it is asked to.
    joined = left.join_asof(right, on="ts", by=task.by, coalesce=False, check_sortedness=task.by is None)
    return joined.collect(engine=engine)


def polars_categorical(task: Task) -> Any:
    """Join with Polars on keys turned into categories, and back into strings, which saves it memory."""
    import polars as pl

    sides = (pl.scan_parquet(f"{side}/*.parquet") for side in (task.left, task.right))
    left, right = (side.with_columns(pl.col("entity").cast(pl.Categorical)).sort("ts") for side in sides)
    joined = left.join_asof(right, on="ts", by="entity", coalesce=False, check_sortedness=False)
    return joined.with_columns(pl.col("entity").cast(pl.String)).collect(engine="in-memory")


def duckdb(task: Task) -> pa.Table:
    """Join with DuckDB's ASOF JOIN."""
    import duckdb as database

    key = f"l.{task.by} = r.{task.by} AND" if task.by else ""
    query = f"""
        SELECT l.*, r.ts AS ts_right, r.val AS val_right
        FROM read_parquet('{task.left}/*.parquet') l
        ASOF LEFT JOIN read_parquet('{task.right}/*.parquet') r ON {key} l.ts >= r.ts
    """
    with database.connect() as connection:
        return connection.sql(query).to_arrow_table()


def daft(task: Task) -> Any:
    """Join with Daft; the right time gets a name of its own, since it is dropped otherwise."""
    import daft as library

    left = library.read_parquet(f"{task.left}/*.parquet")
    right = library.read_parquet(f"{task.right}/*.parquet").with_column_renamed("ts", "ts_right")
    joined = left.join_asof(right, left_on="ts", right_on="ts_right", by=task.by, strategy="backward", suffix="_right")
    return joined.collect()


def pandas(task: Task) -> Any:
    """Join with pandas on columns backed by Arrow, which are faster here than its own, strings above all."""
    import pandas as pd

    left, right = (
        pd.read_parquet(side, dtype_backend="pyarrow").sort_values("ts", ignore_index=True)
        for side in (task.left, task.right)
    )
    right = right.assign(ts_right=right["ts"])
    return pd.merge_asof(left, right, on="ts", by=task.by, suffixes=("", "_right"))


ENGINES: dict[str, tuple[str, str, Callable[..., Any], dict[str, Any]]] = {
    "juncture": ("Juncture", "juncture", juncture, {}),
    "polars": ("Polars", "polars", polars, {}),
    "polars-in-memory": ("Polars, in-memory engine", "polars", polars, {"engine": "in-memory"}),
    "polars-categorical": ("Polars, categories", "polars", polars_categorical, {}),
    "duckdb": ("DuckDB", "duckdb", duckdb, {}),
    "daft": ("Daft", "daft", daft, {}),
    "pandas": ("pandas", "pandas", pandas, {}),
}
"""Title, package, function and further arguments of each engine."""


def contestant(name: str, tables: AsofTables, ties: Path, tiny: AsofTables) -> Contestant:
    """Describe an engine that joins these tables, having warmed up on the tiny ones."""
    title, package, _, _ = ENGINES[name]
    return Contestant(
        name=name,
        title=title,
        package=package,
        ours=name == "juncture",
        trial=f"{__name__}:LocalTrial",
        arguments={
            "engine": name,
            "task": asdict(Task(str(tables.left), str(tables.right), tables.by)),
            "tiny": asdict(Task(str(tiny.left), str(tiny.right), tiny.by)),
            "ties": str(ties),
        },
    )


class LocalTrial:
    """One run of an engine."""

    def __init__(self, engine: str, task: dict[str, Any], tiny: dict[str, Any], ties: str) -> None:
        _, _, self._join, self._options = ENGINES[engine]
        self._task, self._tiny, self._ties = Task(**task), Task(**tiny), Path(ties)

    def warm_up(self) -> None:
        """Join the tiny tables."""
        self._join(self._tiny, **self._options)

    def run(self) -> Any:
        """Join the tables."""
        return self._join(self._task, **self._options)

    def answer(self, result: Any) -> dict[str, Any]:
        """Boil the result down."""
        return asdict(found_answer(_arrow(result), self._task.by, self._ties))


def _arrow(result: Any) -> pa.Table:
    """Turn any engine's table into an Arrow table."""
    if isinstance(result, pa.Table):
        return result
    if hasattr(result, "to_arrow"):
        return result.to_arrow()
    return pa.Table.from_pandas(result, preserve_index=False)
