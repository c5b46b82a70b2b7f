"""What the library logs, shown on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _Lines(logging.Handler):
    """Writes each record as a line to standard error as it is then: a bar that moves there makes room for it."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


@contextmanager
def shown(name: str, level: int, form: str = "%(message)s") -> Iterator[None]:
    """Show what a logger gets while the block runs, unless that is shown already.

    Parameters
    ----------
    name
        The logger.
    level
        What is shown: at least so serious.
    form
        A line, as `logging.Formatter` takes it.
    """
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
