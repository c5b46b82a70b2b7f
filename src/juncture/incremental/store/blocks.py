"""Sorted rows in blocks: how they are packed, and the index that tells which block to read.

Rows are in the order of the hash of their key, their first code, and the hash of the whole row; those that can match
nothing count as having the hash 0. A block is the numbers by which rows are found (hashes and codes), and the columns
as an Arrow message. What changes of a row (its weight, and counts of matches) is apart from it.

Rows that are also in memory are only read from the first to the last: they lie as they come, without these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.kernels.symmetric import UNLIMITED, reach_of

Table = npt.NDArray[np.int64]

BLOCK_ROWS = 128
LOOSE_ROWS = 1 << 14
"""How many rows blocks have from which rows are looked up, and those which are read one after the other."""

NUMBERS = 2
"""Lines of numbers before the codes: the hash of the key, and that of the row."""


@dataclass(frozen=True)
class BlockRows:
    """Rows in the order in which they lie on disk."""

    batch: pa.RecordBatch
    numbers: Table
    state: Table

    def __len__(self) -> int:
        return len(self.state[0])

    @property
    def hashes(self) -> Words:
        """The hashes of keys."""
        hashes: Words = self.numbers[0].view(np.uint64)
        return hashes

    @property
    def row_hashes(self) -> Ints:
        """The hashes of rows."""
        hashes: Ints = self.numbers[1]
        return hashes

    @property
    def codes(self) -> Table:
        """Lines of codes."""
        return self.numbers[NUMBERS:]

    @property
    def weights(self) -> Ints:
        """How often each is there."""
        weights: Ints = self.state[0]
        return weights

    @property
    def counts(self) -> Table:
        """Lines of counts."""
        return self.state[1:]

    def some(self, rows: npt.NDArray[np.signedinteger]) -> BlockRows:
        """Return some of the rows."""
        batch = rows_of(self.batch, array_of(rows.astype(np.int64), pa.int64()))
        return BlockRows(batch, np.take(self.numbers, rows, axis=1), np.take(self.state, rows, axis=1))

    def living(self) -> BlockRows:
        """Return those that are there."""
        here = np.flatnonzero(self.weights)
        return self if len(here) == len(self) else self.some(here)

    @classmethod
    def joined(cls, parts: Sequence[BlockRows]) -> BlockRows:
        """Return some rows after others."""
        return cls(
            joined_batches([part.batch for part in parts]),
            np.concatenate([part.numbers for part in parts], axis=1),
            np.concatenate([part.state for part in parts], axis=1),
        )

    @classmethod
    def sorted(cls, batch: pa.RecordBatch, numbers: Table, state: Table) -> BlockRows:
        """Return rows in order."""
        by_code = (numbers[NUMBERS],) if len(numbers) > NUMBERS else ()
        order = np.lexsort((numbers[1], *by_code, numbers[0].view(np.uint64)))
        return cls(batch, numbers, state).some(order)


@dataclass(frozen=True)
class Index:
    """What is known of the blocks of a run without reading them."""

    number: int
    firsts: Table
    sizes: Ints
    most: Table
    reach: int
    is_sorted: bool = True

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def hashes(self) -> Words:
        """The key hash of the first row of each block."""
        hashes: Words = self.firsts[0].view(np.uint64)
        return hashes

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.sizes.sum())

    @property
    def nbytes(self) -> int:
        """How much memory the index takes."""
        return self.firsts.nbytes + self.sizes.nbytes + self.most.nbytes

    def packed(self) -> bytes:
        """Return the index as bytes."""
        head = np.array([self.number, len(self), len(self.most), self.reach, self.is_sorted], np.int64)
        return b"".join(each.tobytes() for each in (head, self.firsts, self.sizes, self.most))

    @classmethod
    def unpacked(cls, content: bytes) -> Index:
        """Return the index that was packed."""
        numbers = np.frombuffer(content, np.int64)
        number, blocks, lines, reach, is_sorted = (int(each) for each in numbers[:5])
        if len(numbers) != 5 + blocks * (4 + lines):
            raise ValueError(f"the index of run {number} has the wrong length")
        table = numbers[5:].reshape(4 + lines, blocks)
        return cls(number, table[:3], table[3], table[4:], reach, bool(is_sorted))

    @classmethod
    def of(cls, number: int, rows: BlockRows, size: int, *, is_sorted: bool) -> Index:
        """Return the index of rows, at least one, that are cut into blocks of a size."""
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
            reach_of(codes) if len(codes) > 1 else 0,
            is_sorted,
        )

    @classmethod
    def joined(cls, parts: Sequence[Index]) -> Index:
        """Return the index of blocks that follow each other."""
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
    """Return the block of a size that begins with one of some rows, without what changes."""
    content: bytes = rows.batch.slice(first, size).serialize().to_pybytes()
    return rows.numbers[:, first : first + size].tobytes() + content


def unpack_block(content: bytes, size: int, lines: int, schema: pa.Schema) -> tuple[Table, pa.RecordBatch]:
    """Return the numbers, of so many lines, and the columns of a block."""
    count = size * lines
    numbers = np.frombuffer(content, np.int64, count).reshape(lines, size)
    batch = pa.ipc.read_record_batch(pa.py_buffer(content).slice(8 * count), schema)
    if batch.num_rows != size:
        raise ValueError(f"a block has {batch.num_rows} rows instead of {size}")
    return numbers, batch


def pack_state(state: Table) -> bytes:
    """Return what changes of the rows of a block, in as few bytes as it takes."""
    least, most = int(state.min(initial=0)), int(state.max(initial=0))
    width = next(width for width in (1, 2, 4, 8) if -(1 << (8 * width - 1)) <= least and most < 1 << (8 * width - 1))
    return bytes([width]) + state.astype(f"<i{width}").tobytes()


def states_needed(rows: BlockRows, size: int) -> Mask:
    """Tell which blocks of a size have a state that is not that of rows which are there once, and have no match."""
    differs = (rows.state[0] != 1) | rows.state[1:].any(axis=0)
    starts = np.arange(0, len(rows), size)
    needed: Mask = np.logical_or.reduceat(differs, starts) if len(starts) else differs
    return needed


def unpack_state(content: bytes, size: int) -> Table:
    """Return what changes of the rows of a block."""
    return np.frombuffer(content, f"<i{content[0]}", offset=1).reshape(-1, size).astype(np.int64)
