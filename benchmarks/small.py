"""Joins of small, sorted and in-memory tables, beside Polars, DuckDB and pandas: medians of 15 calls in random turns.

    python benchmarks/small.py --result benchmarks/results/small.json
    python benchmarks/small.py --render

All contestants join the same Arrow tables in one process, after two calls that do not count. Each returns its own
library's table. Polars and pandas sort unsorted tables first, as their as-of joins require. An answer has to have the
rows of the others before its time counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import juncture as jn

CALLS = 15
WARM_UP = 2
RESULT = Path(__file__).parent / "results" / "small.json"
PAGE = Path(__file__).parents[1] / "docs" / "how-it-works" / "benchmarks" / "small.md"

Join = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One join.

    Attributes
    ----------
    name
        What is joined.
    contestants
        A call for each library, which returns its table.
    """

    name: str
    contestants: dict[str, Join]


def asof_case(rows: int, *, keys: int, is_sorted: bool) -> Case:
    """Return an as-of join of two tables of as many rows; without keys if there are none."""
    generator = np.random.default_rng(rows + keys)

    def table(value: str) -> pa.Table:
        times = generator.integers(0, 10 * rows, rows)
        columns: dict[str, Any] = {"ts": np.sort(times) if is_sorted else times, value: generator.random(rows)}
        return pa.table(columns | ({"key": generator.integers(0, keys, rows)} if keys else {}))

    left, right = table("left_value"), table("right_value")
    by = "key" if keys else None
    frames = left.to_pandas(), right.to_pandas()
    polars = pl.DataFrame(left), pl.DataFrame(right)

    def with_polars() -> pl.DataFrame:
        one, other = polars if is_sorted else (each.sort("ts") for each in polars)
        return one.join_asof(other, on="ts", by=by, check_sortedness=False)

    def with_pandas() -> pd.DataFrame:
        one, other = frames if is_sorted else (each.sort_values("ts") for each in frames)
        return pd.merge_asof(one, other, on="ts", by=by)

    connection = connected(left, right)
    condition = "l.ts >= r.ts" + (" AND l.key = r.key" if keys else "")
    order = "sorted" if is_sorted else "unsorted"
    prepared = jn.prepare(left.schema, right.schema, jn.Asof(on="ts", by=by))
    return Case(
        f"as-of, {rows:,} by {rows:,}, {order}, {f'{keys:,} keys' if keys else 'no key'}",
        {
            "Juncture": lambda: jn.join_asof(left, right, on="ts", by=by),
            "prepared": lambda: prepared(left, right),
            "Polars": with_polars,
            "pandas": with_pandas,
            "DuckDB": lambda: connection.sql(
                f"SELECT l.*, r.right_value FROM l ASOF LEFT JOIN r ON {condition}"
            ).to_arrow_table(),
        },
    )


def file_case(folder: Path, rows: int, *, keys: int) -> Case:
    """Return an as-of join of two unsorted Parquet files; without keys if there are none."""
    generator = np.random.default_rng(rows)
    paths = folder / f"left_{keys}.parquet", folder / f"right_{keys}.parquet"
    for path, value in zip(paths, ("left_value", "right_value"), strict=True):
        columns = {"ts": generator.integers(0, 10 * rows, rows), value: generator.random(rows)}
        if keys:
            columns["key"] = pa.array([f"key {number}" for number in generator.integers(0, keys, rows).tolist()])
        pq.write_table(pa.table(columns), path, row_group_size=1 << 17)
    by = "key" if keys else None

    def with_polars() -> pl.DataFrame:
        one, other = (pl.scan_parquet(path).sort("ts") for path in paths)
        return one.join_asof(other, on="ts", by=by, check_sortedness=False).collect()

    def with_pandas() -> pd.DataFrame:
        one, other = (pd.read_parquet(path).sort_values("ts") for path in paths)
        return pd.merge_asof(one, other, on="ts", by=by)

    connection = duckdb.connect()
    condition = "l.ts >= r.ts" + (" AND l.key = r.key" if keys else "")
    return Case(
        f"as-of, {rows:,} by {rows:,}, Parquet, {f'{keys:,} text keys' if keys else 'no key'}",
        {
            "Juncture": lambda: jn.join_asof(*paths, on="ts", by=by),
            "Polars": with_polars,
            "pandas": with_pandas,
            "DuckDB": lambda: connection.sql(
                f"SELECT l.*, r.right_value FROM '{paths[0]}' l ASOF LEFT JOIN '{paths[1]}' r ON {condition}"
            ).to_arrow_table(),
        },
    )


