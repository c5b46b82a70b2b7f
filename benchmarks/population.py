"""Measures how long a join of changing tables takes to be filled, all ways side by side.

Sales of customers, as in "Optimizing Streaming JOINs: Leveraging Asymmetry for Better Performance" (Epsio, 2025).
What is measured is put into ``benchmarks/results/population.json``, way by way; ``--render`` makes the page in
``docs/how-it-works/benchmarks`` of it, and measures nothing.

    python benchmarks/population.py --ways populate batch
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from juncture_benchmarks.machine import describe_machine, describe_versions, load_average
from juncture_benchmarks.population.measure import STEADY, measured, of_block_rows, steady
from juncture_benchmarks.population.page import write_page
from juncture_benchmarks.population.ways import all_ways, quarter_bytes

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results" / "population.json"
PAGE = FOLDER.parent / "docs" / "how-it-works" / "benchmarks" / "population.md"
SALES = 5_000_000


def main() -> None:
    """Measure some ways, one after the other, or make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sales", type=int, default=SALES, help=f"rows of the larger side; {SALES:,} are kept")
    parser.add_argument("--ways", nargs="*", choices=list(all_ways(SALES)), default=[], help="ways to populate")
    parser.add_argument("--steady", nargs="*", choices=[*STEADY, "larger"], default=[], help="joins that go on")
    parser.add_argument("--block-rows", nargs="*", type=int, default=[], help="rows of a block, to be compared")
    parser.add_argument("--render", action="store_true", help="make the page from the results there are, and stop")
    chosen = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"ways": {}}
    for name in chosen.ways:
        found = measured(name, chosen.sales) | {"load_average": load_average()}
        others = {each["pairs"] for each in results["ways"].values()} if chosen.sales == SALES else set()
        if others - {found["pairs"]}:
            sys.exit(f"{name} found {found['pairs']:,} pairs, and others {others}")
        _show(name, found)
        results["ways"][name] = found
    for name in chosen.steady:
        memory = quarter_bytes(chosen.sales) if name == "larger" else None
        found = steady("equality" if name == "larger" else name, chosen.sales, memory=memory)
        _show(name, found)
        title = "equality, with a quarter of the memory" if name == "larger" else name
        results.setdefault("steady", {})[title] = found
    for rows in chosen.block_rows:
        found = of_block_rows(rows, chosen.sales)
        _show(f"blocks of {rows}", found)
        results.setdefault("blocks", {})[str(rows)] = found
    if chosen.sales == SALES and not chosen.render:
        packages = ("juncture", "numba", "numpy", "pyarrow", "rocksdict")
        results |= {
            "sales": SALES,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "versions": describe_versions(packages),
        }
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if chosen.render:
        write_page(PAGE, results)


def _show(name: str, found: dict[str, Any]) -> None:
    figures = ", ".join(f"{key} {value:,.4g}" for key, value in found.items())
    sys.stdout.write(f"{name}: {figures}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
