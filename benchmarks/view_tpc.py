"""All queries of TPC-H and TPC-DS as views: whether each is accepted and equals DuckDB while its tables change.

The tables and queries are those of DuckDB's extensions, which come for one version of it, in an environment of its own:

    python -m venv tpc && tpc/bin/pip install duckdb==1.5.5 duckdb-extension-tpch duckdb-extension-tpcds
    tpc/bin/python benchmarks/view_tpc.py --generate tables --scale 0.01
    python benchmarks/view_tpc.py --tables tables --epochs 12 --result benchmarks/results/view_tpc.json

An epoch deletes, updates and inserts random rows of each table that a query reads. The answer has to be DuckDB's after
each epoch. Times are of the processor. With ``--in-folder``, the state is in a folder that is opened again after some
epochs, and its memory is a quarter of what the same view has in memory.

With ``--beside``, epochs of 1,000 changes of ``lineitem`` and ``orders`` are compared with DuckDB's own run of each
query of TPC-H, on tables of DuckDB and with two threads:

    tpc/bin/python benchmarks/view_tpc.py --generate tables-1 --scale 1 --suite tpch
    python benchmarks/view_tpc.py --tables tables-1 --beside --result benchmarks/results/tpch.json
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}
MOST_ROWS = 60
"""Rows of a table that an epoch deletes, at most."""
REOPENED = 4
"""Epochs after which a state in a folder is opened again."""
CHANGING = {"lineitem": "l_extendedprice", "orders": "o_totalprice"}
"""The tables that change beside DuckDB, with the column that is updated."""
CHANGES = 1_000
"""Changes of such an epoch: half of them old rows, and half new ones."""
EPOCHS = 10
PAGE = Path(__file__).parents[1] / "docs" / "how-it-works" / "benchmarks" / "tpch.md"


def generate(folder: Path, scale: str, suites: Sequence[str]) -> None:
    """Write the tables and the queries of suites, by the extensions of DuckDB that are installed."""
    duckdb = importlib.import_module("duckdb")
    for suite in suites:
        function = SUITES[suite]
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


def opened(folder: str, query: str, sources: dict[str, Any], memory: int) -> Any:
    """Open a view in a folder, with less memory than `juncture.view` accepts."""
    from juncture.incremental.changes.source import Source
    from juncture.incremental.state.policy import MemoryPolicy
    from juncture.incremental.view import View, ViewSetup, store_in

    setup = ViewSetup(query, {name: Source(schema) for name, schema in sources.items()})
    return View(setup, store_in(Path(folder, "state"), setup, MemoryPolicy.of(memory)))


def followed(
    query: str, tables: dict[str, Any], connection: Any, epochs: int, seed: int, folder: str | None = None
) -> dict[str, Any]:
    """Follow a view of a query, and return its times, or why it is not DuckDB's answer."""
    import duckdb
    import numpy as np

    import juncture as jn

    chance = np.random.default_rng(seed)
    now, times = dict(tables), [time.process_time()]
    sources = {name: table.schema for name, table in tables.items()}
    try:
        view = jn.view(None, query, sources=sources)
    except jn.JunctureError as error:
        return {"refused": str(error).partition("\n")[0]}
    read = [name for name in tables if re.search(rf"\b{name}\b", query)]
    view.populate(**{name: now[name] for name in read})
    memory = view.nbytes // 4
    if folder is not None:
        view = opened(folder, query, sources, memory)
        times = [time.process_time()]
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
            if folder is not None and epoch % REOPENED == REOPENED - 1:
                view.close()
                view = opened(folder, query, sources, memory)
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
    view.close()
    populated = times[1] - times[0]
    return {"rows": answers, "populate_s": round(populated, 3), "epoch_s": round(in_epochs / max(epochs, 1), 4)}


def updated(table: Any, name: str, rows: int, chance: Any) -> tuple[Any, Any]:
    """Return the changes of random rows to another value, and the table after them."""
    import numpy as np
    import pyarrow as pa

    gone = chance.choice(table.num_rows, rows, replace=False)
    deleted = table.take(pa.array(gone))
    column = table.column_names.index(CHANGING[name])
    values = deleted.column(column).take(pa.array(chance.permutation(rows)))
    inserted = deleted.set_column(column, table.schema.field(column), values)
    remains = np.ones(table.num_rows, np.bool_)
    remains[gone] = False
    weights = pa.array([-1] * rows + [1] * rows, pa.int64())
    changes = pa.concat_tables([deleted, inserted]).append_column("_weight", weights)
    return changes, pa.concat_tables([table.filter(pa.array(remains)), inserted])


