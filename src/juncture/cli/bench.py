"""`juncture bench`: ours beside the peers that are installed, on the same data in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from juncture.cli.console import messages, results
from juncture.cli.output import check_target
from juncture.cli.show import heading

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Measure joins beside those of other libraries.", rich_markup_mode="rich")


@app.callback()
def benches() -> None:
    """Measure joins beside those of other libraries. Every answer is checked before its time is shown."""


@app.command("asof")
def asof(
    scale: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="small (1M by 10M rows), medium (10M by 100M) or large (50M by 500M, ours alone)."
        ),
    ] = "small",
    engine: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="local or spark; both if it is left out.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Contestant, such as juncture, polars or duckdb; may be repeated."),
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="COUNT", help="Times round, of which the medians are shown.")] = 3,
    timeout_s: Annotated[float, typer.Option(metavar="SECONDS", help="When a single run is stopped.")] = 600.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Where to save all figures, as JSON.")
    ] = None,
) -> None:
    """Measure as-of joins: time, peak memory and busy cores of each contestant.

    Peers that are not installed are left out. Tables are generated once and kept in the user's cache folder.

    [dim]juncture bench asof --scale small
    juncture bench asof --engine local --only juncture --only polars --repeat 5[/dim]
    """
    from juncture.bench.asof.scenarios import bench_asof
    from juncture.bench.harness import Limits

    if output is not None:
        check_target(output, overwrite=False)
    wanted: dict[str, Any] = {"scale": scale, "engines": engine or ["local", "spark"], "only": only or []}
    measured = bench_asof(
        **wanted,
        repeat=repeat,
        limits=Limits.of_this_machine(timeout_s),
        announce=lambda line: messages().print(Text(line), soft_wrap=True),
    )
    _show(measured, output)


@app.command("range")
def range_(
    scale: Annotated[
        str, typer.Option(metavar="NAME", help="full, or tiny for the same with few rows, to see that all works.")
    ] = "full",
    engine: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="local or spark; both if it is left out.")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Scenario, such as local-band, or what several begin with, such as spark-skew; may be repeated.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Contestant, such as juncture, polars or duckdb; may be repeated."),
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="COUNT", help="Times round, of which the medians are shown.")] = 3,
    timeout_s: Annotated[float, typer.Option(metavar="SECONDS", help="When a single run is stopped.")] = 600.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Where to save all figures, as JSON.")
    ] = None,
) -> None:
    """Measure range and overlap joins: time, peak memory and busy cores of each contestant.

    Peers that are not installed are left out. Tables are generated once and kept in the user's cache folder.

    [dim]juncture bench range --scenario local-band --scenario local-overlap
    juncture bench range --engine spark --scale tiny[/dim]
    """
    from juncture.bench.harness import Limits
    from juncture.bench.range.scenarios import bench_range

    if output is not None:
        check_target(output, overwrite=False)
    wanted: dict[str, Any] = {
        "scale": scale,
        "engines": engine or ["local", "spark"],
        "scenarios": scenario or [],
        "only": only or [],
    }
    measured = bench_range(
        **wanted,
        repeat=repeat,
        limits=Limits.of_this_machine(timeout_s),
        announce=lambda line: messages().print(Text(line), soft_wrap=True),
    )
    _show(measured, output)


def _show(measured: list[dict[str, Any]], output: Path | None) -> None:
    """Show what was measured, and save it if that is wanted."""
    from rich.markdown import Markdown

    from juncture.bench.harness import save_results
    from juncture.bench.report import markdown_table

    console = results()
    for scenario in measured:
        table = markdown_table(scenario)
        console.print(heading(scenario["title"]))
        console.print(Markdown(table) if console.is_terminal else Text(table), soft_wrap=not console.is_terminal)
    if output is not None:
        save_results(output, measured)
        messages().print(Text(f"Saved in {output}."), soft_wrap=True)
