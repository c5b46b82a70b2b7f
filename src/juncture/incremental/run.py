"""Some rows of a side with their weights, sorted so that matches are found in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.columnar.key_table import EMPTY
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints
from juncture.streams.state.segment import Segment, first_codes

__all__ = ["Run", "key_order", "merged"]

Table = npt.NDArray[np.int64]


class Run:
    """Rows in the order of key and first code; those that can match nothing come first.

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

    @cached_property
    def _by_hash(self) -> tuple[Ints, Codes]:
        """The hashes in their order, and the position of each."""
        order = np.argsort(self.hashes)
        return self.hashes[order], order.astype(np.int32)

    def of_hashes(self, hashes: Ints) -> Iterator[tuple[Ints, Codes]]:
        """Yield pairs of ascending hashes, by their places, and positions that have them, some at a time."""
        found, positions = self._by_hash
        rows, places = np.arange(len(hashes)), np.searchsorted(found, hashes)
        while True:
            inside = places < len(found)
            inside[inside] = found[places[inside]] == hashes[rows[inside]]
            rows, places = rows[inside], places[inside]
            if not len(rows):
                return
            yield rows, positions[places]
            # Equal hashes follow each other.
            places = places + 1

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


def key_order(keys: Codes, codes: Table) -> Codes:
    """Return rows in the order of keys and first codes; those without a key come first."""
    first = first_codes(codes)
    empty = np.flatnonzero(keys == EMPTY).astype(np.int32)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32) if len(empty) else None
    order = np.empty(len(keys) - len(empty), np.int32)
    kernels.sort_rows(keys if rows is None else keys[rows], first if rows is None else first[rows], order)
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
    order = key_order(keys, codes)
    # Rows that lie in their order are near each other when they are taken.
    return Run(
        rows_of(batch, array_of(order, pa.int32())),
        np.arange(len(order), dtype=np.int32),
        keys[order],
        np.take(codes, order, axis=1),
        weights[order],
        hashes[order],
        np.take(counts, order, axis=1),
        matching,
    )
