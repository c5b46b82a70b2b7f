"""Joins that answer each left row by itself, kept up to date: the rows whose answers may change are asked anew.

What changed on the right says which left rows it may serve. Their answers from the right rows as they were are taken
back, and those from the right rows as they are now are given; what is the same cancels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.incremental.answer import Changes
from juncture.incremental.arrangement import Arrangement, Delta, Journal, Place
from juncture.incremental.run import Run, key_order
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.spec.schema import Side

Table = npt.NDArray[np.int64]
Positions = npt.NDArray[np.signedinteger]


@dataclass(frozen=True)
class Asked:
    """Left rows whose answers are asked for, by key; those that can match nothing come first."""

    batch: pa.RecordBatch
    keys: Codes
    codes: Table
    weights: Ints
    matched: Mask

    @classmethod
    def of(cls, batch: pa.RecordBatch, keys: Codes, codes: Table, weights: Ints) -> Asked:
        """Return rows of which nothing is known yet."""
        return cls(batch, keys, codes, weights, np.zeros(len(weights), np.bool_))

    def __len__(self) -> int:
        return len(self.weights)

    def as_delta(self) -> Delta:
        """Return the rows as changes, to find what they match."""
        return Delta(self.batch, self.weights, self.keys, self.codes, self.weights)


@dataclass(frozen=True)
class Candidates:
    """Right rows that left rows may match: all that could be in their answers."""

    batch: pa.RecordBatch
    weights: Ints
    places: list[tuple[Run, Positions]]


class AnswerOperator(ABC):
    """A join whose answer is found for each left row on its own."""

    def __init__(self, arrangements: Mapping[Side, Arrangement]) -> None:
        self._arrangements = arrangements

    def apply(self, deltas: Mapping[Side, tuple[Delta, list[Place]]], journal: Journal, changes: Changes) -> None:
        """Change the rows of both sides, and add what follows from that."""
        (left, left_places), (right, right_places) = deltas["left"], deltas["right"]
        affected = _distinct(self.affected(right)) if len(right) else []
        before = [run.weights[positions] for run, positions in affected]
        taken_back = _asked(
            [_of_run(run, positions, -weights) for (run, positions), weights in zip(affected, before, strict=True)]
        )
        self.begin(right_places)
        if taken_back is not None:
            self.answer(taken_back, self._candidates(taken_back), journal, changes)
        others = _others(left, left_places, affected)
        for side, (delta, places) in deltas.items():
            arrangement = self._arrangements[side]
            arrangement.change(delta, places, np.zeros((arrangement.lines, len(delta)), np.int64), journal)
        again = [_of_run(run, positions, run.weights[positions]) for run, positions in affected]
        given = _asked([*again, *others])
        if given is not None:
            self.answer(given, self._candidates(given), journal, changes)
        self.end(changes)

    def populate(self, deltas: Mapping[Side, tuple[Delta, list[Place]]], journal: Journal, changes: Changes) -> None:
        """Take the first rows of both sides, and add what follows from them."""
        self.apply(deltas, journal, changes)

    @abstractmethod
    def begin(self, places: list[Place]) -> None:
        """Take note of what right rows are before some of them change."""

    @abstractmethod
    def end(self, changes: Changes) -> None:
        """Add what follows from all that has become of right rows."""

    @abstractmethod
    def affected(self, right: Delta) -> Iterator[tuple[Run, Positions]]:
        """Yield the held left rows whose answers may change with right rows, which have not changed yet."""

    @abstractmethod
    def candidates(self, asked: Asked) -> Iterator[tuple[Run, Positions]]:
        """Yield the held right rows that may be in the answers of left rows."""

    @abstractmethod
    def answer(self, asked: Asked, candidates: Candidates, journal: Journal, changes: Changes, /) -> None:
        """Add the answers of left rows, whose weights say how often to give them, or to take them back."""

    def _candidates(self, asked: Asked) -> Candidates:
        places = _distinct(self.candidates(asked))
        batches = [run.taken(positions) for run, positions in places]
        weights = [run.weights[positions] for run, positions in places]
        schema = self._arrangements["right"].schema
        batch = joined_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)
        return Candidates(batch, np.concatenate([np.zeros(0, np.int64), *weights]), places)


def _distinct(found: Iterable[tuple[Run, Positions]]) -> list[tuple[Run, Positions]]:
    """Return the distinct positions of each run."""
    of_runs: dict[int, tuple[Run, list[Positions]]] = {}
    for run, positions in found:
        of_runs.setdefault(id(run), (run, []))[1].append(positions)
    return [(run, np.unique(np.concatenate(positions))) for run, positions in of_runs.values()]


def _of_run(run: Run, positions: Positions, weights: Ints) -> Asked:
    """Return rows of a run whose weights are not zero."""
    here = np.flatnonzero(weights)
    positions = positions[here]
    return Asked.of(run.taken(positions), run.keys[positions], np.take(run.codes, positions, axis=1), weights[here])


def _others(left: Delta, places: list[Place], affected: list[tuple[Run, Positions]]) -> list[Asked]:
    """Return what changed on the left beside the rows whose answers may change."""
    weights = left.weights.copy()
    of_runs = {id(run): positions for run, positions in affected}
    for place in places:
        if id(place.run) in of_runs:
            # Their answers are taken back and given again, by the weights that they have.
            there = np.isin(place.positions, of_runs[id(place.run)])
            weights[place.rows[there]] -= place.weights[there]
    rows = np.flatnonzero(weights)
    some = left.some(rows)
    return [Asked.of(some.batch, some.keys, some.codes, weights[rows])] if len(rows) else []


def _asked(parts: list[Asked]) -> Asked | None:
    """Return rows in the order of their keys; None if there are none."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return None
    keys = np.concatenate([part.keys for part in parts])
    codes = np.concatenate([part.codes for part in parts], axis=1)
    order = key_order(keys, codes)
    batch = rows_of(joined_batches([part.batch for part in parts]), array_of(order, pa.int32()))
    weights = np.concatenate([part.weights for part in parts])
    return Asked.of(batch, keys[order], np.take(codes, order, axis=1), weights[order])