def equality_case(left_rows: int, right_rows: int, *, text: bool = False, duplicates: int = 1) -> Case:
    """Return an equality join, each of whose left rows has as many matches as there are duplicates of a key."""
    generator = np.random.default_rng(left_rows + right_rows)
    distinct = right_rows // duplicates

    def keys(numbers: Any) -> pa.Array:
        return pa.array([f"key {number}" for number in numbers.tolist()]) if text else pa.array(numbers)

    shuffled = generator.permutation(np.repeat(np.arange(distinct), duplicates))
    left = pa.table(
        {"key": keys(generator.integers(0, distinct, left_rows)), "left_value": generator.random(left_rows)}
    )
    right = pa.table({"key": keys(shuffled), "right_value": generator.random(len(shuffled))})
    polars, frames = (pl.DataFrame(left), pl.DataFrame(right)), (left.to_pandas(), right.to_pandas())
    connection = connected(left, right)
    kind = "text" if text else "integer"
    prepared = jn.prepare(left.schema, right.schema, jn.Equi(on="key"))
    return Case(
        f"equality, {left_rows:,} by {right_rows:,}, {kind} keys, {duplicates} each",
        {
            "Juncture": lambda: jn.join(left, right, on="key"),
            "prepared": lambda: prepared(left, right),
            "Polars": lambda: polars[0].join(polars[1], on="key", how="inner"),
            "pandas": lambda: frames[0].merge(frames[1], on="key"),
            "DuckDB": lambda: connection.sql(
                "SELECT l.*, r.right_value FROM l JOIN r ON l.key = r.key"
            ).to_arrow_table(),
        },
    )


def window_case(rows: int) -> Case:
    """Return a range join with about two matches for each row."""
    generator = np.random.default_rng(rows)
    left, right = (
        pa.table({f"{side}_ts": np.sort(generator.integers(0, 10 * rows, rows)), f"{side}_value": range(rows)})
        for side in ("left", "right")
    )
    polars = pl.DataFrame(left), pl.DataFrame(right)
    connection = connected(left, right)
    condition = (pl.col("right_ts") >= pl.col("left_ts") - 10, pl.col("right_ts") <= pl.col("left_ts") + 10)
    return Case(
        f"range, {rows:,} by {rows:,}",
        {
            "Juncture": lambda: jn.join_range(left, right, left_on="left_ts", right_on="right_ts", lower=-10, upper=10),
            "Polars": lambda: polars[0].join_where(polars[1], *condition),
            "DuckDB": lambda: connection.sql(
                "SELECT * FROM l JOIN r ON r.right_ts BETWEEN l.left_ts - 10 AND l.left_ts + 10"
            ).to_arrow_table(),
        },
    )


def overlap_case(rows: int) -> Case:
    """Return an overlap join with about two matches for each row."""
    generator = np.random.default_rng(rows)
    starts = [generator.integers(0, 20 * rows, rows) for _ in range(2)]
    left, right = (
        pa.table({f"{side}_start": start, f"{side}_end": start + generator.integers(1, 40, rows)})
        for side, start in zip(("left", "right"), starts, strict=True)
    )
    polars = pl.DataFrame(left), pl.DataFrame(right)
    connection = connected(left, right)
    condition = (pl.col("left_start") < pl.col("right_end"), pl.col("right_start") < pl.col("left_end"))
    intervals = {"left_interval": ("left_start", "left_end"), "right_interval": ("right_start", "right_end")}
    return Case(
        f"overlap, {rows:,} by {rows:,}",
        {
            "Juncture": lambda: jn.join_overlap(left, right, **intervals),
            "Polars": lambda: polars[0].join_where(polars[1], *condition),
            "DuckDB": lambda: connection.sql(
                "SELECT * FROM l JOIN r ON l.left_start < r.right_end AND r.right_start < l.left_end"
            ).to_arrow_table(),
        },
    )


