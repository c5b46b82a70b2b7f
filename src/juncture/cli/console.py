"""The consoles of the command line: results on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


def requested() -> Console:
    """Return a console on the current standard error, for requested output other than rows."""
    return Console(stderr=True, highlight=False)


def failures() -> Console:
    """Return a console on the current standard error, for errors."""
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
