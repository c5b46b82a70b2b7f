"""Bytes of rows, put together from pieces and taken apart again; what ends with a zero has its own zeros escaped."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Ints, IntsOut
from juncture.kernels.compiled import compiled

_ESCAPE = 0xFF


@compiled
def copy_pieces(offsets: Ints, data: Bytes, positions: IntsOut, target: BytesOut) -> None:
    """Copy a piece of bytes to each position, and move the positions behind them.

    Parameters
    ----------
    offsets, data
        Piece ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
    positions
        Where each goes; moved on.
    target
        Out: the bytes.
    """
    for i in range(len(positions)):
        position = positions[i]
        for place in range(offsets[i], offsets[i + 1]):
            target[position] = data[place]
            position += 1
        positions[i] = position


@compiled
def copy_spans(starts: Ints, lengths: Ints, data: Bytes, positions: IntsOut, target: BytesOut) -> None:
    """Copy spans of bytes to some positions, and move the positions behind them.

    Parameters
    ----------
    starts, lengths, data
        Span ``i`` is ``data[starts[i]:starts[i] + lengths[i]]``.
    positions
        Where each goes; moved on.
    target
        Out: the bytes.
    """
    for i in range(len(positions)):
        position = positions[i]
        for place in range(starts[i], starts[i] + lengths[i]):
            target[position] = data[place]
            position += 1
        positions[i] = position


@compiled
def escaped_lengths(offsets: Ints, data: Bytes, lengths: IntsOut) -> None:
    """Count the bytes of each piece once its zeros are escaped and it has its end.

    Parameters
    ----------
    offsets, data
        The pieces.
    lengths
        Out: their lengths.
    """
    for i in range(len(lengths)):
        length = offsets[i + 1] - offsets[i] + 1
        for place in range(offsets[i], offsets[i + 1]):
            length += data[place] == 0
        lengths[i] = length


@compiled
def copy_escaped(offsets: Ints, data: Bytes, positions: Ints, target: BytesOut) -> None:
    """Write each piece with its zeros escaped, and a zero at its end.

    Parameters
    ----------
    offsets, data
        The pieces.
    positions
        Where each goes.
    target
        Out: the bytes.
    """
    for i in range(len(positions)):
        position = positions[i]
        for place in range(offsets[i], offsets[i + 1]):
            target[position] = data[place]
            position += 1
            if data[place] == 0:
                target[position] = _ESCAPE
                position += 1
        target[position] = 0


@compiled
def unescaped_lengths(data: Bytes, positions: IntsOut, lengths: IntsOut) -> None:
    """Count the bytes of escaped pieces as they were, and move the positions behind their ends.

    Parameters
    ----------
    data
        The bytes of rows.
    positions
        Where each piece begins; moved on.
    lengths
        Out: how many bytes it was.
    """
    for i in range(len(positions)):
        position = positions[i]
        length = np.int64(0)
        while data[position] != 0 or (position + 1 < len(data) and data[position + 1] == _ESCAPE):
            position += 2 if data[position] == 0 else 1
            length += 1
        positions[i] = position + 1
        lengths[i] = length


@compiled
def copy_unescaped(data: Bytes, positions: Ints, offsets: Ints, target: BytesOut) -> None:
    """Copy escaped pieces as they were.

    Parameters
    ----------
    data
        The bytes of rows.
    positions
        Where each piece begins.
    offsets
        Where each goes, and where the last one ends.
    target
        Out: the bytes.
    """
    for i in range(len(positions)):
        position = positions[i]
        for place in range(offsets[i], offsets[i + 1]):
            target[place] = data[position]
            position += 2 if data[position] == 0 else 1