def connected(left: pa.Table, right: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a connection to DuckDB that has both tables."""
    connection = duckdb.connect()
    for name, table in (("l", left), ("r", right)):
        connection.register(f"given_{name}", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
    return connection


def cases(folder: Path) -> Iterator[Case]:
    """Yield all joins; files are written to a folder."""
    yield asof_case(1_000, keys=0, is_sorted=True)
    yield asof_case(1_000, keys=10, is_sorted=True)
    yield asof_case(1_000, keys=0, is_sorted=False)
    yield equality_case(1_000, 1_000)
    yield window_case(1_000)
    yield overlap_case(1_000)
    for rows in (100_000, 1_000_000, 5_000_000):
        yield asof_case(rows, keys=0, is_sorted=True)
        yield asof_case(rows, keys=rows // 1_000, is_sorted=True)
        yield asof_case(rows, keys=0, is_sorted=False)
    for keys in (0, 1_000):
        yield file_case(folder, 1_000_000, keys=keys)
    for text in (False, True):
        yield equality_case(100_000, 10_000, text=text)
        yield equality_case(1_000_000, 100_000, text=text)
        yield equality_case(1_000_000, 1_000_000, text=text)
        yield equality_case(1_000_000, 1_000_000, text=text, duplicates=4)


def measured(case: Case) -> dict[str, Any]:
    """Return the median milliseconds of each library, after its answer has been compared with the others'."""
    times: dict[str, list[float]] = {name: [] for name in case.contestants}
    for name, join in case.contestants.items():
        answers = [rows_and_sum(join()) for _ in range(WARM_UP)]
        reference = rows_and_sum(case.contestants["DuckDB"]())
        if not np.allclose(answers[-1], reference, rtol=1e-9):
            raise AssertionError(f"{case.name}: {name} gives {answers[-1]}, and DuckDB {reference}")
    names, generator = list(case.contestants), np.random.default_rng(CALLS)
    for _ in range(CALLS):
        # A call is slower with caches that another library filled, so no library always follows the same one.
        for name in generator.permutation(names):
            start = time.perf_counter()
            case.contestants[name]()
            times[name].append(time.perf_counter() - start)
    medians = {name: round(1e3 * statistics.median(each), 3) for name, each in times.items()}
    return {"case": case.name, "milliseconds": medians, "load": round(os.getloadavg()[0], 2)}


def rows_and_sum(answer: Any) -> tuple[int, float]:
    """Return how many rows an answer has, and the sum of its right values: libraries break ties differently."""
    table = pa.table(answer) if not isinstance(answer, pd.DataFrame) else pa.Table.from_pandas(answer)
    name = next(each for each in table.column_names if each in ("right_value", "right_start"))
    column = table[name]
    return table.num_rows - column.null_count, 0.0 if name == "right_value" and "ts" in table.column_names else float(
        pa.compute.sum(column).as_py() or 0
    )


def page(results: list[dict[str, Any]]) -> str:
    """Return the page of the results as Markdown."""
    names = ("Juncture", "prepared", "Polars", "DuckDB", "pandas")
    lines = [
        "# Small and sorted tables, measured",
        "",
        "Median of 15 calls in milliseconds, in one process, in random turns, so that each finds caches that others",
        "filled. Lower is better. Tables are in memory, unless they are Parquet.",
        "",
        f"| join | {' | '.join(names)} | Juncture ÷ best peer |",
        f"| --- |{' ---: |' * (len(names) + 1)}",
    ]
    for result in results:
        times = result["milliseconds"]
        best = min(value for name, value in times.items() if name not in names[:2])
        cells = [f"{times[name]:.2f}" if name in times else "" for name in names]
        lines.append(f"| {result['case']} | {' | '.join(cells)} | {times['Juncture'] / best:.2f} |")
    loads = [result["load"] for result in results]
    lines += [
        "",
        "*prepared* is `jn.prepare`, which validates a join once. Answers are compared before a time counts. Polars",
        "and pandas sort unsorted tables first, as their as-of joins require. `python benchmarks/small.py` runs the",
        "benchmark.",
        "",
        f"Two cores, system load {min(loads)} to {max(loads)}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark, or render its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--result", type=Path, default=RESULT, help="the file of the results")
    parser.add_argument("--only", default="", help="run the joins whose names contain this")
    parser.add_argument("--render", action="store_true", help="write the page from the stored results")
    arguments = parser.parse_args()
    if not arguments.render:
        results = []
        with TemporaryDirectory() as folder:
            for case in cases(Path(folder)):
                if arguments.only in case.name:
                    results.append(measured(case))
                    print(json.dumps(results[-1]), flush=True)
        if not arguments.only:
            arguments.result.write_text(json.dumps(results, indent=1) + "\n")
        return
    PAGE.write_text(page(json.loads(arguments.result.read_text())))


if __name__ == "__main__":
    main()
