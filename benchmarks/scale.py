"""Simulates joins of tables that are too large to have: ``python benchmarks/scale.py``.

Results go to ``benchmarks/results/scale.json``, and ``docs/how-it-works/benchmarks/scale.md`` is made from them.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from juncture_benchmarks.machine import describe_machine, describe_versions
from juncture_benchmarks.scale.page import write_page
from juncture_benchmarks.scale.simulation import CORES_PER_EXECUTOR, simulate
from juncture_benchmarks.scale.tables import SHAPES

ROWS = (10**9, 10**10)
HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=1_000)
    options = parser.parse_args()
    outcomes = []
    # Each simulation has a new process, because memory growth is measured for a whole process.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for rows in ROWS:
            for shape in SHAPES:
                outcomes.append(pool.apply(simulate, (shape, rows, options.executors)))
                print(f"{rows:,} rows, {shape}: {outcomes[-1]['largest']:.2f}")
        article = pool.apply(simulate, ("a million keys", 10**8, 4))
    results = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": describe_versions(["juncture", "numpy", "pyarrow"]),
        "executors": options.executors,
        "cores_per_executor": CORES_PER_EXECUTOR,
        "outcomes": outcomes,
        "article": article,
    }
    (HERE / "results" / "scale.json").write_text(json.dumps(results, indent=1) + "\n")
    write_page(HERE.parent / "docs" / "how-it-works" / "benchmarks" / "scale.md", results)


if __name__ == "__main__":
    main()
