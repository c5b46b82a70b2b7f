"""Measures equality joins, ours and the peers', in one run: ``python benchmarks/equi.py --scenarios local-limited``.

Results go to ``benchmarks/results/equi-<scale>.json``; ``--render`` makes the page and the plot in
``docs/benchmarks`` from those of the full scale, and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from juncture.bench.equi.page import write_equi_page
from juncture.bench.equi.scenarios import bench_equi, scenario_names
from juncture.bench.harness import Limits, data_folder, save_results
from juncture.bench.report import markdown_table
from juncture.errors import JunctureError

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
PAGE = ROOT.parent / "docs" / "benchmarks" / "equi.md"


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scale", choices=["full", "tiny"], default="full", help="tiny: few rows, to see that it works"
    )
    parser.add_argument("--repeat", type=int, default=3, help="times round; medians are reported")
    parser.add_argument("--data", type=Path, default=data_folder(), help="where generated tables are kept")
    parser.add_argument("--only", type=names, default=[], help="contestants, such as duckdb,juncture; saves nothing")
    parser.add_argument("--scenarios", type=names, default=[], help=f"all, or some: {', '.join(scenario_names())}")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="seconds for one run, warm-up included")
    parser.add_argument("--note", default="", help="what a reader should know of the circumstances")
    parser.add_argument("--render", action="store_true", help="make the page from the results there are, and stop")
    return parser.parse_args()


def measure(chosen: argparse.Namespace) -> None:
    def finished(scenario: dict[str, Any]) -> None:
        print(f"\n{scenario['title']}\n\n{markdown_table(scenario)}\n", flush=True)
        # Contestants are compared within one run only, so a part of them is no result.
        if not chosen.only:
            save_results(RESULTS / f"equi-{chosen.scale}.json", [scenario])

    bench_equi(
        scale=chosen.scale,
        repeat=chosen.repeat,
        only=chosen.only,
        scenarios=chosen.scenarios,
        data=chosen.data,
        limits=Limits.of_this_machine(chosen.timeout_s),
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        finished=finished,
        note=chosen.note,
    )


def main() -> None:
    chosen = arguments()
    try:
        if not chosen.render:
            measure(chosen)
        if chosen.render or (chosen.scale == "full" and not chosen.only):
            for path in write_equi_page(PAGE, RESULTS):
                print(f"Wrote {path}")
    except JunctureError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
