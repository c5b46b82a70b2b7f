"""Where the command line writes: results to standard output, all else to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console

_IS_QUIET: ContextVar[bool] = ContextVar("is_quiet", default=False)

WIDTH_OF_PIPES = 1_000_000
"""Width of pipes and files, so that rows are not cut."""


def results() -> Console:
    """Return a console on standard output, as it is now."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_PIPES)


def messages() -> Console:
    """Return a console on standard error, as it is now, for what can be done without."""
    return Console(stderr=True, highlight=False, quiet=is_quiet())


def asked_for() -> Console:
    """Return a console on standard error, as it is now, for requested output other than rows."""
    return Console(stderr=True, highlight=False)


def failures() -> Console:
    """Return a console on standard error, as it is now, for what a user has to know."""
    return Console(stderr=True, highlight=False)


def is_quiet() -> bool:
    """Return whether nothing is to be shown but results and failures."""
    return _IS_QUIET.get()


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress and no messages while the block runs, but for failures."""
    token = _IS_QUIET.set(True)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)
