"""Measures as-of joins, ours and the peers', in one run: ``python benchmarks/asof.py --scale small``.

Results go to ``benchmarks/results/asof-<scale>.json``; ``--render`` makes the page and the plot in ``docs/benchmarks``
from all of them, and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from juncture.bench.asof.page import write_asof_page
from juncture.bench.asof.scenarios import bench_asof
from juncture.bench.harness import Limits, data_folder, save_results
from juncture.bench.report import markdown_table
from juncture.datasets import SCALES
from juncture.errors import JunctureError

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
PAGE = ROOT.parent / "docs" / "benchmarks" / "asof.md"


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--engines", type=names, default=["local", "spark"], help="local,spark")
    parser.add_argument("--repeat", type=int, default=3, help="times round; medians are reported")
    parser.add_argument("--data", type=Path, default=data_folder(), help="where generated tables are kept")
    parser.add_argument("--only", type=names, default=[], help="contestants, such as polars,juncture; saves nothing")
    parser.add_argument("--scenarios", type=names, default=[], help="scenarios, such as local-small,spark-hot-single")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="seconds for one run, warm-up included")
    parser.add_argument("--note", default="", help="what a reader should know of the circumstances")
    parser.add_argument("--render", action="store_true", help="make the page from the results there are, and stop")
    return parser.parse_args()


def measure(chosen: argparse.Namespace) -> None:
    def finished(scenario: dict[str, Any]) -> None:
        print(f"\n{scenario['title']}\n\n{markdown_table(scenario)}\n", flush=True)
        # Contestants are compared within one run only, so a part of them is no result.
        if not chosen.only:
            save_results(RESULTS / f"asof-{chosen.scale}.json", [scenario])

    bench_asof(
        scale=chosen.scale,
        engines=chosen.engines,
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
        if chosen.render or not chosen.only:
            for path in write_asof_page(PAGE, RESULTS):
                print(f"Wrote {path}")
    except JunctureError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
