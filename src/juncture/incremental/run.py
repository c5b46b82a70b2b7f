"""Some rows of a side with their weights, sorted so that matches are found in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.equal_rows import find_equal, order_ties
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.row_order import sort_rows
from juncture.streams.state.segment import Segment, first_codes

Table = npt.NDArray[np.int64]


class Run:
    """Rows in the order of key, first code and hash; those that can match nothing come first.

    Parameters
    ----------
    batch
        The rows, in any order.
    rows
        Which of them the run has, in its order.
    keys, codes, weights, hashes
        Of these: key codes, a line of codes for each relation, how often each row is there, and its hash.
    counts
        Of these: lines of counts, which belong to the operator.
    matching
        How many lines of codes are of use to find matches.
    """

    is_fetched = False
    """Whether the rows are held elsewhere, and here for one epoch."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        rows: Codes,
        keys: Codes,
        codes: Table,
        weights: Ints,
        hashes: Ints,
        counts: Table,
        matching: int,
    ) -> None:
        self.keys = keys
        self.codes = codes
        self.weights = weights
        self.hashes = hashes
        self.counts = counts
        self._matching = matching
        self._segment = Segment(batch, rows, keys, codes, np.zeros(0, np.bool_), matching)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def groups(self) -> Codes:
        """The distinct keys, ascending."""
        return self._segment.groups

    @property
    def starts(self) -> Ints:
        """Where the rows of each distinct key start, and where the last ones end."""
        return self._segment.starts

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        return self._segment.nbytes + self.weights.nbytes + self.hashes.nbytes + self.counts.nbytes

    @property
    def living_rows(self) -> int:
        """How many distinct rows are there."""
        return int(np.count_nonzero(self.weights))

    def alike(self, keys: Codes, codes: Table, hashes: Ints) -> Iterator[tuple[Ints, Codes]]:
        """Yield pairs of rows and of positions that have their key, first code and hash, some at a time."""
        positions = np.empty(len(keys), np.int32)
        find_equal(keys, codes, hashes, self.groups, self.starts, self.codes, self.hashes, positions)
        rows = np.flatnonzero(positions >= 0)
        positions = positions[rows]
        while len(rows):
            yield rows, positions
            # Rows that are alike follow each other.
            inside = np.flatnonzero(positions + 1 < len(self))
            rows, before, positions = rows[inside], positions[inside], positions[inside] + np.int32(1)
            same = (self.hashes[positions] == hashes[rows]) & (self.keys[positions] == self.keys[before])
            if len(self.codes):
                same &= self.codes[0][positions] == self.codes[0][before]
            rows, positions = rows[same], positions[same]

    def find(self, keys: Codes, codes: Table) -> Iterator[tuple[Codes, Codes]]:
        """Yield the pairs of rows and positions that match, some at a time.

        Parameters
        ----------
        keys, codes
            Rows of the other side by key and first code, all of which can match.
        """
        for rows, positions in self._segment.find(keys, codes):
            living = self.weights[positions] > 0
            yield (rows, positions) if living.all() else (rows[living], positions[living])

    def taken(self, positions: npt.NDArray[np.signedinteger]) -> pa.RecordBatch:
        """Return the rows at some positions."""
        return self._segment.taken(positions)

    def rekeyed(self, mapping: Codes) -> None:
        """Take other codes for keys, in the same order."""
        self._segment.keys = self.keys = _mapped(self.keys, mapping)
        self._segment.groups = _mapped(self.groups, mapping)


def _mapped(keys: Codes, mapping: Codes) -> Codes:
    return np.where(keys == EMPTY, EMPTY, mapping[keys])


def row_order(keys: Codes, codes: Table, hashes: Ints) -> tuple[Codes, Codes, Ints]:
    """Return rows in the order of keys, first codes and hashes, those without a key first; their keys, and hashes."""
    order = key_order(keys, codes)
    keys, hashes = keys[order], hashes[order]
    order_ties(keys, codes[0][order] if len(codes) else first_codes(codes), hashes, order)
    return order, keys, hashes


def key_order(keys: Codes, codes: Table) -> Codes:
    """Return rows in the order of keys and first codes; those without a key come first."""
    first = first_codes(codes)
    empty = np.flatnonzero(keys == EMPTY).astype(np.int32)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32) if len(empty) else None
    order = np.empty(len(keys) - len(empty), np.int32)
    sort_rows(keys if rows is None else keys[rows], first if rows is None else first[rows], order)
    return order if rows is None else np.concatenate([empty, rows[order]])


def merged(runs: Sequence[Run], matching: int) -> Run:
    """Return the rows of some runs, of which there is at least one, as one."""
    living = [np.flatnonzero(run.weights) for run in runs]
    pairs = list(zip(runs, living, strict=True))
    batch = joined_batches([run.taken(here) for run, here in pairs])
    keys = np.concatenate([run.keys[here] for run, here in pairs])
    codes, counts = (
        np.concatenate([np.take(lines, here, axis=1) for lines, here in each], axis=1)
        for each in (
            [(run.codes, here) for run, here in pairs],
            [(run.counts, here) for run, here in pairs],
        )
    )
    weights = np.concatenate([run.weights[here] for run, here in pairs])
    hashes = np.concatenate([run.hashes[here] for run, here in pairs])
    order, keys, hashes = row_order(keys, codes, hashes)
    # Rows that lie in their order are near each other when they are taken.
    return Run(
        rows_of(batch, array_of(order, pa.int32())),
        np.arange(len(order), dtype=np.int32),
        keys,
        np.take(codes, order, axis=1),
        weights[order],
        hashes,
        np.take(counts, order, axis=1),
        matching,
    )
