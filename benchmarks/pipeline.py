"""Measures a pipeline of five joins of TPC-DS tables on Spark, and the same query written by hand in Spark SQL.

It joins the store sales of a year with day, item, shop, customer and promotion. ``benchmarks/view.py`` generates the
tables with dsdgen:

    dsdgen/bin/python benchmarks/view.py --generate tables --scale 1
    python benchmarks/pipeline.py --tables tables --result benchmarks/results/pipeline.json

Both read the same files and write a folder of Parquet, and their results are compared. They take turns, and the median
counts. The first two runs of each are warm-up runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import juncture as jn
from juncture.spark.session.session import session_at
from juncture_benchmarks.machine import describe_machine, describe_versions, load_average
from juncture_benchmarks.process import tree_cpu_s

JOINS = {
    "date_dim": ("ss_sold_date_sk", "d_date_sk"),
    "item": ("ss_item_sk", "i_item_sk"),
    "store": ("ss_store_sk", "s_store_sk"),
    "customer": ("ss_customer_sk", "c_customer_sk"),
    "promotion": ("ss_promo_sk", "p_promo_sk"),
}
"""The table of each join, and the columns that are equal."""

WANTED = (
    "ss_ticket_number", "ss_item_sk", "d_date", "i_category", "i_brand", "s_state", "c_customer_id", "p_channel_email",
    "ss_quantity", "ss_sales_price",
)  # fmt: skip
WARMING = 2
FILTER = "d_year = 2001 AND i_current_price > 5"


PAGE = """# A pipeline of five joins, measured

`store_sales` of TPC-DS at scale 1 (2,880,404 rows) is joined with its day, item, shop, customer and promotion,
filtered, and written as Parquet: {rows:,} rows. A pipeline in a TOML file is compared with a handwritten Spark SQL
query. Both read the same files in one session, take turns, and return the same rows.

{table}

The pipeline takes {wall:.2f} times the wall time of the query, and {cpu:.2f} times its CPU time.

- Spark runs the same plan for both: five broadcast joins that read only the needed columns.
- By hand, six small jobs read the footers of the files, and Spark plans for all 139 columns.
- The pipeline reads the footers itself, and plans only for the needed columns. It also validates the file, plans each
  join, counts the rows of its output and records its inputs.

Medians of {runs} runs each, after two warm-up runs. Load average at the start and at the end: {load}. {machine}.
`python benchmarks/pipeline.py --tables … --result … --page …` measures again.
"""


def pipeline_text(tables: Path) -> str:
    """Return the pipeline's file."""
    parts = [f'[sources.{name}]\npath = "{tables.absolute() / name}.parquet"\n' for name in ("store_sales", *JOINS)]
    left = "store_sales"
    for name, (left_on, right_on) in JOINS.items():
        parts.append(
            f'[steps.with_{name}]\njoin = "equi"\nleft = "{left}"\nright = "{name}"\n'
            f'left_on = "{left_on}"\nright_on = "{right_on}"\n'
        )
        left = f"with_{name}"
    parts.append(f'[steps.sold]\nfrom = "{left}"\nfilter = "{FILTER}"\nselect = {json.dumps(WANTED)}\n')
    parts.append('[sinks.sold]\nfrom = "sold"\npath = "output"\nmode = "overwrite"\n')
    return "\n".join(parts)


def by_hand(tables: Path) -> str:
    """Return the same as a query."""
    joins = " ".join(
        f"JOIN parquet.`{tables.absolute() / name}.parquet` ON {left} = {right}"
        for name, (left, right) in JOINS.items()
    )
    sales = f"parquet.`{tables.absolute() / 'store_sales'}.parquet`"
    return f"SELECT {', '.join(WANTED)} FROM {sales} {joins} WHERE {FILTER}"


def sold(folder: Path) -> Any:
    """Return what was written, in one order."""
    return pq.read_table(folder).sort_by([(name, "ascending") for name in WANTED])


def measured(tables: Path, folder: Path, runs: int, memory: str) -> dict[str, dict[str, list[float]]]:
    """Return the seconds that each run of both ways took, by the clock and of all processors.

    Raises
    ------
    AssertionError
        If they have different rows.
    """
    session = session_at("local[*]", "pipeline", settings={"spark.driver.memory": memory})
    try:
        (folder / "juncture.toml").write_text(pipeline_text(tables))
        hand = str(folder / "hand")
        ways: dict[str, Callable[[], object]] = {
            "by hand": lambda: session.sql(by_hand(tables)).write.mode("overwrite").parquet(hand),
            "pipeline": lambda: jn.Pipeline.from_toml(folder / "juncture.toml").run(session, force=True),
        }
        taken: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in ways}
        for number in range(runs + WARMING):
            for name, run in ways.items():
                began, before = time.perf_counter(), tree_cpu_s(os.getpid())
                run()
                if number >= WARMING:
                    taken[name]["wall"].append(round(time.perf_counter() - began, 3))
                    taken[name]["cpu"].append(round(tree_cpu_s(os.getpid()) - before, 2))
        assert sold(folder / "output").equals(sold(folder / "hand")), "the two have different rows"
        return taken
    finally:
        session.stop()


def page(result: dict[str, Any]) -> str:
    """Return the page of the documentation that shows a result."""
    lines = ["| | wall, median | least | most | CPU, median |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, each in result["seconds"].items():
        wall, cpu = each["wall"], statistics.median(each["cpu"])
        lines.append(
            f"| {name} | {statistics.median(wall):.2f} s | {min(wall):.2f} s | {max(wall):.2f} s | {cpu:.2f} s |"
        )
    ours, theirs = (result["seconds"][name] for name in ("pipeline", "by hand"))
    shares = [statistics.median(ours[kind]) / statistics.median(theirs[kind]) for kind in ("wall", "cpu")]
    machine, versions = result["machine"], ", ".join(f"{name} {each}" for name, each in result["versions"].items())
    return PAGE.format(
        rows=result["rows"],
        table="\n".join(lines),
        wall=shares[0],
        cpu=shares[1],
        runs=len(ours["wall"]),
        load=" and ".join(str(each) for each in result["load"].values()),
        machine=f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] >> 30} GiB; {versions}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--result", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="juncture-pipeline-"))
    before = load_average()
    try:
        taken = measured(options.tables, folder, options.runs, options.memory)
        rows = pq.read_table(folder / "output").num_rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, each in taken.items():
        wall, cpu = (statistics.median(each[kind]) for kind in ("wall", "cpu"))
        print(f"{name:<10} {wall:6.2f} s  {cpu:6.2f} s of CPU  {each['wall']}  {rows:,} rows")
    if options.result is not None:
        about: dict[str, Any] = {
            "machine": describe_machine(),
            "versions": describe_versions(["pyspark", "juncture", "pyarrow"]),
        }
        load = {"before": before, "after": load_average()}
        result = {"rows": rows, "load": load, "seconds": taken, **about}
        options.result.write_text(json.dumps(result, indent=1) + "\n")
        if options.page is not None:
            options.page.write_text(page(result))


if __name__ == "__main__":
    main()
