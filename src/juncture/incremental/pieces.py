"""Rows of tables in pieces that fit in memory, and epochs of a log that are replayed together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches, ChangesByName
from juncture.incremental.state.policy import ROW_BYTES

Piece = dict[str, ChangeBatches]
"""Rows by source."""

_FOLLOWING = 4  # Output rows per input row in a piece of full size. They have fewer columns, and are short-lived.

_CAREFUL = 16  # the first piece of a source is smaller by this factor, and pieces grow by it at most


class PieceSize:
    """The bytes of a source to load at once. ``most_bytes`` limits the rows and the rows that follow from them."""

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.now_bytes = most_bytes

    def begin(self) -> None:
        """Reset for the next source, whose rows may have any number of matches."""
        self.now_bytes = self.most_bytes / _CAREFUL

    def fits(self, nbytes: int) -> bool:
        """Return whether rows that belong together can be one piece."""
        return nbytes <= _FOLLOWING * self.now_bytes

    def adapt(self, rows: int, most_rows: int) -> None:
        """Adapt the size to the rows of the last piece and the largest output of a join."""
        share = min(1.0, _FOLLOWING * rows / most_rows) if most_rows else 1.0
        self.now_bytes = min(_CAREFUL * self.now_bytes, self.most_bytes * share)


def pieces(streams: Mapping[Any, Iterable[ChangeBatch]], together: Collection[str], size: PieceSize) -> Iterator[Piece]:
    """Yield at least one piece of rows. The sources in ``together`` are in the first piece, whatever their size."""
    piece: Piece = {}
    taken, is_first = 0.0, True
    for source in sorted(streams, key=lambda each: each not in together):
        if not is_first:
            if piece:
                yield piece
            piece, taken = {}, 0.0
            size.begin()
        for change in streams[source]:
            batch = change.rows
            row_bytes = ROW_BYTES + batch.nbytes / max(batch.num_rows, 1)
            first = 0
            while first < batch.num_rows:
                if taken >= size.now_bytes and source not in together:
                    yield piece
                    piece, taken, is_first = {}, 0.0, False
                room = batch.num_rows if source in together else (size.now_bytes - taken) / row_bytes
                count = min(batch.num_rows - first, int(max(1, min(room, batch.num_rows))))
                piece.setdefault(source, []).append(change.slice(first, count))
                taken += row_bytes * count
                first += count
    if piece or is_first:
        yield piece


def combined(epochs: Iterable[ChangesByName], most_rows: int) -> Iterator[list[ChangesByName]]:
    """Yield consecutive epochs together, with about ``most_rows`` changes or one epoch."""
    some: list[ChangesByName] = []
    rows = 0
    for epoch in epochs:
        some.append(epoch)
        rows += sum(len(weights) for batches in epoch.values() for _, weights in batches)
        if rows >= most_rows:
            yield some
            some, rows = [], 0
    if some:
        yield some
