"""The consoles of the command line: results on standard output, messages and the log on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer
from rich.console import Console

_IS_QUIET: ContextVar[bool] = ContextVar("is_quiet", default=False)

WIDTH_OF_PIPES = 1_000_000
"""Width of pipes and files, so that rows are not cut."""


def results() -> Console:
    """Return a console on the current standard output."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_PIPES)


def messages() -> Console:
    """Return a console on the current standard error, for messages that --quiet suppresses."""
    return Console(stderr=True, highlight=False, quiet=is_quiet())


def errors() -> Console:
    """Return a console on the current standard error, for errors and requested output other than rows."""
    return Console(stderr=True, highlight=False)


def is_quiet() -> bool:
    """Return whether only results and errors are printed."""
    return _IS_QUIET.get()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress and messages, other than errors, in the block."""
    token = _IS_QUIET.set(True)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)


class _Lines(logging.Handler):
    """Writes records to the current standard error, so that a progress bar makes room for them."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


@contextmanager
def show_log(name: str, level: int, form: str = "%(message)s") -> Iterator[None]:
    """Print the records of a logger from a level on in the block, unless they are printed already."""
    logger, handler = logging.getLogger(name), _Lines(level)
    if logger.isEnabledFor(level):
        yield
        return
    handler.setFormatter(logging.Formatter(form))
    earlier = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(earlier)
        logger.removeHandler(handler)
