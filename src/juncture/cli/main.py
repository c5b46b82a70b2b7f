"""The command `juncture`, whose commands are imported on first use, so that each loads only what it needs."""

from __future__ import annotations

import logging
import signal
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from juncture import __version__
from juncture.cli.console import quiet, show_log
from juncture.cli.failures import ReportingGroup

_COMMANDS = {
    "join": ("juncture.cli.join:app", "Join two files."),
    "explain": ("juncture.cli.explain:app", "Explain how Juncture would join two files, or run a pipeline."),
    "view": (
        "juncture.cli.view:view",
        "Maintain the result of an SQL query: changes of its tables in, changes of the result out.",
    ),
    "init": ("juncture.cli.pipeline:init", "Create an example pipeline with its data."),
    "check": (
        "juncture.cli.pipeline:check",
        "Validate a pipeline against its source schemas, without reading rows or starting Spark.",
    ),
    "verify": (
        "juncture.cli.pipeline:verify",
        "Compare the steps of a pipeline in one batch, as streams and over changes.",
    ),
    "run": (
        "juncture.cli.pipeline:run",
        "Run a pipeline: read, join, check and write. Skip sinks whose inputs are unchanged.",
    ),
    "calibrate": ("juncture.cli.machine:calibrate", "Measure the planner's cost constants on this machine."),
    "warmup": ("juncture.cli.machine:warmup", "Compile the kernels of all joins ahead of the first join."),
}
"""The import path and the summary of each command."""

_GROUP = "juncture.commands"  # the entry points of other packages that add commands, such as the benchmarks


class LazyCommand(TyperCommand):
    """A command that is imported when it runs or shows its help; `summary` is its line in the list of commands."""

    def __init__(self, entry_point: EntryPoint, summary: str) -> None:
        super().__init__(entry_point.name, help=summary)
        self._entry_point = entry_point

    def load(self) -> Any:
        """Import the command."""
        loaded = self._entry_point.load()
        if isinstance(loaded, typer.Typer):
            command: Any = typer.main.get_group(loaded)
        else:
            app = typer.Typer(add_completion=False)
            app.command(self._entry_point.name)(loaded)
            command = typer.main.get_command(app)
        command.name = self._entry_point.name
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return a context of the imported command."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(ReportingGroup):
    """The root command, whose commands are loaded one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (object_path, summary) in _COMMANDS.items():
            self.add_command(LazyCommand(EntryPoint(name, object_path, _GROUP), summary))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *_others()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of that name."""
        command = super().get_command(ctx, cmd_name)
        return _others().get(cmd_name) if command is None else command


def _others() -> dict[str, LazyCommand]:
    return {
        each.name: LazyCommand(each, each.dist.metadata["Summary"] if each.dist is not None else "")
        for each in entry_points(group=_GROUP)
    }


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
        context.with_resource(show_log("juncture", level, "%(levelname)s %(name)s: %(message)s"))


def main() -> None:
    """Run the command line."""
    # Exit normally on SIGTERM, so that partial outputs are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app()
