"""The command `juncture`."""

from __future__ import annotations

import logging
import signal
import sys
from typing import Annotated

import typer

from juncture import __version__
from juncture.cli.console import quiet
from juncture.cli.lazy import LazyGroup
from juncture.cli.log import shown

app = typer.Typer(
    name="juncture",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"juncture {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="JUNCTURE_DEBUG", help="Print the traceback of errors.")
    ] = False,
    is_quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, show_default=False, help="Log plans and spills; -vv logs each step."
        ),
    ] = 0,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Join tables by time or order, on Spark or in-process.

    [dim]juncture init example
    juncture join asof trades.parquet quotes.parquet --on ts --by symbol -o out.csv[/dim]
    """
    context.obj = {"debug": debug}
    if is_quiet:
        context.with_resource(quiet())
    if verbose:
        level = logging.INFO if verbose == 1 else logging.DEBUG
        context.with_resource(shown("juncture", level, "%(levelname)s %(name)s: %(message)s"))


def main() -> None:
    """Run the command line."""
    # Exit normally on SIGTERM, so that partial outputs are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
