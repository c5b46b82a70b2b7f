"""The first rows of a view, piece by piece: so many at a time that what follows from them fits in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.incremental.view.operators.operator import Change, Flow

Piece = dict[str, Flow]
"""Rows of sources."""

_ROW_BYTES = 60
"""What a row in memory takes besides its columns, about."""

_FOLLOWING = 4
"""How many rows may follow from each that comes in a piece of full size: they have fewer columns, and are soon gone."""

_CAREFUL = 16
"""By how much the first piece of a source is smaller than it may be, and pieces grow."""


class PieceSize:
    """How much of a source to take at once, so that what follows from it fits in memory as well.

    Parameters
    ----------
    most_bytes
        How much rows that are there at once may take.
    """

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.now_bytes = most_bytes

    def begin(self) -> None:
        """Begin with another source, when others are there: a row of it may have any number of matches."""
        self.now_bytes = self.most_bytes / _CAREFUL

    def seen(self, rows: int, most_rows: int) -> None:
        """Take note of how many rows came, and how many followed from them where it was most."""
        self.now_bytes = min(
            _CAREFUL * self.now_bytes, self.most_bytes * min(1.0, _FOLLOWING * rows / max(most_rows, 1))
        )


def pieces(streams: Mapping[str, Iterable[Change]], together: Collection[str], size: PieceSize) -> Iterator[Piece]:
    """Yield the rows of sources piece by piece, at least one.

    Parameters
    ----------
    streams
        The rows.
    together
        Sources that all come in the first piece, whatever their size.
    size
        How much may come at once, about.
    """
    piece: Piece = {}
    taken, is_first = 0.0, True
    for source in sorted(streams, key=lambda each: each not in together):
        if not is_first:
            if piece:
                yield piece
            piece, taken = {}, 0.0
            size.begin()
        for batch, weights in streams[source]:
            row_bytes = _ROW_BYTES + batch.nbytes / max(batch.num_rows, 1)
            first = 0
            while first < batch.num_rows:
                if taken >= size.now_bytes and source not in together:
                    yield piece
                    piece, taken, is_first = {}, 0.0, False
                room = batch.num_rows if source in together else (size.now_bytes - taken) / row_bytes
                count = min(batch.num_rows - first, int(max(1, min(room, batch.num_rows))))
                piece.setdefault(source, []).append((batch.slice(first, count), weights[first : first + count]))
                taken += row_bytes * count
                first += count
    if piece or is_first:
        yield piece


def deletes_last(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield changes with those that delete rows at the end, when all that they may delete is there."""
    deletes: Flow = []
    for batch, weights in changes:
        going = weights < 0
        if not going.any():
            yield batch, weights
            continue
        inserts: Flow = []
        for mask, found in ((going, deletes), (~going, inserts)):
            rows = np.flatnonzero(mask)
            found.append((rows_of(batch, array_of(rows, pa.int64())), weights[rows]))
        yield from inserts
    yield from deletes
