"""`juncture calibrate` and `juncture warmup`: measure this machine, and compile its kernels ahead."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from juncture import __version__
from juncture.cli.console import messages, results
from juncture.cli.progress import step
from juncture.cli.show import table_view
from juncture.files.output import check_target, replacing
from juncture.planner.constants import CONSTANTS_VARIABLE, Constants, constants_text
from juncture.runtime.threads import available_cores
from juncture.spec.arguments import check_choice

if TYPE_CHECKING:
    from juncture.kernels.warmup import Warmup


def calibrate(
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Engine to measure: local (in this process, default) or spark. Repeatable."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="Output path of the constants, as TOML.")
    ] = Path("juncture-constants.toml"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Measure the planner's cost constants on this machine.

    Takes some seconds in this process and about a minute on Spark. Keep the machine idle meanwhile.

    [dim]juncture calibrate --engine local --engine spark -o constants.toml
    JUNCTURE_CONSTANTS=constants.toml juncture explain asof a.parquet b.parquet --on ts[/dim]
    """
    engines = dict.fromkeys(engine or ["local"])
    for each in engines:
        check_choice("--engine", each, ("local", "spark"))
    check_target(output, overwrite=overwrite)
    measured: dict[str, float] = {}
    for each in engines:
        measured |= _local() if each == "local" else _spark()
    cores = available_cores()
    heading = (
        f"Cost of a row in each step of a join in core-nanoseconds (_ns), or of a step in seconds (_s).\n"
        f"Measured by juncture {__version__} calibrate for {' and '.join(engines)} on "
        f"{datetime.now(UTC):%Y-%m-%d}, {cores} cores, {platform.system()} {platform.machine()}.\n"
        f"The planner reads this file where the environment variable {CONSTANTS_VARIABLE} names it."
    )
    with replacing(output) as fresh:
        fresh.write_text(constants_text(measured, heading), encoding="utf-8")
    rows = [(name, f"{value:.3g}", f"{getattr(Constants, name):g}") for name, value in measured.items()]
    results().print(table_view(("constant", "measured", "built in"), rows, numbers=("measured", "built in")))
    messages().print(Text(f"Wrote {output}. To use it, set {CONSTANTS_VARIABLE}={output}"), soft_wrap=True)


def _local() -> dict[str, float]:
    from juncture.calibrate.local import measure_local

    with step("Measuring in-process") as measuring:
        return measure_local(lambda what: measuring.phase(what, 0, 0))


def _spark() -> dict[str, float]:
    from juncture.cli.spark import spark_session

    with spark_session() as session:
        from juncture.calibrate.spark import measure_spark

        with step("Measuring on Spark") as measuring:
            return measure_spark(session, lambda what: measuring.phase(what, 0, 0))


def warmup() -> None:
    """Compile the kernels of all joins ahead of the first join.

    All processes on this machine use the compiled kernels, including Spark workers. On a cluster, run this command on
    each node or while building its image.
    """
    from juncture.kernels.warmup import warm_up
    from juncture.runtime.threads import available_cores

    with step("Compiling kernels") as compiling:
        done = warm_up(compiling.update, processes=available_cores())
    results().print(_summary(done), markup=False, soft_wrap=True)


def _summary(done: Warmup) -> str:
    there = done.kernels - done.compiled
    text = f"Compiled {done.compiled} of {done.kernels} kernels in {done.seconds:.1f} s"
    if there:
        text = f"{text}, {there} were there" if done.compiled else f"All {there} kernels were there"
    if done.folders:
        return f"{text}, in {' and '.join(done.folders)}."
    return (
        f"{text}. No folder can be written to keep them, so each process compiles them anew: set NUMBA_CACHE_DIR to "
        "one that can."
    )
