"""Candidates: pairs of rows with equal keys that satisfy the relations of codes, found among sorted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, IntTable, Positions

Keys = npt.NDArray[Any]
"""Key codes, or keys that are integers."""

_ROOM_LEAST, _ROOM_FIRST, _ROOM_MOST = 1 << 10, 1 << 14, 1 << 20
"""Number of pairs to find at once. It starts between the first two, and doubles up to the third."""


def key_groups(keys: Codes, codes: IntTable, least: Ints | None = None) -> tuple[Codes, Ints]:
    """Return the distinct keys of sorted rows and the starts of their rows, with the end; write the least codes."""
    starts, groups = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int32)
    count = kernels.index_rows(keys, codes, starts, groups, np.empty(len(codes), np.int64) if least is None else least)
    return groups[:count], starts[: count + 1]


def matching_pairs(
    keys: Codes, codes: IntTable, matching: int, groups: Codes, starts: Ints, stored_codes: IntTable, reach: int
) -> Iterator[tuple[Codes, Codes]]:
    """Yield matching pairs in blocks, as the kernel `find_matches` writes them."""

    def find(resume: Ints, rows: Codes, positions: Codes) -> int:
        return kernels.find_matches(keys, codes, matching, groups, starts, stored_codes, reach, resume, rows, positions)

    return in_blocks(len(keys), np.array([0, -1], np.int64), find)


def in_blocks(count: int, resume: Ints, find: Callable[[Ints, Codes, Codes], int]) -> Iterator[tuple[Codes, Codes]]:
    """Yield matching pairs of `count` new rows in blocks, as `KeyedSegment.find`.

    ``find`` writes as many pairs as there is room for, and returns how many. It updates ``resume``: the first number is
    the row to continue from, and the others are its progress within this row.
    """
    room = min(max(_ROOM_LEAST, 2 * count), _ROOM_FIRST)
    while resume[0] < count:
        rows, positions = np.empty(room, np.int32), np.empty(room, np.int32)
        written = find(resume, rows, positions)
        if written:
            yield rows[:written], positions[:written]
        room = min(2 * room, _ROOM_MOST)


def first_codes(codes: IntTable) -> Ints:
    """Return the codes to sort by."""
    return np.ascontiguousarray(codes[0]) if len(codes) else np.zeros(codes.shape[1], np.int64)


def lines_of(codes: IntTable, rows: Positions) -> IntTable:
    """Return the codes of some rows, line by line, which is several times as fast as all lines at once."""
    selected = np.empty((len(codes), len(rows)), np.int64)
    for line, out in zip(codes, selected, strict=True):
        np.take(line, rows, out=out, mode="clip")
    return selected
