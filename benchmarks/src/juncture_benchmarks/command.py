"""The command of the scripts in ``benchmarks/``: measure, save the results, and write a page of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, TextIO

from juncture.errors import JunctureError
from juncture_benchmarks.benchmark import Benchmark, run_benchmark
from juncture_benchmarks.harness import Limits, data_folder, save_results

__all__ = ["main"]


def main(benchmark: Benchmark, description: str | None, folder: Path) -> None:
    """Run a benchmark as the command line says.

    Parameters
    ----------
    benchmark
        Which.
    description
        The docstring of the script.
    folder
        Its folder: results go into ``results``, and pages into ``docs/how-it-works/benchmarks`` beside it.
    """
    chosen = _arguments(benchmark, description)
    results = folder / "results"
    try:
        if not chosen.render:
            _measure(benchmark, chosen, results / benchmark.results_name(chosen.scale))
        if chosen.render or (chosen.scale in benchmark.published and not chosen.only):
            for path in benchmark.page(
                folder.parent / "docs" / "how-it-works" / "benchmarks" / f"{benchmark.name}.md", results
            ):
                _say(f"Wrote {path}")
    except JunctureError as error:
        sys.exit(f"error: {error}")


def _arguments(benchmark: Benchmark, description: str | None) -> argparse.Namespace:
    scales = "; ".join(f"{name}: {meaning}" for name, meaning in benchmark.scales.items())
    names = ", ".join(benchmark.scenarios(benchmark.usual_scale))
    some = f"all, or some: {names}; a beginning up to a dash stands for several"
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(benchmark.scales), default=benchmark.usual_scale, help=scales)
    parser.add_argument("--engines", type=_names, default=["local", "spark"], help="local,spark")
    parser.add_argument("--repeat", type=int, default=3, help="times round; medians are reported")
    parser.add_argument("--data", type=Path, default=data_folder(), help="where generated tables are kept")
    parser.add_argument("--only", type=_names, default=[], help="contestants, such as duckdb,juncture; saves nothing")
    parser.add_argument("--scenarios", type=_names, default=[], help=some)
    parser.add_argument("--timeout-s", type=float, default=600.0, help="seconds for one run, warm-up included")
    parser.add_argument("--note", default="", help="what a reader should know of the circumstances")
    parser.add_argument("--render", action="store_true", help="make the page from the results there are, and stop")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _measure(benchmark: Benchmark, chosen: argparse.Namespace, path: Path) -> None:
    def finished(scenario: dict[str, Any]) -> None:
        _say(f"\n{scenario['title']}\n\n{benchmark.table(scenario)}\n")
        # Contestants are compared within one run only, so a part of them is no result.
        if not chosen.only:
            save_results(path, [scenario])

    run_benchmark(
        benchmark,
        scale=chosen.scale,
        engines=chosen.engines,
        repeat=chosen.repeat,
        only=chosen.only,
        scenarios=chosen.scenarios,
        data=chosen.data,
        limits=Limits.of_this_machine(chosen.timeout_s),
        announce=lambda line: _say(line, sys.stderr),
        finished=finished,
        note=chosen.note,
    )


def _say(text: str, to: TextIO = sys.stdout) -> None:
    """Show a text at once, though a pipe may lie behind."""
    to.write(f"{text}\n")
    to.flush()
