"""Bytes of rows, put together from pieces and taken apart again; what ends with a zero has its own zeros escaped."""

from __future__ import annotations

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Ints, IntsOut
from juncture.kernels.column_memory import edges_at, is_there
from juncture.kernels.compiled import compiled

_ESCAPE = 0xFF
_LENGTH_BYTES = 4


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


@compiled
def add_lengths(first: int, valid: Bytes, width: int, edges: Bytes, edge_width: int, lengths: IntsOut) -> None:
    """Add how many bytes `append_values` writes for each value.

    Parameters
    ----------
    first, valid, width, edges, edge_width
        As there.
    lengths
        Added to.
    """
    for i in range(len(lengths)):
        place = first + i
        lengths[i] += 1
        if is_there(valid, place):
            if edge_width == 0:
                lengths[i] += width
            else:
                begin, end = edges_at(edges, place, edge_width)
                lengths[i] += _LENGTH_BYTES + end - begin


@compiled
def append_values(
    first: int,
    valid: Bytes,
    values: Bytes,
    width: int,
    edges: Bytes,
    edge_width: int,
    positions: IntsOut,
    target: BytesOut,
) -> None:
    """Write whether values are there, and their bytes, those of texts after how many they are.

    Parameters
    ----------
    first, valid
        Value ``i`` is the one at ``first + i``: its validity bit; the array is empty if all
        are not.
    values, width
        Their bytes, and how many each has.
    edges, edge_width
        Where each text begins, and where the last one ends; how many bytes that takes, 0 for other values.
    positions
        Where each goes; moved on.
    target
        Out: the bytes.
    """
    for i in range(len(positions)):
        place, position = first + i, positions[i]
        here = is_there(valid, place)
        target[position] = here
        position += 1
        if here:
            begin, end = place * width, place * width + width
            if edge_width != 0:
                begin, end = edges_at(edges, place, edge_width)
                for byte in range(_LENGTH_BYTES):
                    target[position] = ((end - begin) >> (8 * byte)) & 0xFF
                    position += 1
            for source in range(begin, end):
                target[position] = values[source]
                position += 1
        positions[i] = position
