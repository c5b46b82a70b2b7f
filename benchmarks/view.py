"""TPC-DS query 4 kept up to date: what populating it, an epoch of changes and its state cost, beside DuckDB's query.

The tables are dsdgen's, which comes with an extension of one version of DuckDB, in an environment of its own:

    python -m venv dsdgen && dsdgen/bin/pip install duckdb==1.5.5 duckdb-extension-tpcds
    dsdgen/bin/python benchmarks/view.py --generate tables --scale 1
    python benchmarks/view.py --tables tables --result benchmarks/results/view.json

An epoch of changes replaces rows of ``store_sales`` by ones of another list price, half of the changes an old row and
half a new one. The answer has to be DuckDB's before a time counts; its tables are changed once all epochs of a size
have been taken. Its query is run after every eighth epoch, so that both find the machine as busy with other work.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES = ("store_sales", "catalog_sales", "web_sales", "customer", "date_dim")
OF_PIPELINE = ("item", "store", "promotion")
"""Further tables that benchmarks/pipeline.py reads."""
BETWEEN = 8
"""Epochs between two runs of DuckDB's query."""
QUERY = Path(__file__).parents[1] / "tests" / "incremental" / "view" / "query4.sql"


def generate(folder: Path, scale: str) -> None:
    """Write the tables that the query and the pipeline read, by the extension of DuckDB that is installed."""
    extension = next(Path(importlib.import_module("duckdb_extension_tpcds").__file__ or "").parent.rglob("*_extension"))
    connection = importlib.import_module("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CALL dsdgen(sf={scale})")
    folder.mkdir(parents=True, exist_ok=True)
    for table in (*TABLES, *OF_PIPELINE):
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds of wall time and of CPU that something took, and what it gave."""
    wall, cpu = time.perf_counter(), time.process_time()
    given = work()
    return time.perf_counter() - wall, time.process_time() - cpu, given


class Changing:
    """Replace some store sales, in the view and then in DuckDB."""

    def __init__(self, tables: dict[str, Any], connection: Any) -> None:
        import numpy as np

        self._sales = tables["store_sales"]
        self._connection = connection
        self._chance = np.random.default_rng(0)
        self._rows = iter(self._chance.permutation(self._sales.num_rows).tolist())
        self._fresh: list[Any] = []

    def epoch(self, changes: int) -> Any:
        """Return changes of as many rows as half of them."""
        import numpy as np
        import pyarrow as pa

        from juncture.columnar.arrays import array_of

        count = max(1, changes // 2)
        old = self._sales.take(pa.array([next(self._rows) for _ in range(count)]))
        cents = self._chance.integers(100, 100_000, count)
        price = array_of(np.stack([cents, cents >> 63], axis=1), pa.decimal128(7, 2))
        place = old.schema.get_field_index("ss_ext_list_price")
        new = old.set_column(place, old.schema.field(place), price)
        weighted = [
            table.append_column("_weight", pa.array([weight] * count)) for table, weight in ((old, -1), (new, 1))
        ]
        self._fresh.append(new)
        return pa.concat_tables(weighted)

    def catch_up(self) -> None:
        """Make the changes of all epochs in DuckDB: no row is replaced twice."""
        import pyarrow as pa

        keys = "ss_item_sk, ss_ticket_number"
        self._connection.register("fresh", pa.concat_tables(self._fresh))
        self._connection.execute(f"DELETE FROM store_sales WHERE ({keys}) IN (SELECT ({keys}) FROM fresh)")
        self._connection.execute("INSERT INTO store_sales SELECT * FROM fresh")
        self._fresh = []


def measured(folder: Path, epochs: int, sizes: list[int]) -> dict[str, Any]:
    """Return what was measured."""
    import duckdb
    import pyarrow.parquet as pq

    import juncture as jn

    sql = QUERY.read_text()
    tables = {table: pq.read_table(folder / f"{table}.parquet") for table in TABLES}
    connection = duckdb.connect()
    for table, rows in tables.items():
        connection.register(f"given_{table}", rows)
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM given_{table}")
    sources = {table: jn.Source(rows.schema, static=table == "date_dim") for table, rows in tables.items()}
    state = Path(tempfile.mkdtemp())
    found: dict[str, Any] = {
        "load": os.getloadavg()[0],
        "rows": {table: rows.num_rows for table, rows in tables.items()},
    }
    queries = []
    try:
        view = jn.view(state / "view", sql, sources=sources)
        found["populate"] = timed(lambda: view.populate(**tables))[:2]
        found["memory_bytes"] = view.nbytes
        changing = Changing(tables, connection)
        for size in sizes:
            # The first ones compile and load what they need.
            for _ in range(3):
                view.apply(store_sales=changing.epoch(size))
            times = []
            for _ in range(0, epochs, BETWEEN):
                changes = [changing.epoch(size) for _ in range(BETWEEN)]
                times += [timed(lambda each=each: view.apply(store_sales=each)) for each in changes]
                queries.append(timed(lambda: connection.execute(sql).fetchall()))
            found[f"epoch of {size:,}"] = [statistics.median(each[place] for each in times) for place in (0, 1)]
            changing.catch_up()
            check(view, connection, sql)
        found["DuckDB's whole query"] = [statistics.median(each[place] for each in queries) for place in (0, 1)]
        found["disk_bytes"] = sum(path.stat().st_size for path in (state / "view").rglob("*") if path.is_file())
        view.close()
        opened = timed(lambda: jn.view(state / "view", sql, sources=sources))
        found["open again"] = opened[:2]
        check(opened[2], connection, sql)
        opened[2].close()
        found |= measured_on_disk(sql, tables, connection, state / "small", found["memory_bytes"] // 4, epochs)
    finally:
        shutil.rmtree(state)
    return found


def measured_on_disk(
    sql: str, tables: dict[str, Any], connection: Any, folder: Path, memory_bytes: int, epochs: int
) -> dict[str, Any]:
    """Return what was measured of a view whose rows do not fit in memory."""
    import juncture as jn

    sources = {table: jn.Source(rows.schema, static=table == "date_dim") for table, rows in tables.items()}
    given = tables | {
        "store_sales": connection.table("store_sales").to_arrow_table().cast(tables["store_sales"].schema)
    }
    found: dict[str, Any] = {}
    with jn.view(folder, sql, sources=sources, memory=memory_bytes) as view:
        found["populate, on disk"] = timed(lambda: view.populate(**given))[:2]
        changing = Changing(given, connection)
        for size in (2, 1_000):
            changes = [changing.epoch(size) for _ in range(epochs // 4)]
            times = [timed(lambda each=each: view.apply(store_sales=each)) for each in changes][3:]
            found[f"epoch of {size:,}, on disk"] = [
                statistics.median(each[place] for each in times) for place in (0, 1)
            ]
        changing.catch_up()
        check(view, connection, sql)
        found["memory_bytes, on disk"] = view.nbytes
        found["disk_bytes, on disk"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return found


def check(view: Any, connection: Any, sql: str) -> None:
    """Stop if the answer is not DuckDB's."""
    ours = Counter(tuple(row.values()) for row in view.result().to_pylist())
    wanted = Counter(connection.execute(sql).fetchall())
    if ours != wanted:
        raise SystemExit(f"the view has {ours - wanted} too many, and lacks {wanted - ours}")


def main() -> None:
    """Generate the tables, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generate", type=Path, help="write the tables to this folder, and stop")
    parser.add_argument("--scale", default="1", help="of the tables that are written")
    parser.add_argument("--tables", type=Path, help="the folder of the tables")
    parser.add_argument("--epochs", type=int, default=64, help="epochs of each size, in eights")
    parser.add_argument("--sizes", type=int, nargs="*", default=[2, 1_000], help="changes in an epoch")
    parser.add_argument("--result", type=Path, help="a file that the figures are written to")
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.generate, arguments.scale)
        return
    found = measured(arguments.tables, arguments.epochs, arguments.sizes)
    for name, value in found.items():
        if isinstance(value, list | tuple):
            print(f"{name:<24} {value[0] * 1_000:10,.1f} ms {value[1] * 1_000:10,.1f} ms CPU")
        else:
            print(f"{name:<24} {value}")
    if arguments.result:
        arguments.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
