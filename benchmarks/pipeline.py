"""A pipeline of five joins over a generated star schema, beside the same written by hand in Spark's SQL.

Both read the same files, write a folder of Parquet, and are held against one another before a time is printed. They
take turns, and the best of several runs counts: ``python benchmarks/pipeline.py --rows 2000000 --runs 3``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import juncture as jn
from juncture.spark.session.session import local_session

DIMENSIONS = {"store": 1_000, "product": 50_000, "customer": 200_000, "day": 2_000, "promotion": 300}


def write_tables(folder: Path, rows: int) -> None:
    """Write a table of sales, and one for each thing that a sale is about."""
    generator = np.random.default_rng(1)
    sales = {f"{name}_id": generator.integers(0, count, rows) for name, count in DIMENSIONS.items()}
    sales |= {"sale": np.arange(rows), "price": generator.integers(1, 10_000, rows)}
    pq.write_table(pa.table(sales), folder / "sales.parquet", row_group_size=250_000)
    for name, count in DIMENSIONS.items():
        ids = np.arange(count)
        columns = {f"{name}_id": ids, f"{name}_kind": ids % 17, f"{name}_name": [f"{name} {each}" for each in ids]}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def pipeline_text() -> str:
    names = ["sales", *DIMENSIONS]
    parts = [f'[sources.{name}]\npath = "{name}.parquet"\n' for name in names]
    left = "sales"
    for name in DIMENSIONS:
        parts.append(f'[steps.with_{name}]\njoin = "equi"\nleft = "{left}"\nright = "{name}"\non = "{name}_id"\n')
        left = f"with_{name}"
    parts.append(f'[steps.some]\nfrom = "{left}"\nfilter = "product_kind < 9"\n')
    parts.append('[sinks.some]\nfrom = "some"\npath = "ours"\nmode = "overwrite"\n')
    return "\n".join(parts)


def by_hand(folder: Path) -> str:
    joins = " ".join(f"JOIN parquet.`{folder}/{name}.parquet` USING ({name}_id)" for name in DIMENSIONS)
    return f"SELECT * FROM parquet.`{folder}/sales.parquet` {joins} WHERE product_kind < 9"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="juncture-pipeline-"))
    session = local_session("pipeline", memory="4g")
    try:
        write_tables(folder, options.rows)
        (folder / "juncture.toml").write_text(pipeline_text())
        hand = folder / "hand"
        ways: dict[str, Callable[[], object]] = {
            "by hand": lambda: session.sql(by_hand(folder)).write.mode("overwrite").parquet(str(hand)),
            "pipeline": lambda: jn.Pipeline.from_toml(folder / "juncture.toml").run(session, again=True),
        }
        best = dict.fromkeys(ways, float("inf"))
        for number in range(options.runs + 1):
            for name, run in ways.items():
                began = time.perf_counter()
                run()
                if number:  # The first run is for the compilers.
                    best[name] = min(best[name], time.perf_counter() - began)
        ours, theirs = (pq.read_table(folder / name).sort_by("sale") for name in ("ours", "hand"))
        assert ours.equals(theirs.select(ours.column_names)), "the two have different rows"
        for name, seconds in best.items():
            print(f"{name:<10} {seconds:6.2f} s  {ours.num_rows:,} rows")
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
