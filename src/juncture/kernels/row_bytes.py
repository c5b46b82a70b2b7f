"""Bytes of rows, assembled from pieces; zero-terminated pieces have escaped zeros. Columns are in Arrow's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.array_types import Bytes, BytesOut, Ints, IntsOut
from juncture.kernels.compiled import compiled, inlined
from juncture.kernels.intrinsics import word_at

_ESCAPE = 0xFF
_LENGTH_BYTES = 4
_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


@inlined
def bit_at(bits: Any, place: Any) -> Any:
    """Return one of many bits."""
    return (bits[place >> 3] >> (place & 7)) & 1


@inlined
def is_there(valid: Any, place: Any) -> Any:
    """Return whether a value is not null; without validity bits, none is."""
    return len(valid) == 0 or bit_at(valid, place) != 0


@inlined
def edges_at(edges: Any, place: Any, edge_width: Any) -> Any:
    """Return the start and end of a text, from two adjacent offsets of 4 or 8 bytes."""
    if edge_width == 8:
        return np.int64(word_at(edges, np.uint64(8 * place))), np.int64(word_at(edges, np.uint64(8 * place + 8)))
    both = word_at(edges, np.uint64(4 * place))
    return np.int64(both & _HALF), np.int64(both >> _HALF_BITS)


@compiled
def copy_pieces(offsets: Ints, data: Bytes, positions: IntsOut, target: BytesOut) -> None:
    """Copy each piece ``data[offsets[i]:offsets[i + 1]]`` to its position in ``target``, and advance the positions."""
    for i in range(len(positions)):
        position = positions[i]
        for place in range(offsets[i], offsets[i + 1]):
            target[position] = data[place]
            position += 1
        positions[i] = position


@compiled
def escaped_lengths(offsets: Ints, data: Bytes, lengths: IntsOut) -> None:
    """Write the length of each piece with escaped zeros and its terminator."""
    for i in range(len(lengths)):
        length = offsets[i + 1] - offsets[i] + 1
        for place in range(offsets[i], offsets[i + 1]):
            length += data[place] == 0
        lengths[i] = length


@compiled
def copy_escaped(offsets: Ints, data: Bytes, positions: Ints, target: BytesOut) -> None:
    """Write each piece with escaped zeros and a terminator to its position in ``target``."""
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
def add_lengths(first: int, valid: Bytes, width: int, edges: Bytes, edge_width: int, lengths: IntsOut) -> None:
    """Add the bytes that `append_values` writes for each value to ``lengths``; other arguments as there."""
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
    """Write the validity and the bytes of each value, for texts after their length.

    Value ``i`` is the one at ``first + i``; ``valid`` is empty if all are valid, and ``edge_width`` is 0 for values
    other than texts. ``positions`` in ``target`` are advanced.
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
