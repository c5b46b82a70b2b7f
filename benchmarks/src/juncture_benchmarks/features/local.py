"""Ten joins to one spine in-process: by Juncture in one pass and one after the other, and by other libraries.

Every function opens the Parquet files of all tables, and returns the answer whole and in memory, in the engine's own
form.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from juncture_benchmarks.engines import Engines, engine_contestant
from juncture_benchmarks.features.task import TABLES, WINDOW, Table, Task, found_answer
from juncture_benchmarks.harness import Contestant

__all__ = ["JOINING", "LocalTrial", "contestant", "spec_of", "tables_of"]


def spec_of(table: Table) -> Any:
    """Return how a table is joined."""
    import juncture as jn

    if table.kind == "asof":
        return jn.Asof(on="ts", by=table.key)
    if table.kind == "lookup":
        return jn.Equi(on=table.key, how="left")
    return jn.Range(on="ts", by=table.key, lower=-WINDOW, upper=0, agg={"*": "count", "value": "sum"})


def names_of(table: Table) -> dict[str, str]:
    """Return the columns that a table adds, and what they are called in the answer."""
    if table.kind == "window":
        return {"count": f"{table.name}_count", "value_sum": f"{table.name}_sum"}
    return {"value": table.name}


def tables_of(task: Task) -> dict[str, Any]:
    """Return the tables as one join takes them."""
    import juncture as jn

    return {each.name: jn.Right(task.path(each.name), spec_of(each), names_of(each)) for each in TABLES}


def juncture(task: Task) -> pa.Table:
    """Join all tables in one pass."""
    import juncture as jn

    return jn.join_many(task.path("spine"), tables_of(task))


def juncture_chain(task: Task) -> pa.Table:
    """Join one table after the other."""
    import juncture as jn

    joined: Any = task.path("spine")
    for each in TABLES:
        one = jn.plan(joined, task.path(each.name), spec_of(each)).execute()
        names = names_of(each)
        joined = one.rename_columns([names.get(name, name) for name in one.column_names])
    return joined


def polars(task: Task) -> Any:
    """Join with Polars: sorted as-of joins, and running totals at both ends of windows."""
    import polars as pl

    joined = pl.scan_parquet(task.path("spine")).with_row_index("row").sort("ts")
    for each in TABLES:
        right = pl.scan_parquet(task.path(each.name))
        if each.kind == "lookup":
            joined = joined.join(right.rename({"value": each.name}), on=each.key, how="left", maintain_order="left")
            continue
        right = right.sort("ts")
        if each.kind == "asof":
            joined = joined.join_asof(right.rename({"value": each.name}), on="ts", by=each.key, coalesce=True)
            continue
        running = right.select(
            "ts",
            each.key,
            pl.int_range(1, pl.len() + 1).over(each.key).alias("n"),
            pl.col("value").cum_sum().over(each.key).alias("v"),
        )
        joined = joined.join_asof(running, on="ts", by=each.key)
        earlier = running.rename({"n": "n0", "v": "v0", "ts": "ts0"})
        # Times are whole, so what is before the window is at its start less one, at the latest.
        joined = joined.with_columns(start=pl.col("ts") - (WINDOW + 1)).join_asof(
            earlier, left_on="start", right_on="ts0", by=each.key
        )
        count = pl.col("n").fill_null(0) - pl.col("n0").fill_null(0)
        joined = joined.with_columns(
            count.alias(f"{each.name}_count"),
            pl.when(count > 0).then(pl.col("v") - pl.col("v0").fill_null(0)).alias(f"{each.name}_sum"),
        ).drop("n", "v", "n0", "v0", "ts0", "start", strict=False)
    return joined.sort("row").drop("row").collect()


def duckdb(task: Task) -> pa.Table:
    """Join with DuckDB, in the same way."""
    import duckdb as database

    joins, shown = [], ["s.*"]
    for each in TABLES:
        name, key, path = each.name, each.key, task.path(each.name)
        if each.kind == "lookup":
            joins.append(f"LEFT JOIN '{path}' {name} ON s.{key} = {name}.{key}")
            shown.append(f"{name}.value AS {name}")
            continue
        if each.kind == "asof":
            joins.append(f"ASOF LEFT JOIN '{path}' {name} ON s.{key} = {name}.{key} AND s.ts >= {name}.ts")
            shown.append(f"{name}.value AS {name}")
            continue
        over = f"OVER (PARTITION BY {key} ORDER BY ts ROWS UNBOUNDED PRECEDING)"
        running = f"(SELECT ts, {key}, count(*) {over} AS n, sum(value) {over} AS v FROM '{path}')"
        for side, moved in (("a", "s.ts"), ("b", f"s.ts - {WINDOW + 1}")):
            joins.append(
                f"ASOF LEFT JOIN {running} {name}{side} ON s.{key} = {name}{side}.{key} AND {moved} >= {name}{side}.ts"
            )
        count = f"coalesce({name}a.n, 0) - coalesce({name}b.n, 0)"
        shown.append(f"{count} AS {name}_count")
        shown.append(f"CASE WHEN {count} > 0 THEN {name}a.v - coalesce({name}b.v, 0) END AS {name}_sum")
    query = f"SELECT {', '.join(shown)} FROM '{task.path('spine')}' s {' '.join(joins)}"
    with database.connect() as connection:
        return connection.sql(query).to_arrow_table()


JOINING: Engines = {
    "juncture": ("Juncture, one pass", "juncture", juncture),
    "juncture-chain": ("Juncture, one join after the other", "juncture", juncture_chain),
    "polars": ("Polars", "polars", polars),
    "duckdb": ("DuckDB", "duckdb", duckdb),
}
"""Title, package and function of each."""


def contestant(name: str, task: Task, tiny: Task) -> Contestant:
    """Describe an engine that does the joins, having warmed up on tiny tables."""
    return engine_contestant(JOINING, name, f"{__name__}:LocalTrial", task, tiny)


class LocalTrial:
    """One run of an engine."""

    def __init__(self, engine: str, task: dict[str, Any], tiny: dict[str, Any]) -> None:
        self._work = JOINING[engine][2]
        self._task, self._tiny = Task(**task), Task(**tiny)

    def warm_up(self) -> None:
        """Join the tiny tables."""
        self._work(self._tiny)

    def run(self) -> Any:
        """Join the tables."""
        return self._work(self._task)

    def answer(self, result: Any) -> dict[str, Any]:
        """Boil the result down."""
        return asdict(found_answer(result if isinstance(result, pa.Table) else result.to_arrow()))
