"""How a command ends when something goes wrong: one readable block, and an exit code that scripts can rely on.

====  ==================================================================================
code  meaning
====  ==================================================================================
1     an unexpected error; ``--debug`` prints its traceback
2     a mistake in the arguments, the files or the data, with a message that says which
130   interrupted, and 143 ended by another process
141   the reader of the output has ended, as `head` does
====  ==================================================================================
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperGroup

from juncture.cli.console import errors
from juncture.errors import error_from_spark, optional_packages

_TITLES = {
    "SpecError": "Wrong argument",
    "SchemaError": "The join does not fit these tables",
    "PlanError": "The join cannot be run this way",
    "DataError": "Problem in the data",
    "StateError": "Problem with memory, disk or state",
    "PipelineError": "The pipeline has mistakes",
}


class ReportingGroup(TyperGroup):
    """The root command, which converts every error to a block of text and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; raise `typer.Exit` with the exit code of an error."""
        try:
            with optional_packages("This command"):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            errors().print("Interrupted; nothing was written.")
            raise typer.Exit(130) from None
        except typer.Abort:
            raise
        except BrokenPipeError:
            _forget_output()
            raise typer.Exit(141) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # Typer's own.
                _show_usage_error(error)
                raise typer.Exit(error.exit_code) from None
            raise typer.Exit(_show(error, debug=bool((ctx.obj or {}).get("debug")))) from None


def _forget_output() -> None:
    """Redirect standard output, so that Python's flush at exit does not fail."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _show(error: Exception, *, debug: bool) -> int:
    if debug:
        errors().print(Text("".join(traceback.format_exception(error)).rstrip()), soft_wrap=True)
    title_and_text = _title_and_text(error)
    if title_and_text is not None:
        _block(*title_and_text)
        return 2
    summary = str(error).strip().partition("\n")[0] or "no message"
    hint = "" if debug else " Run `juncture --debug …` to print the traceback."
    _block("Unexpected error", f"{type(error).__name__}: {summary}{hint}")
    return 1


def _show_usage_error(error: Any) -> None:
    """Print a usage error, and where to find help."""
    # Typer's own output takes as long to import as everything else.
    message = error.format_message() if hasattr(error, "format_message") else ""
    if not message.strip():
        return
    context = getattr(error, "ctx", None)
    path = "juncture" if context is None else context.command_path
    option = getattr(error, "option_name", None)
    root = None if context is None else context.find_root()
    if root is not None and any(option in each.opts for each in root.command.params):
        command = path.removeprefix(root.command_path).strip()
        message = f"{option} belongs before the command. Pass `{root.command_path} {option} {command} …`"
    _block("Wrong argument", f"{message.rstrip('.')}. Try `{path} --help`.")


def _title_and_text(error: Exception) -> tuple[str, str] | None:
    juncture_error = error_from_spark(error)
    if juncture_error is not None:
        return _TITLES.get(type(juncture_error).__name__, "Error"), str(juncture_error)
    if isinstance(error, OSError) and error.errno is not None:
        # Errors of writing, such as those of a full disk, name no file.
        prefix = "" if error.filename is None else f"{error.filename}: "
        return "Problem with a file", f"{prefix}{error.strerror or error}."
    return None


def _block(title: str, message: str) -> None:
    console = errors()
    console.print(Text(title, style="bold red"))
    # Lines are wrapped on a terminal only: in a log, a message stays on one line and can be searched for.
    body = Text(message) if console.is_terminal else Text(f"  {message}")
    console.print(Padding(body, (0, 2)) if console.is_terminal else body, soft_wrap=not console.is_terminal)
