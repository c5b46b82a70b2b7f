"""Right rows that tie for a slot: recorded while the right side streams past, and broken by reading the rows."""

from __future__ import annotations

from threading import Lock

import numpy as np

from juncture.kernels.array_types import Ints
from juncture.kernels.asof import NOWHERE
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import order_of
from juncture.runtime.sources import Source
from juncture.runtime.tie_keys import tie_keys

SLOT, RANK, POINTER = range(3)


class Ties:
    """Ties of one direction: slot, rank and pointer of each row that equals a candidate."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Ints] = []
        self._lock = Lock()

    def add(self, rows: Ints) -> None:
        """Keep a copy of some ties."""
        with self._lock:
            self._rows.append(rows.copy())
            self.count += len(rows)

    def drain(self, best: Ints) -> Ints:
        """Return the ties whose rank is still the last that its slot holds, and forget all."""
        with self._lock:
            rows = np.concatenate(self._rows) if self._rows else np.zeros((0, 3), np.int64)
            self._rows, self.count = [], 0
        last = best[rows[:, SLOT], -1]
        live: Ints = rows[(last[:, 0] == rows[:, RANK]) & (last[:, -1] != NOWHERE)]
        return live


def break_ties(
    best: Ints,
    ties: Ints,
    source: Source,
    columns: tuple[str, ...],
    context: JoinContext,
    *,
    within: bool,
    first: bool,
) -> None:
    """Give tied places to the rows that win them.

    `best` has the candidates, ``[slot, place, word]``, before they are spread; `ties` is what `Ties.drain` returned.
    With `within`, rows that tie with each other inside the places are ordered, too. `first` is whether the least row
    wins.

    Reads the columns of the tied rows only, and sorts them: some 100 bytes and 0.2 µs for each.
    """
    places = best.shape[1]
    slots, ranks_here = ties[:, SLOT], ties[:, RANK]
    held_slots, held_places = _contested(best, np.unique(slots), within=within)
    slot = np.concatenate([held_slots, slots])
    rank = np.concatenate([best[held_slots, held_places, 0], ranks_here])
    pointer = np.concatenate([best[held_slots, held_places, -1], ties[:, POINTER]])
    if len(slot) == 0:
        return
    keys = tie_keys(source, columns, pointer, context)
    order = order_of([slot, ~rank, *(key if first else ~key for key in keys)], context)
    # The places of a slot and rank are consecutive, and as many as it has: the winners take them in order.
    place = np.concatenate([held_places, np.full(len(ties), places)])
    targets = order_of([slot, ~rank, place], context)
    free = place[targets] < places
    run = _runs(slot[order], rank[order])
    winners = _first_of_runs(run, _counts_of_runs(_runs(slot[targets], rank[targets])[free], run))
    best[slot[targets[free]], place[targets[free]], -1] = pointer[order[winners]]


def _contested(best: Ints, slots: Ints, *, within: bool) -> tuple[Ints, Ints]:
    """Return slot and place of the candidates that compete: those of the last rank, and all that tie if within."""
    if best.shape[1] == 1:
        return slots, np.zeros_like(slots)
    filled = best[:, :, -1] != NOWHERE if within else None
    if filled is not None:
        same = (best[:, 1:, 0] == best[:, :-1, 0]) & filled[:, 1:]
        tied = np.zeros(filled.shape, np.bool_)
        tied[:, 1:] |= same
        tied[:, :-1] |= same
    else:
        tied = np.zeros(best.shape[:2], np.bool_)
    last = best[slots, -1, 0]
    tied[slots] |= best[slots, :, 0] == last[:, None]
    found = np.nonzero(tied)
    return found[0], found[1]


def _runs(slot: Ints, rank: Ints) -> Ints:
    """Return the number of each item's run of equal slot and rank."""
    change = (np.diff(slot) != 0) | (np.diff(rank) != 0)
    return np.concatenate([[0], np.cumsum(change)]).astype(np.int64)


def _counts_of_runs(runs_of_places: Ints, runs: Ints) -> Ints:
    """Return how many places each run has."""
    return np.bincount(runs_of_places, minlength=int(runs[-1]) + 1)


def _first_of_runs(runs: Ints, counts: Ints) -> Ints:
    """Return the positions of as many first items of each run as it has places."""
    starts = np.searchsorted(runs, np.arange(len(counts)))
    return np.flatnonzero(np.arange(len(runs)) - starts[runs] < counts[runs])
