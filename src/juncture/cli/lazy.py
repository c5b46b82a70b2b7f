"""Commands that are loaded when they are asked for, so that what a user waits for is what the command needs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from juncture.cli.failures import ReportingGroup

_COMMANDS = {
    "join": "juncture.cli.join:app",
    "explain": "juncture.cli.explain:app",
    "init": "juncture.cli.pipeline:init",
    "check": "juncture.cli.pipeline:check",
    "run": "juncture.cli.pipeline:run",
    "calibrate": "juncture.cli.calibrate:calibrate",
    "demo": "juncture.cli.demo:app",
    "warmup": "juncture.cli.warmup:warmup",
}
"""Where each command is."""

_GROUP = "juncture.commands"
"""The entry points of other packages that are commands too, the benchmarks for one."""


class LazyGroup(ReportingGroup):
    """The root command, whose commands are loaded one by one."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*_COMMANDS, *(each.name for each in _others()), *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of that name."""
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name].partition(":")
            return _command(cmd_name, getattr(import_module(module), attribute))
        other = next((each for each in _others() if each.name == cmd_name), None)
        return super().get_command(ctx, cmd_name) if other is None else _command(cmd_name, other.load())


def _others() -> list[EntryPoint]:
    return list(entry_points(group=_GROUP))


def _command(name: str, loaded: Any) -> Any:
    """Return the command of a function, or of an application of commands."""
    if isinstance(loaded, typer.Typer):
        command: Any = typer.main.get_group(loaded)
    else:
        app = typer.Typer(add_completion=False)
        app.command(name)(loaded)
        command = typer.main.get_command(app)
    command.name = name
    return command
