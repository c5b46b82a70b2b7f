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
def bit_at(bits: Any, index: Any) -> Any:
    """Return one of many bits."""
    return (bits[index >> 3] >> (index & 7)) & 1


@inlined
def is_there(valid: Any, index: Any) -> Any:
    """Return whether a value is not null; without validity bits, none is."""
    return len(valid) == 0 or bit_at(valid, index) != 0


@inlined
def edges_at(edges: Any, index: Any, edge_width: Any) -> Any:
    """Return the start and end of a text, from two adjacent offsets of 4 or 8 bytes."""
    if edge_width == 8:
        return np.int64(word_at(edges, np.uint64(8 * index))), np.int64(word_at(edges, np.uint64(8 * index + 8)))
    both = word_at(edges, np.uint64(4 * index))
    return np.int64(both & _HALF), np.int64(both >> _HALF_BITS)


@compiled
def copy_pieces(offsets: Ints, data: Bytes, positions: IntsOut, target: BytesOut) -> None:
    """Copy each piece ``data[offsets[i]:offsets[i + 1]]`` to its position in ``target``, and advance the positions."""
    for i in range(len(positions)):
        position = positions[i]
        for index in range(offsets[i], offsets[i + 1]):
            target[position] = data[index]
            position += 1
        positions[i] = position


@compiled
def escaped_lengths(offsets: Ints, data: Bytes, lengths: IntsOut) -> None:
    """Write the length of each piece with escaped zeros and its terminator."""
    for i in range(len(lengths)):
        length = offsets[i + 1] - offsets[i] + 1
        for index in range(offsets[i], offsets[i + 1]):
            length += data[index] == 0
        lengths[i] = length


@compiled
def copy_escaped(offsets: Ints, data: Bytes, positions: Ints, target: BytesOut) -> None:
    """Write each piece with escaped zeros and a terminator to its position in ``target``."""
    for i in range(len(positions)):
        position = positions[i]
        for index in range(offsets[i], offsets[i + 1]):
            target[position] = data[index]
            position += 1
            if data[index] == 0:
                target[position] = _ESCAPE
                position += 1
        target[position] = 0


@compiled
def add_lengths(first: int, valid: Bytes, width: int, edges: Bytes, edge_width: int, lengths: IntsOut) -> None:
    """Add the bytes that `append_values` writes for each value to ``lengths``; other arguments as there."""
    for i in range(len(lengths)):
        index = first + i
        lengths[i] += 1
        if is_there(valid, index):
            if edge_width == 0:
                lengths[i] += width
            else:
                begin, end = edges_at(edges, index, edge_width)
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
        index, position = first + i, positions[i]
        here = is_there(valid, index)
        target[position] = here
        position += 1
        if here:
            begin, end = index * width, index * width + width
            if edge_width != 0:
                begin, end = edges_at(edges, index, edge_width)
                for byte in range(_LENGTH_BYTES):
                    target[position] = ((end - begin) >> (8 * byte)) & 0xFF
                    position += 1
            for source in range(begin, end):
                target[position] = values[source]
                position += 1
        positions[i] = position
