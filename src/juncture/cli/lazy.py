"""Commands that are loaded when they are asked for, so that what a user waits for is what the command needs."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from juncture.cli.failures import ReportingGroup

_COMMANDS = {
    "join": ("juncture.cli.join:app", "Join two tables that are in files."),
    "explain": ("juncture.cli.explain:app", "Say how tables in files would be joined."),
    "init": ("juncture.cli.pipeline:init", "Write a pipeline that runs, with its data, to begin from."),
    "check": (
        "juncture.cli.pipeline:check",
        "Hold a pipeline against the columns of its sources, without reading rows or starting Spark.",
    ),
    "run": (
        "juncture.cli.pipeline:run",
        "Run a pipeline: read, join, check, write. What is unchanged is not done again.",
    ),
    "calibrate": (
        "juncture.cli.calibrate:calibrate",
        "Measure what a row costs in each step of a join on this machine, for the planner to choose by.",
    ),
    "demo": ("juncture.cli.demo:app", "Join a year of flights to the weather, on Spark."),
    "warmup": (
        "juncture.cli.warmup:warmup",
        "Compile ahead what joins run, so that the first one does not wait for it.",
    ),
}
"""Where each command is, and what the list of commands says of it."""

_GROUP = "juncture.commands"
"""The entry points of other packages that are commands too, the benchmarks for one."""


class LazyCommand(TyperCommand):
    """A command of which no more than a line of help is known until it is run, or asked for its own help.

    Parameters
    ----------
    place
        Its name, and where it is.
    summary
        What the list of commands says of it.
    """

    def __init__(self, place: EntryPoint, summary: str) -> None:
        super().__init__(place.name, help=summary)
        self._place = place

    def load(self) -> Any:
        """Return the command itself."""
        loaded = self._place.load()
        if isinstance(loaded, typer.Typer):
            command: Any = typer.main.get_group(loaded)
        else:
            app = typer.Typer(add_completion=False)
            app.command(self._place.name)(loaded)
            command = typer.main.get_command(app)
        command.name = self._place.name
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return a context of the command itself, which is what runs in it."""
        return self.load().make_context(info_name, args, parent, **extra)


class LazyGroup(ReportingGroup):
    """The root command, whose commands are loaded one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (place, summary) in _COMMANDS.items():
            self.add_command(LazyCommand(EntryPoint(name, place, _GROUP), summary))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *_others()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of that name."""
        own = super().get_command(ctx, cmd_name)
        return _others().get(cmd_name) if own is None else own


def _others() -> dict[str, LazyCommand]:
    """Return the commands of other packages, of which their packages say what they are for."""
    return {
        each.name: LazyCommand(each, each.dist.metadata["Summary"] if each.dist is not None else "")
        for each in entry_points(group=_GROUP)
    }
