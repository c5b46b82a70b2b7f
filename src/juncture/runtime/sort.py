"""Sort rows by key and ``on`` in parallel, independent of the distribution of keys."""

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
"""The maximum number of rows of a sort, because positions are 32-bit integers."""

_SLICE_LEAST = 1 << 16
_DIGIT_BITS = 8
_WORD_BITS = 64


@dataclass(frozen=True)
class Slots:
    """Rows in the order of (key, on)."""

    on: Ints  # the ``on`` code of each slot, and `WINDOW` spare items
    rows: Rows  # the row of each slot
    starts: Ints  # the first slot of each key, and the number of slots at the end

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def key_count(self) -> int:
        """The number of groups, including empty ones."""
        return len(self.starts) - 1

    def ranges(self, context: JoinContext) -> list[tuple[int, int, int]]:
        """Split the slots into ranges for threads: first slot, end, and group of the first slot."""
        ranges = slices(len(self), 4 * context.threads.count, least=_SLICE_LEAST)
        groups = np.searchsorted(self.starts, [first for first, _ in ranges], "right") - 1
        return [(first, end, int(group)) for (first, end), group in zip(ranges, groups, strict=True) if end > first]

    def group_ranges(self, context: JoinContext) -> list[tuple[int, int]]:
        """Split the groups into ranges with about equally many slots."""
        edges = {0, self.key_count, *(group for _, _, group in self.ranges(context))}
        ordered = sorted(edges)
        return list(pairwise(ordered))


def sort_slots(keys: Rows, on: Ints, rows: Rows, key_count: int, context: JoinContext) -> Slots:
    """Sort `rows` (at most `ROWS_MOST`) by key and ``on``, stably. `keys` and `on` are codes of all rows.

    Takes 3 ns per row for each byte in which ``on`` codes differ and each byte of the key codes, or nothing if rows are
    sorted. Uses 36 bytes per row while it runs, and 12 for the result.
    """
    extent = _extent(on, rows, context)
    if extent.bits + (key_count - 1).bit_length() <= _WORD_BITS:
        return _sort_packed(keys, on, rows, key_count, extent, context)
    _, rows = _sorted(_offsets(_gather(on, rows, context)), rows, context)
    counts = np.bincount(keys[rows], minlength=key_count)
    _, rows = _sorted(_gather(keys, rows, context).astype(np.uint64), rows, context)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Slots(_gather(on, rows, context, spare=WINDOW), rows, starts)


@dataclass(frozen=True)
class _Extent:
    """The minimum of some values, the bits of the differences from it, and whether the values ascend."""

    least: int
    bits: int
    ascends: bool


def _extent(values: Ints, rows: Rows, context: JoinContext) -> _Extent:
    def ends(part: tuple[int, int]) -> tuple[int, int, bool]:
        some = values[rows[slice(*part)]]
        return int(some.min()), int(some.max()), bool((some[1:] >= some[:-1]).all())

    if len(rows) == 0:
        return _Extent(0, 0, True)
    parts = list(context.threads.map(ends, slices(len(rows), len(rows), least=_SLICE_LEAST)))
    least, greatest = min(least for least, _, _ in parts), max(greatest for _, greatest, _ in parts)
    in_order = all(before[1] <= after[0] for before, after in pairwise(parts))
    return _Extent(least, (greatest - least).bit_length(), in_order and all(ascends for _, _, ascends in parts))


