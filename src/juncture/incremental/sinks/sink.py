"""What takes the changes of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from juncture.errors import SpecError

Write = Callable[[int, list[pa.RecordBatch]], object]
"""Takes the number of an epoch, and what has changed in it."""


@runtime_checkable
class Sink(Protocol):
    """Takes the changes of an answer, epoch by epoch."""

    def open(self, schema: pa.Schema, state: str, /) -> int | None:
        """Return the last epoch that has been taken, 0 if none has; None if that is not known.

        After an error it is called again.

        Parameters
        ----------
        schema
            The columns of changes, ``_weight`` among them.
        state
            What tells one state from another.
        """

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Take an epoch as a whole, or not at all."""

    def close(self) -> None:
        """Let go of connections and files."""


class Callback:
    """A function that takes the changes of an answer.

    Since nothing tells which epochs it has taken, the last one may come twice after a crash or an error of the
    function, with the same number.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._state: str | None = None
        self._epoch: int | None = None

    def open(self, _schema: pa.Schema, state: str, /) -> int | None:
        """Return the last epoch that the function has taken from here; None if it has not been called yet."""
        if state != self._state:
            self._state, self._epoch = state, None
        return self._epoch

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Call the function."""
        self._write(epoch, list(changes))
        self._epoch = epoch

    def close(self) -> None:
        """Do nothing."""


def sink_of(given: Sink | Write) -> Sink:
    """Return what takes the changes of an answer."""
    if isinstance(given, Sink):
        return given
    if not callable(given):
        raise SpecError(
            f"sink={given!r} ({type(given).__name__}) is not a sink. Expected jn.into_postgres(…), jn.into_files(…), "
            "or a function of an epoch's number and its changes.",
            name="JN-ARGUMENT-TYPE",
        )
    return Callback(given)
