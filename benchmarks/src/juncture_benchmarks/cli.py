"""`juncture bench`: Juncture and the installed other libraries on the same data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from juncture.cli.console import messages, results
from juncture.cli.show import heading
from juncture.files.output import check_target
from juncture_benchmarks.asof.benchmark import ASOF
from juncture_benchmarks.benchmark import Benchmark, run_benchmark
from juncture_benchmarks.equi.benchmark import EQUI
from juncture_benchmarks.harness import Limits, save_results
from juncture_benchmarks.range.benchmark import RANGE

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Measure joins beside those of other libraries.", rich_markup_mode="rich")


@app.callback()
def benches() -> None:
    """Measure joins beside those of other libraries. Every answer is checked before its time is shown."""


def _command(benchmark: Benchmark) -> Callable[..., None]:
    """Return the command that runs a benchmark."""

    def measure(
        scale: Annotated[
            str, typer.Option(metavar="NAME", help="How large the tables are, as said above.")
        ] = benchmark.usual_scale,
        engine: Annotated[
            list[str] | None, typer.Option(metavar="NAME", help="local or spark; both if it is left out.")
        ] = None,
        scenario: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME", help="Scenario, or what several begin with; may be repeated."),
        ] = None,
        only: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME", help="Contestant, such as juncture, polars or duckdb; may be repeated."),
        ] = None,
        repeat: Annotated[
            int, typer.Option(metavar="COUNT", help="Number of runs. The result shows their medians.")
        ] = 3,
        timeout_s: Annotated[float, typer.Option(metavar="SECONDS", help="When a single run is stopped.")] = 600.0,
        output: Annotated[
            Path | None, typer.Option("--output", "-o", metavar="PATH", help="Where to save all figures, as JSON.")
        ] = None,
    ) -> None:
        if output is not None:
            check_target(output, overwrite=False)
        measured = run_benchmark(
            benchmark,
            scale=scale,
            engines=engine or ["local", "spark"],
            scenarios=scenario or [],
            only=only or [],
            repeat=repeat,
            limits=Limits.of_this_machine(timeout_s),
            announce=lambda line: messages().print(Text(line), soft_wrap=True),
        )
        _show(benchmark, measured, output)

    return measure


def _help(benchmark: Benchmark) -> str:
    """Return what the command says of itself."""
    scales = "\n\n".join(f"--scale {name}: {meaning}" for name, meaning in benchmark.scales.items())
    first = benchmark.scenarios(benchmark.usual_scale)[0]
    return (
        f"Measure {benchmark.title}: every contestant in turn, its answer checked.\n\n"
        "What is not installed is left out. Tables are generated once and kept in the user's cache folder.\n\n"
        f"{scales}\n\n[dim]juncture bench {benchmark.name} --scenario {first} --repeat 5[/dim]"
    )


for _benchmark in (ASOF, RANGE, EQUI):
    app.command(_benchmark.name, help=_help(_benchmark))(_command(_benchmark))


def _show(benchmark: Benchmark, measured: list[dict[str, Any]], output: Path | None) -> None:
    """Show what was measured, and save it if that is wanted."""
    from rich.markdown import Markdown

    console = results()
    for scenario in measured:
        table = benchmark.table(scenario)
        console.print(heading(scenario["title"]))
        console.print(Markdown(table) if console.is_terminal else Text(table), soft_wrap=not console.is_terminal)
    if output is not None:
        save_results(output, measured)
        messages().print(Text(f"Saved in {output}."), soft_wrap=True)