def beside(query: str, tables: dict[str, Any], connection: Any, number: int) -> dict[str, Any]:
    """Return the CPU seconds of an epoch of changes and of DuckDB's run of a query, in turns.

    Every second epoch takes back the changes of the one before.
    """
    import duckdb
    import numpy as np
    import pyarrow.compute as pc

    import juncture as jn

    chance = np.random.default_rng(number)
    read = {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", query)}
    changing = [name for name in CHANGING if name in read]
    view = jn.view(None, query, sources={name: table.schema for name, table in read.items()})
    start = time.process_time()
    view.populate(**read)
    result: dict[str, Any] = {"populate_s": time.process_time() - start}
    after, epochs, queries = dict(read), [], []
    for epoch in range(EPOCHS if changing else 0):
        changes = {}
        for name in changing:
            changes[name], after[name] = updated(read[name], name, CHANGES // 2 // len(changing), chance)
        back = {
            name: each.set_column(each.num_columns - 1, "_weight", pc.negate(each["_weight"]))
            for name, each in changes.items()
        }
        for each in (changes, back) if epoch < EPOCHS - 1 else (changes,):
            start = time.process_time()
            view.apply(**each)
            epochs.append(time.process_time() - start)
        if epoch % 3 == 0:
            start = time.process_time()
            connection.execute(query).fetchall()
            queries.append(time.process_time() - start)
    expected = duckdb.connect()
    for name, table in after.items():
        expected.register(name, table)
    if rows_of(expected.sql(query).to_arrow_table()) != rows_of(view.result()):
        raise SystemExit(f"The answer of query {number} is not that of DuckDB.")
    view.close()
    if changing:
        result |= {"epoch_s": statistics.median(epochs), "query_s": statistics.median(queries)}
    return result


def compare(folder: Path, query: int | None, result: Path | None) -> None:
    """Compare all queries of TPC-H, or one, with DuckDB."""
    import duckdb
    import pyarrow.parquet as pq

    from juncture_benchmarks.machine import describe_machine

    tables = {path.stem: pq.read_table(path) for path in sorted((folder / "tpch").glob("*.parquet"))}
    connection = duckdb.connect(config={"threads": 2})
    for name, table in tables.items():
        connection.register("loaded", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
        connection.unregister("loaded")
    queries = {}
    for number, text in enumerate(json.loads((folder / "tpch.json").read_text()), 1):
        if query in (None, number):
            queries[number] = beside(text, tables, connection, number)
            print("tpch", number, queries[number], flush=True)
            gc.collect()
    if result:
        results = {"queries": queries, "machine": describe_machine(), "measured": time.strftime("%Y-%m-%d")}
        result.write_text(json.dumps(results, indent=2) + "\n")
        PAGE.write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """Return the page of the epochs beside DuckDB."""
    rows, ratios = [], []
    for number, each in results["queries"].items():
        line = [f"{number}", f"{each['populate_s']:.1f} s"]
        if "epoch_s" in each:
            ratios.append(each["query_s"] / each["epoch_s"])
            line += [f"{1000 * each['query_s']:.0f} ms", f"{1000 * each['epoch_s']:.1f} ms", f"{ratios[-1]:.1f}"]
        else:
            line += ["", "", ""]
        rows.append(f"| {' | '.join(line)} |")
    machine = results["machine"]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return "\n".join(
        [
            "# TPC-H as views, measured",
            "",
            "CPU time of an epoch of 1,000 changes of `lineitem` and `orders`, and of DuckDB's run of the same query",
            "on its own tables, in turns, with two threads. `lineitem` has 6 million rows. Views are in memory.",
            "",
            "| query | populate | DuckDB's query | epoch | query ÷ epoch |",
            "| --- | ---: | ---: | ---: | ---: |",
            *rows,
            "",
            f"The geometric mean of the last column is {mean:.1f}. Queries without figures read neither table.",
            "Answers are compared with those of DuckDB before a time counts.",
            "",
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, on {results['measured']}.",
            "`python benchmarks/view_tpc.py --beside` measures it.",
            "",
        ]
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generate", type=Path)
    parser.add_argument("--scale", default="0.01")
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--query", type=int)
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--in-folder", action="store_true", help="keep the state in a folder, with little memory")
    parser.add_argument("--result", type=Path)
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.generate, arguments.scale, [arguments.suite] if arguments.suite else list(SUITES))
        return
    import duckdb
    import pyarrow.parquet as pq

    if arguments.beside:
        compare(arguments.tables, arguments.query, arguments.result)
        return
    results: dict[str, dict[int, Any]] = {}
    for suite in [arguments.suite] if arguments.suite else SUITES:
        tables = {path.stem: pq.read_table(path) for path in sorted((arguments.tables / suite).glob("*.parquet"))}
        connection = duckdb.connect()
        for name, table in tables.items():
            connection.register(name, table)
        results[suite] = {}
        for number, query in enumerate(json.loads((arguments.tables / f"{suite}.json").read_text()), 1):
            if arguments.query in (None, number):
                with tempfile.TemporaryDirectory() as temporary:
                    folder = temporary if arguments.in_folder else None
                    results[suite][number] = followed(query, tables, connection, arguments.epochs, number, folder)
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
