"""Sorted rows in blocks: how they are packed, and the index that finds blocks.

Rows are ordered by the hash of their key, their first code, and the hash of the whole row. Rows that can match nothing
have the key hash 0. A block has the lines by which rows are found (hashes and codes), and the columns as an Arrow
message. Mutable state of a row (its weight and match counts) is stored separately.

Rows that are also in memory are only read sequentially: their blocks are unsorted, and have no such lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at
from juncture.kernels.array_types import Ints, IntTable, Mask, Positions, Words
from juncture.kernels.symmetric import UNLIMITED, excess_of

NUMBERS = 2
"""Number of lines before the codes: key hash and row hash."""


@dataclass(frozen=True)
class BlockRows:
    """Rows in the order on disk."""

    batch: pa.RecordBatch
    numbers: IntTable  # lines: key hash, row hash and codes; none for unsorted rows
    state: IntTable  # lines: weight and counts

    def __len__(self) -> int:
        return len(self.state[0])

    @property
    def hashes(self) -> Words:
        """The key hashes."""
        hashes: Words = self.numbers[0].view(np.uint64)
        return hashes

    @property
    def row_hashes(self) -> Ints:
        """The row hashes."""
        hashes: Ints = self.numbers[1]
        return hashes

    @property
    def codes(self) -> IntTable:
        """The code lines."""
        return self.numbers[NUMBERS:]

    @property
    def weights(self) -> Ints:
        """The weights."""
        weights: Ints = self.state[0]
        return weights

    @property
    def counts(self) -> IntTable:
        """The lines of counts."""
        return self.state[1:]

    def some(self, rows: Positions) -> BlockRows:
        """Return some of the rows."""
        batch = rows_at(self.batch, rows)
        return BlockRows(batch, np.take(self.numbers, rows, axis=1), np.take(self.state, rows, axis=1))

    def living(self) -> BlockRows:
        """Return the rows with a weight."""
        here = np.flatnonzero(self.weights)
        return self if len(here) == len(self) else self.some(here)

    @classmethod
    def joined(cls, parts: Sequence[BlockRows]) -> BlockRows:
        """Return rows one after the other."""
        return cls(
            joined_batches([part.batch for part in parts]),
            np.concatenate([part.numbers for part in parts], axis=1),
            np.concatenate([part.state for part in parts], axis=1),
        )


@dataclass(frozen=True)
class Index:
    """The index of the blocks of a run."""

    number: int
    firsts: IntTable  # lines of the first row of each block: key hash, row hash, and the first code (0 without codes)
    sizes: Ints  # number of rows of each block
    most: IntTable  # for each code line but the first, the greatest code of each block
    reach: int  # the greatest excess of a row's first code over the complement of its second, or `UNLIMITED`
    is_sorted: bool = True  # whether rows can be looked up; unsorted rows are only read sequentially

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def hashes(self) -> Words:
        """The key hash of the first row of each block."""
        hashes: Words = self.firsts[0].view(np.uint64)
        return hashes

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    @property
    def nbytes(self) -> int:
        """Memory of the index."""
        return self.firsts.nbytes + self.sizes.nbytes + self.most.nbytes

    def packed(self) -> bytes:
        """Return the index as bytes."""
        head = np.array([self.number, len(self), len(self.most), self.reach, self.is_sorted], np.int64)
        return b"".join(each.tobytes() for each in (head, self.firsts, self.sizes, self.most))

    @classmethod
    def unpacked(cls, content: bytes) -> Index:
        """Return the index from bytes; raises `ValueError` if the length is wrong."""
        numbers = np.frombuffer(content, np.int64)
        number, blocks, lines, reach, is_sorted = (int(each) for each in numbers[:5])
        if len(numbers) != 5 + blocks * (4 + lines):
            raise ValueError(f"the index of run {number} has the wrong length")
        table = numbers[5:].reshape(4 + lines, blocks)
        return cls(number, table[:3], table[3], table[4:], reach, bool(is_sorted))

    @classmethod
    def of(cls, number: int, rows: BlockRows, size: int, *, is_sorted: bool) -> Index:
        """Return the index of rows, at least one, in blocks of ``size`` rows."""
        starts = np.arange(0, len(rows), size)
        sizes = np.diff(np.append(starts, len(rows)))
        if not is_sorted:
            none = np.zeros((3, len(starts)), np.int64)
            return cls(number, none, sizes, none[:0], 0, is_sorted)
        codes = np.ascontiguousarray(rows.codes)
        first = codes[0][starts] if len(codes) else np.zeros(len(starts), np.int64)
        return cls(
            number,
            np.stack([rows.numbers[0][starts], rows.row_hashes[starts], first]),
            sizes,
            np.maximum.reduceat(codes[1:], starts, axis=1),
            excess_of(codes) if len(codes) > 1 else 0,
            is_sorted,
        )

    @classmethod
    def joined(cls, parts: Sequence[Index]) -> Index:
        """Return the index of consecutive blocks."""
        reaches = [each.reach for each in parts]
        return cls(
            parts[0].number,
            np.concatenate([each.firsts for each in parts], axis=1),
            np.concatenate([each.sizes for each in parts]),
            np.concatenate([each.most for each in parts], axis=1),
            UNLIMITED if UNLIMITED in reaches else max(reaches),
            parts[0].is_sorted,
        )


def pack_block(rows: BlockRows, first: int, size: int) -> bytes:
    """Return a block of ``size`` rows from row ``first`` on, without their mutable state."""
    content: bytes = rows.batch.slice(first, size).serialize().to_pybytes()
    return rows.numbers[:, first : first + size].tobytes() + content


def unpack_block(content: bytes, size: int, lines: int, schema: pa.Schema) -> tuple[IntTable, pa.RecordBatch]:
    """Return the lines and the columns of a block; raises `ValueError` or `pyarrow.ArrowException` if it is damaged."""
    count = size * lines
    numbers = np.frombuffer(content, np.int64, count).reshape(lines, size)
    batch = pa.ipc.read_record_batch(pa.py_buffer(content).slice(8 * count), schema)
    if batch.num_rows != size:
        raise ValueError(f"a block has {batch.num_rows} rows instead of {size}")
    return numbers, batch


def pack_states(state: IntTable, ends: Ints) -> list[bytes]:
    """Return the mutable state of each of some consecutive blocks, at least one, in as few bytes as possible."""
    starts = np.append(0, ends[:-1])
    # The complement of a negative number has the same width.
    most = np.maximum.reduceat(np.maximum(state, ~state).max(axis=0), starts)
    widths = 1 << np.searchsorted([1 << 7, 1 << 15, 1 << 31], most, side="right")
    return [
        bytes([width]) + state[:, start:end].astype(f"<i{width}").tobytes()
        for width, start, end in zip(widths.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]


def states_needed(rows: BlockRows, size: int) -> Mask:
    """Return which blocks have rows with a weight other than 1, or a match count other than 0."""
    differs = (rows.state[0] != 1) | rows.state[1:].any(axis=0)
    starts = np.arange(0, len(rows), size)
    needed: Mask = np.logical_or.reduceat(differs, starts) if len(starts) else differs
    return needed


def unpack_states(contents: Mapping[int, bytes], sizes: Ints) -> Iterator[tuple[list[int], IntTable]]:
    """Yield the mutable states of blocks, with those blocks whose contents have one form."""
    alike: dict[tuple[int, int, int], list[int]] = {}
    for block, content in contents.items():
        alike.setdefault((content[0], len(content), int(sizes[block])), []).append(block)
    for (width, length, size), blocks in alike.items():
        rows = np.frombuffer(b"".join([contents[block] for block in blocks]), np.uint8).reshape(-1, length)
        states = np.ascontiguousarray(rows[:, 1:]).view(f"<i{width}").reshape(len(blocks), -1, size)
        yield blocks, states.swapaxes(0, 1).reshape(-1, len(blocks) * size).astype(np.int64)
