"""The library's log on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _Lines(logging.Handler):
    """Writes records to the current standard error, so that a progress bar makes room for them."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


@contextmanager
def shown(name: str, level: int, form: str = "%(message)s") -> Iterator[None]:
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
