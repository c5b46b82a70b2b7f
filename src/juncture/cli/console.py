"""Where the command line writes: results to standard output, all else to standard error."""

from __future__ import annotations

from rich.console import Console

__all__ = ["messages", "results"]


def results() -> Console:
    """Return a console on standard output, as it is now."""
    return Console(highlight=False)


def messages() -> Console:
    """Return a console on standard error, as it is now."""
    return Console(stderr=True, highlight=False)
