"""All queries of TPC-H and TPC-DS as views: whether each is accepted and equals DuckDB while its tables change.

The tables and queries are those of DuckDB's extensions, which come for one version of it, in an environment of its own:

    python -m venv tpc && tpc/bin/pip install duckdb==1.5.5 duckdb-extension-tpch duckdb-extension-tpcds
    tpc/bin/python benchmarks/view_tpc.py --generate tables --scale 0.01
    python benchmarks/view_tpc.py --tables tables --epochs 12 --result benchmarks/results/view_tpc.json

An epoch deletes, updates and inserts random rows of each table that a query reads. The answer has to be DuckDB's after
each epoch. Times are of the processor.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}
MOST_ROWS = 60
"""Rows of a table that an epoch deletes, at most."""


def generate(folder: Path, scale: str) -> None:
    """Write the tables and the queries of both suites, by the extensions of DuckDB that are installed."""
    duckdb = importlib.import_module("duckdb")
    for suite, function in SUITES.items():
        module = importlib.import_module(f"duckdb_extension_{suite}")
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        connection.execute(f"LOAD '{next(Path(module.__file__ or '').parent.rglob('*_extension'))}'")
        connection.execute(f"CALL {function}(sf={scale})")
        (folder / suite).mkdir(parents=True, exist_ok=True)
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {table} TO '{folder / suite / table}.parquet' (FORMAT parquet)")
        queries = connection.execute(f"SELECT query FROM {suite}_queries() ORDER BY query_nr").fetchall()
        (folder / f"{suite}.json").write_text(json.dumps([query for (query,) in queries]))


def changed(table: Any, chance: Any) -> tuple[Any, Any]:
    """Return a table after an epoch, and the changes: deletes, updates of a column, and copies of rows."""
    import numpy as np
    import pyarrow as pa

    rows = table.num_rows
    count = max(1, min(rows // 4, int(chance.integers(1, MOST_ROWS))))
    gone = chance.choice(rows, count, replace=False)
    remains = np.ones(rows, np.bool_)
    remains[gone] = False
    deleted = table.take(pa.array(gone))
    column = int(chance.integers(0, table.num_columns))
    updated = deleted.slice(0, count // 2)
    values = table.column(column).take(pa.array(chance.choice(rows, updated.num_rows)))
    updated = updated.set_column(column, table.schema.field(column), values)
    inserted = table.take(pa.array(chance.choice(rows, count // 3 + 1)))
    after = pa.concat_tables([table.filter(pa.array(remains)), updated, inserted]).combine_chunks()
    weights = pa.array([-1] * count + [1] * (updated.num_rows + inserted.num_rows), pa.int64())
    return after, pa.concat_tables([deleted, updated, inserted]).append_column("_weight", weights)


def rows_of(table: Any) -> Counter[tuple[str, ...]]:
    """Return the rows of an answer, with floats to eight digits."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value + 0.0:.8g}"
        return str(value.normalize() + 0) if isinstance(value, Decimal) else str(value)

    columns = [map(cell, column.to_pylist()) for column in table.columns]
    return Counter(zip(*columns, strict=True))


def followed(query: str, tables: dict[str, Any], connection: Any, epochs: int, seed: int) -> dict[str, Any]:
    """Follow a view of a query, and return its times, or why it is not DuckDB's answer."""
    import duckdb
    import numpy as np

    import juncture as jn

    chance = np.random.default_rng(seed)
    now, times = dict(tables), [time.process_time()]
    try:
        view = jn.view(None, query, sources={name: table.schema for name, table in tables.items()})
    except jn.JunctureError as error:
        return {"refused": str(error).partition("\n")[0]}
    read = [name for name in tables if re.search(rf"\b{name}\b", query)]
    view.populate(**{name: now[name] for name in read})
    times.append(time.process_time())
    answers, in_epochs = 0, 0.0
    for epoch in range(epochs):
        changes = {}
        for name in read:
            now[name], changes[name] = changed(now[name], chance)
            connection.register(name, now[name])
        start = time.process_time()
        try:
            view.apply(**changes)
        except jn.DataError as error:
            # A scalar subquery may have several rows after these changes.
            try:
                connection.execute(query).fetchall()
            except duckdb.Error:
                break
            return {"wrong": f"epoch {epoch}: {error}"}
        in_epochs += time.process_time() - start
        expected, rows = rows_of(connection.sql(query).to_arrow_table()), rows_of(view.result())
        if rows != expected:
            return {"wrong": f"epoch {epoch}: missing {expected - rows}, surplus {rows - expected}"}
        answers = sum(rows.values())
    populated = times[1] - times[0]
    return {"rows": answers, "populate_s": round(populated, 3), "epoch_s": round(in_epochs / max(epochs, 1), 4)}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generate", type=Path)
    parser.add_argument("--scale", default="0.01")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--query", type=int)
    parser.add_argument("--result", type=Path)
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.generate, arguments.scale)
        return
    import duckdb
    import pyarrow.parquet as pq

    results: dict[str, dict[int, Any]] = {}
    for suite in [arguments.suite] if arguments.suite else SUITES:
        tables = {path.stem: pq.read_table(path) for path in sorted((arguments.tables / suite).glob("*.parquet"))}
        connection = duckdb.connect()
        for name, table in tables.items():
            connection.register(name, table)
        results[suite] = {}
        for number, query in enumerate(json.loads((arguments.tables / f"{suite}.json").read_text()), 1):
            if arguments.query in (None, number):
                results[suite][number] = followed(query, tables, connection, arguments.epochs, number)
                print(suite, number, results[suite][number], flush=True)
        outcomes = [
            next((name for name in ("refused", "wrong") if name in each), "right") for each in results[suite].values()
        ]
        kinds = Counter(outcomes)
        print(suite, dict(kinds))
    if arguments.result:
        arguments.result.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
