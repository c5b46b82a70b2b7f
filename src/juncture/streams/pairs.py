"""Stream joins that emit pairs: each new row is matched with the stored rows of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_at, rows_of
from juncture.kernels.array_types import Codes, Mask
from juncture.matching.condition import Condition, unmatched_are_results
from juncture.matching.keys import JoinKeys
from juncture.matching.output import Output
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier
from juncture.streams.state.keyed import KeyedStore, arrange
from juncture.streams.state.ordered import InOrder, OrderedSegment
from juncture.streams.state.segment import Arranged, Segment
from juncture.streams.state.store import RowStore


class PairJoin:
    """A join that emits each match at once, and each unmatched row when it expires."""

    def __init__(
        self, condition: Condition, bounds: Mapping[Side, Bounds], frontiers: Mapping[Side, Frontier], output: Output
    ) -> None:
        self._condition = condition
        self._bounds = bounds
        self._frontiers = frontiers
        self.failed = False
        self._output = output
        self._how = condition.join.how
        self._by_key: dict[Side, KeyedStore] = {side: KeyedStore(condition.matching) for side in SIDES}
        self._keys = JoinKeys(condition.key_types, self._by_key, nulls_equal=condition.nulls_equal)
        self._order = InOrder.of(condition.key_types) if condition.is_band and not condition.nulls_equal else None
        self._in_order: dict[Side, RowStore[OrderedSegment]] = {}
        if self._order is not None:
            self._in_order = {side: RowStore(self._order) for side in SIDES}
        self._keeps = {side: unmatched_are_results(self._how, side) for side in SIDES}

    @property
    def stores(self) -> Mapping[Side, RowStore[Any]]:
        """The stored rows of each side."""
        return self._by_key if self._order is None else self._in_order

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of new rows of a side, after its frontier has advanced past them."""
        yield from self.take(side, batch)
        yield from self.expire(other_side(side))

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the matches of new rows of a side, and store rows that can have others."""
        other = other_side(side)
        new_rows = self._arranged(side, batch)
        matched = np.zeros(len(new_rows.rows), np.bool_)
        for segment in self.stores[other].segments:
            for found, positions in segment.find(new_rows):
                yield from self._matches(side, batch, new_rows.rows, segment, found, positions, matched)
        yield from self._store(side, batch, new_rows, matched)
        if self._how == "semi" and side == "right":
            self.stores["left"].sweep()

    def _arranged(self, side: Side, batch: pa.RecordBatch) -> Arranged:
        """Return the rows of a batch that can match, arranged like the rows of a segment."""
        compared = self._condition.rows(batch, side)
        if self._order is not None:
            new_rows = self._order.arranged(compared.keys, compared.codes, compared.valid, compared.rising)
            if all(segment.is_near(new_rows) for segment in self._in_order[other_side(side)].segments):
                return new_rows
            self._go_by_key()
        keys = self._keys.of(compared.keys, compared.valid, batch.num_rows)
        return arrange(keys, compared.codes, self._keys.count)

    def _go_by_key(self) -> None:
        """Store rows by key from now on, because too many are close to one another."""
        self._order = None
        for side, store in self._in_order.items():
            for batch, matched in store.living():
                self.load(side, batch, matched)
            self._by_key[side].evicted = store.evicted
        self._in_order = {}

    def _matches(
        self,
        side: Side,
        batch: pa.RecordBatch,
        rows: Codes,
        segment: Segment,
        found: Codes,
        positions: Codes,
        matched: Mask,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the candidates that match, and mark them."""
        own: pa.RecordBatch | None = None
        if self._condition.check is not None or self._how not in ("semi", "anti"):
            own, others = rows_at(batch, rows[found]), segment.taken(positions)
            left, right = (own, others) if side == "left" else (others, own)
            match_mask = self._condition.match_mask(left, right)
            if match_mask is not None:
                found, positions = found[match_mask], positions[match_mask]
                index = array_of(np.flatnonzero(match_mask), pa.int64())
                left, right = rows_of(left, index), rows_of(right, index)
            if self._how not in ("semi", "anti"):
                yield self._output.pairs(left, right)
        matched[found] = True
        if self._how == "semi" and side == "right":
            # A left row is emitted at its first match, and then evicted.
            fresh = np.unique(positions[segment.alive[positions]])
            if len(fresh):
                yield self._output.alone(segment.taken(fresh), "left")
                self.stores["left"].remove(segment, fresh)
        segment.matched[positions] = True

    def _store(self, side: Side, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> Iterator[pa.RecordBatch]:
        """Store rows that can still match, and yield the others where ``how`` keeps them."""
        bounds, store, rows = self._bounds[side], self.stores[side], new_rows.rows
        held = new_rows
        if bounds.watches:
            held = replace(new_rows, codes=bounds.codes(rows_at(batch, rows), new_rows.codes))
        kept = held.living(bounds.limits(self._frontiers[other_side(side)]))
        if side == "left" and self._how in ("semi", "anti"):
            if self._how == "semi" and matched.any():
                yield self._output.alone(rows_at(batch, rows[matched]), "left")
            kept = kept[~matched[kept]]
        if self._keeps[side]:
            done = np.ones(batch.num_rows, np.bool_)
            done[rows[matched]] = False
            done[rows[kept]] = False
            if done.any():
                yield self._output.alone(rows_at(batch, np.flatnonzero(done)), side)
        store.add(batch, held, matched, kept)

    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Evict rows of a side that can no longer match, and yield the unmatched ones where ``how`` keeps them."""
        other = other_side(side)
        for segment, gone in self.stores[side].expire(self._bounds[side].limits(self._frontiers[other])):
            if self._keeps[side]:
                alone = gone[~segment.matched[gone]]
                if len(alone):
                    yield self._output.alone(segment.taken(alone), side)
        if self._order is None:
            self._keys.forget()

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
        held = self._arranged(side, batch)
        bounds = self._bounds[side]
        codes = bounds.codes(rows_at(batch, held.rows), held.codes) if bounds.watches else held.codes
        self.stores[side].add(batch, replace(held, codes=codes), matched[held.rows])
