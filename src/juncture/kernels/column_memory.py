"""The memory of a column in Arrow's layout, for kernels that read values in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from juncture.kernels.compiled import inlined
from juncture.kernels.intrinsics import word_at

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