def _sort_packed(keys: Rows, on: Ints, rows: Rows, key_count: int, extent: _Extent, context: JoinContext) -> Slots:
    """Sort rows by key and ``on`` as one code, whose last bits are the difference of ``on`` from the minimum.

    Rows are looked up only once, in their own order.
    """
    least, bits = extent.least, extent.bits
    codes = np.empty(len(rows), np.uint64)
    parts = slices(len(rows), 4 * context.threads.count, least=_SLICE_LEAST)

    def pack(part: tuple[int, int]) -> None:
        kernels.pack(keys, on, rows[slice(*part)], least, bits, codes[slice(*part)])

    context.threads.run(pack, parts)
    codes, rows = _sorted(codes, rows, context, first_bit=bits if extent.ascends else 0)
    starts = np.searchsorted(codes, np.arange(1, key_count, dtype=np.uint64) << np.uint64(min(bits, _WORD_BITS - 1)))
    sorted_on = np.empty(len(rows) + WINDOW, np.int64)
    sorted_on[len(rows) :] = 0

    def unpack(part: tuple[int, int]) -> None:
        kernels.unpack(codes[slice(*part)], least, bits, sorted_on[slice(*part)])

    context.threads.run(unpack, parts)
    return Slots(sorted_on, rows, np.concatenate([[0], starts, [len(rows)]]).astype(np.int64))


def order_of(keys: Sequence[Ints], context: JoinContext) -> Rows:
    """Return the stable order of rows by several integer keys, the most significant first.

    Takes 3 ns per row for each byte that distinguishes the values of all keys. Keys that fit in 64 bits together are
    sorted as one code.
    """
    rows = np.arange(len(keys[0]), dtype=np.int32)
    codes, held_bits = np.zeros(0, np.uint64), 0
    for number, key in enumerate(reversed(keys)):
        offsets = _offsets(key)
        bits = int(offsets.max(initial=0)).bit_length()
        if bits == 0 or (number == 0 and kernels.is_ascending(offsets)):
            # The rows are in this order already, and stable sorts by other keys preserve it.
            continue
        if held_bits + bits > _WORD_BITS:
            _, rows = _sorted(_gather(codes, rows, context).view(np.uint64), rows, context)
            held_bits = 0
        codes = codes | offsets << np.uint64(held_bits) if held_bits else offsets
        held_bits += bits
    if held_bits:
        _, rows = _sorted(_gather(codes, rows, context).view(np.uint64), rows, context)
    return rows


def _offsets(codes: Ints) -> Words:
    """Return the differences of codes from their minimum, which differ in few bytes."""
    if len(codes) == 0:
        return codes.view(np.uint64)
    # Unsigned differences are exact for any two codes.
    return codes.view(np.uint64) - np.uint64(int(codes.min()) & (2**64 - 1))


def _gather(values: npt.NDArray[np.generic], rows: Rows, context: JoinContext, spare: int = 0) -> npt.NDArray[np.int64]:
    """Return the values of rows, followed by `spare` zeros."""
    gathered = np.empty(len(rows) + spare, values.dtype)
    gathered[len(rows) :] = 0

    def fill(part: tuple[int, int]) -> None:
        np.take(values, rows[slice(*part)], out=gathered[slice(*part)], mode="clip")

    context.threads.run(fill, slices(len(rows), 4 * context.threads.count, least=_SLICE_LEAST))
    return gathered


def _sorted(codes: Words, rows: Rows, context: JoinContext, *, first_bit: int = 0) -> tuple[Words, Rows]:
    """Return the codes in order, and their rows. Bits below `first_bit` are in order already."""
    if kernels.is_ascending(codes):
        return codes, rows
    bits = int(codes.max()).bit_length()
    parts = slices(len(codes), context.threads.count, least=_SLICE_LEAST)
    counts = np.empty((len(parts), kernels.RADIX), np.int64)
    other_codes, other_rows = np.empty_like(codes), np.empty_like(rows)
    for shift in range(first_bit, bits, _DIGIT_BITS):

        def count(number: int, shift: int = shift, codes: Words = codes) -> None:
            kernels.count_digits(codes[slice(*parts[number])], shift, counts[number])

        context.threads.run(count, range(len(parts)))
        if (counts.sum(axis=0) == len(codes)).any():
            continue
        # An item follows all items with smaller digits, and items with its digit in earlier slices.
        before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
        offsets = np.ascontiguousarray(before.reshape(kernels.RADIX, len(parts)).T)

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
    return codes, rows
