"""The interface of sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from juncture.errors import SpecError

Write = Callable[[int, list[pa.RecordBatch]], object]
"""A function of the number of an epoch and its changes."""


@runtime_checkable
class Sink(Protocol):
    """Commits the changes of a result, epoch by epoch."""

    def open(self, schema: pa.Schema, state: str, /) -> int | None:
        """Return the last committed epoch, 0 if there is none; None if that is unknown. Called again after an error.

        Parameters
        ----------
        schema
            Columns of the changes, including ``_weight``.
        state
            Identifier of the state.
        """

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Commit an epoch atomically."""

    def close(self) -> None:
        """Close connections and files. By default, none is open."""
        return


class Callback(Sink):
    """A function as a sink. After a restart or error, the last epoch may be passed twice, with the same number."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._state: str | None = None
        self._epoch: int | None = None

    def open(self, _schema: pa.Schema, state: str, /) -> int | None:
        """Return the last epoch that the function has processed; None if it has not been called yet."""
        if state != self._state:
            self._state, self._epoch = state, None
        return self._epoch

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Call the function."""
        self._write(epoch, list(changes))
        self._epoch = epoch


def sink_of(sink: Sink | Write) -> Sink:
    """Return a sink, or a function as a sink."""
    if isinstance(sink, Sink):
        return sink
    if not callable(sink):
        raise SpecError(
            f"sink={sink!r} ({type(sink).__name__}) is not a sink. Expected jn.into_postgres(…), jn.into_files(…), "
            "or a function of an epoch's number and its changes.",
            name="JN-ARGUMENT-TYPE",
        )
    return Callback(sink)
