"""Sort rows into groups of equal key, ascending by ``on`` within each, with all threads whatever the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from juncture.kernels import sort as kernels
from juncture.kernels.array_types import Ints, Rows, Words
from juncture.kernels.intrinsics import WINDOW
from juncture.runtime.context import JoinContext
from juncture.runtime.threads import slices

ROWS_MOST = 1 << 29
"""The most rows that are sorted at once: positions are 32-bit integers."""

_SLICE_LEAST = 1 << 16
_DIGIT_BITS = 8


@dataclass(frozen=True)
class Slots:
    """Rows in the order of (key, on).

    Attributes
    ----------
    on
        The code of each slot, and `WINDOW` spare items.
    rows
        The row of each slot.
    starts
        The first slot of each key, and the number of slots at the end.
    """

    on: Ints
    rows: Rows
    starts: Ints

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def key_count(self) -> int:
        """The number of groups, empty ones included."""
        return len(self.starts) - 1

    def ranges(self, context: JoinContext) -> list[tuple[int, int, int]]:
        """Cut the slots into ranges for threads: first slot, end, and the group of the first."""
        ranges = slices(len(self), 4 * context.threads.count, least=_SLICE_LEAST)
        groups = np.searchsorted(self.starts, [first for first, _ in ranges], "right") - 1
        return [(first, end, int(group)) for (first, end), group in zip(ranges, groups, strict=True) if end > first]

    def group_ranges(self, context: JoinContext) -> list[tuple[int, int]]:
        """Cut the groups into ranges of about as many slots."""
        edges = {0, self.key_count, *(group for _, _, group in self.ranges(context))}
        ordered = sorted(edges)
        return list(pairwise(ordered))


def sort_slots(keys: Rows, on: Ints, rows: Rows, key_count: int, context: JoinContext) -> Slots:
    """Sort rows by key and ``on``, stably.

    Parameters
    ----------
    keys, on
        Key code and ``on`` code of all rows.
    rows
        The rows to sort; at most `ROWS_MOST`.
    key_count
        The number of key codes.
    context
        What the join may use.

    Notes
    -----
    A pass of 3 ns a row for each byte in which ``on`` codes differ, and for each byte of the key codes; none where the
    rows are sorted already. Needs 36 bytes a row while it runs, and leaves 12.
    """
    rows = _sorted(_offsets(_gather(on, rows, context)), rows, context)
    counts = np.bincount(keys[rows], minlength=key_count) if key_count > 1 else np.array([len(rows)])
    if key_count > 1:
        rows = _sorted(_gather(keys, rows, context).astype(np.uint64), rows, context)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Slots(_gather(on, rows, context, spare=WINDOW), rows, starts)


def order_of(keys: Sequence[Ints], context: JoinContext) -> Rows:
    """Return the order of rows by several numbers each, the most significant first; equal rows keep their order.

    Notes
    -----
    A pass of 3 ns a row for each byte in which the values of a key differ.
    """
    rows = np.arange(len(keys[0]), dtype=np.int32)
    for key in reversed(keys):
        rows = _sorted(_offsets(_gather(key, rows, context)), rows, context)
    return rows


def _offsets(codes: Ints) -> Words:
    """Return how far codes are from the least, which leaves few bytes in which they differ."""
    if len(codes) == 0:
        return codes.view(np.uint64)
    # Unsigned differences are exact for any two codes.
    return codes.view(np.uint64) - np.uint64(int(codes.min()) & (2**64 - 1))


def _gather(values: npt.NDArray[np.generic], rows: Rows, context: JoinContext, spare: int = 0) -> npt.NDArray[np.int64]:
    """Return the values of some rows, with some zeros at the end."""
    gathered = np.empty(len(rows) + spare, values.dtype)
    gathered[len(rows) :] = 0

    def fill(part: tuple[int, int]) -> None:
        np.take(values, rows[slice(*part)], out=gathered[slice(*part)], mode="clip")

    context.threads.run(fill, slices(len(rows), 4 * context.threads.count, least=_SLICE_LEAST))
    return gathered


def _sorted(codes: Words, rows: Rows, context: JoinContext) -> Rows:
    """Return the rows in the order of their codes."""
    if kernels.is_ascending(codes):
        return rows
    bits = int(codes.max()).bit_length()
    parts = slices(len(codes), context.threads.count, least=_SLICE_LEAST)
    counts = np.empty((len(parts), kernels.DIGITS), np.int64)
    other_codes, other_rows = np.empty_like(codes), np.empty_like(rows)
    for shift in range(0, bits, _DIGIT_BITS):

        def count(number: int, shift: int = shift, codes: Words = codes) -> None:
            kernels.count_digits(codes[slice(*parts[number])], shift, counts[number])

        context.threads.run(count, range(len(parts)))
        if (counts.sum(axis=0) == len(codes)).any():
            continue
        # An item goes behind all of smaller digits, and those of its digit in the slices before its own.
        before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
        offsets = np.ascontiguousarray(before.reshape(kernels.DIGITS, len(parts)).T)

        def move(
            number: int,
            shift: int = shift,
            codes: Words = codes,
            rows: Rows = rows,
            offsets: Ints = offsets,
            other_codes: Words = other_codes,
            other_rows: Rows = other_rows,
        ) -> None:
            part = slice(*parts[number])
            kernels.move_by_digit(codes[part], rows[part], shift, offsets[number], other_codes, other_rows)

        context.threads.run(move, range(len(parts)))
        codes, rows, other_codes, other_rows = other_codes, other_rows, codes, rows
    return rows
