"""Finds the matches of left rows of an as-of join among the stored right rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.columnar.tie_order import order_keys
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.next_row import find_next
from juncture.local.asof.join import find
from juncture.matching.asof import KeyRanges
from juncture.matching.output import stored_schema
from juncture.ordered.arithmetic import moved
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.asof import Direction, ResolvedAsof
from juncture.streams.state.sorted_rows import SortedRows


@dataclass(frozen=True)
class Waiting:
    """Left rows by key and code. ``slots`` are their numbers in the store."""

    keys: Codes
    codes: Ints
    slots: Ints

    def at(self, places: Ints) -> Waiting:
        """Return the rows at some positions."""
        return Waiting(self.keys[places], self.codes[places], self.slots[places])


class AsofSearch:
    """Finds the matches of left rows. ``any_does`` is set where only the existence of a match matters."""

    def __init__(self, join: ResolvedAsof, left: SortedRows, right: SortedRows) -> None:
        self._join = replace(join, how="left", spec=replace(join.spec, how="left"))
        self.any_does = join.how in ("semi", "anti") and join.spec.ties != "error"
        if self.any_does:
            self._join = replace(self._join, spec=replace(self._join.spec, matches=1))
        self._left = left
        self._right = right
        self._is_rounded = join.domain.floating and (join.tolerance is not None or len(join.directions) > 1)

    def matches(self, rows: Waiting, ranges: KeyRanges, *, are_final: bool) -> Ints:
        """Return the positions of each row's matches, best first, -1 for none. Ties may raise if ``are_final``."""
        if self._join.spec.matches > 1 or self._is_rounded:
            return self.decided(rows, are_final=are_final)
        positions, tied = self._nearest(rows)
        if self._join.tolerance is not None and self._right.rows:
            found = self._right.row_codes[positions]
            positions[(found < ranges.low) | (found > ranges.high)] = -1
        if ranges.possible is not None:
            positions[~ranges.possible] = -1
        if not self.any_does:
            open_ties = np.flatnonzero(tied.view(np.bool_) & (positions >= 0))
            if len(open_ties) and self._join.spec.ties == "error":
                positions[open_ties] = self.decided(rows.at(open_ties), are_final=are_final)[:, 0]
            elif len(open_ties):
                positions[open_ties] = self._winners(positions[open_ties])
        return positions.reshape(-1, 1)

    def _nearest(self, rows: Waiting) -> tuple[Ints, Mask]:
        """Return the position of the nearest right row of each left row, and whether others have its code."""
        first, *others = (self._next(rows, direction) for direction in self._join.directions)
        if not others or not self._right.rows:
            return first
        (behind, behind_tied), (ahead, ahead_tied) = first, others[0]
        # Differences of codes are exact as unsigned integers.
        held = self._right.row_codes
        back = rows.codes.view(np.uint64) - held[behind].view(np.uint64)
        on = held[ahead].view(np.uint64) - rows.codes.view(np.uint64)
        is_nearer = on <= back if self._join.spec.prefer == "later" else on < back
        is_ahead = (ahead >= 0) & ((behind < 0) | is_nearer)
        return np.where(is_ahead, ahead, behind), np.where(is_ahead, ahead_tied, behind_tied)

    def _next(self, rows: Waiting, direction: Direction) -> tuple[Ints, Mask]:
        """Return the position of the next right row in one direction, and whether others have its code."""
        wanted = moved(rows.codes, (1 if direction.forward else -1) * direction.strict)
        positions, tied = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.bool_)
        groups, starts = self._right.index()
        held = self._right.row_codes
        find_next(rows.keys, wanted, groups, starts, held, direction.forward, positions, tied.view(np.uint8))
        if direction.strict:
            # There is no code after the last one.
            positions[wanted == rows.codes] = -1
        return positions, tied

    def _winners(self, positions: Ints) -> Ints:
        """Return for each right row the one of its key and code that wins the tie."""
        keys, codes = self._right.row_keys, self._right.row_codes
        is_first = np.ones(len(keys) + 1, np.bool_)
        is_first[1:-1] = (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1])
        edges = np.flatnonzero(is_first)
        runs, which = np.unique(np.searchsorted(edges, positions, "right") - 1, return_inverse=True)
        sizes = edges[runs + 1] - edges[runs]
        ends = np.cumsum(sizes)
        tied = np.repeat(edges[runs] - (ends - sizes), sizes) + np.arange(ends[-1])
        columns = list(self._join.tie_columns)
        ranks: list[Ints] = []
        if columns:
            ranks = order_keys(pa.Table.from_batches([self._right.taken(self._right.slots[tied], columns)]).columns)
        if self._join.spec.ties == "first":
            ranks = [~rank for rank in ranks]
        order = np.lexsort([*reversed(ranks), np.repeat(np.arange(len(runs)), sizes)])
        winners: Ints = tied[order[ends - 1]][which]
        return winners

    def decided(self, rows: Waiting, *, are_final: bool) -> Ints:
        """Return what `matches` does, by the batch algorithm."""
        # Rows of other keys cannot match, and there may be many.
        wanted = np.zeros(int(max(rows.keys.max(), self._right.row_keys.max(initial=0))) + 1, np.bool_)
        wanted[rows.keys] = True
        positions = np.flatnonzero(wanted[self._right.row_keys])
        right = stored_schema(self._join, "right").empty_table()
        if len(positions):
            right = pa.Table.from_batches([self._right.taken(self._right.slots[positions])])
        join = self._join
        if join.spec.ties == "error" and not are_final:
            join = replace(join, spec=replace(join.spec, ties="greatest"))
        left = TableSource(pa.Table.from_batches([self._left.taken(rows.slots)]))
        with join_context(threads=1) as context:
            pointers = find(join, left, TableSource(right), context, merges=True).pointers
        return np.where(pointers >= 0, positions[pointers], -1) if len(positions) else pointers
