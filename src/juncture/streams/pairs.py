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
from juncture.matching.output import Output
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams.bounds import Bounds
from juncture.streams.frontier import Frontier
from juncture.streams.operator import StreamOperator
from juncture.streams.state.keyed import KeyedStore
from juncture.streams.state.ordered import InOrder, OrderedStore
from juncture.streams.state.segment import Arranged, Segment
from juncture.streams.state.store import RowStore


class PairJoin(StreamOperator):
    """A join that emits each match at once, and each unmatched row when it expires."""

    def __init__(
        self, condition: Condition, bounds: Mapping[Side, Bounds], output: Output, frontiers: Mapping[Side, Frontier]
    ) -> None:
        self._by_key: dict[Side, KeyedStore] = {side: KeyedStore(condition.matching) for side in SIDES}
        super().__init__(condition, frontiers, self._by_key)
        self.stores: Mapping[Side, RowStore[Any]] = self._by_key
        self._condition = condition
        self._bounds = bounds
        self._output = output
        self._how = condition.join.how
        self._order = InOrder.of(condition.key_types) if condition.is_band and not condition.nulls_equal else None
        if self._order is not None:
            self.stores = {side: OrderedStore(self._order) for side in SIDES}
        self._keeps = {side: unmatched_are_results(self._how, side) for side in SIDES}

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
        if self._order is not None:
            new_rows = self._order.arranged(self._condition.rows(batch, side))
            if all(segment.is_near(new_rows) for segment in self.stores[other_side(side)].segments):
                return new_rows
            self._go_by_key()
        return super()._arranged(side, batch)

    def _go_by_key(self) -> None:
        """Store rows by key from now on, because too many are close to one another."""
        in_order, self.stores, self._order = self.stores, self._by_key, None
        for side, store in in_order.items():
            for stored in store.batches():
                self.load(side, *stored.living())
            self._by_key[side].evicted = store.evicted

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
        if self._keeps[other_side(side)]:
            segment.matched[positions] = True

    def _store(self, side: Side, batch: pa.RecordBatch, new_rows: Arranged, matched: Mask) -> Iterator[pa.RecordBatch]:
        """Store rows that can still match, and yield the others where ``how`` keeps them."""
        rows, stored = new_rows.rows, self._with_all_lines(side, batch, new_rows)
        kept = stored.living(self._bounds[side].limits(self._frontiers[other_side(side)]))
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
        self.stores[side].add(batch, stored, matched, kept)

    def _with_all_lines(self, side: Side, batch: pa.RecordBatch, new_rows: Arranged) -> Arranged:
        """Return arranged rows with the code lines of all values that limit how long they can match."""
        bounds = self._bounds[side]
        if not bounds.watches:
            return new_rows
        return replace(new_rows, codes=bounds.codes(rows_at(batch, new_rows.rows), new_rows.codes))

    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Evict rows that a side has passed, and yield the unmatched ones where ``how`` keeps them."""
        other = other_side(side)
        for segment, gone in self.stores[other].expire(self._bounds[other].limits(self._frontiers[side])):
            if self._keeps[other]:
                alone = gone[~segment.matched[gone]]
                if len(alone):
                    yield self._output.alone(segment.taken(alone), other)
        if self._order is None:
            self._keys.forget()

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
        rows = self._with_all_lines(side, batch, self._arranged(side, batch))
        self.stores[side].add(batch, rows, matched[rows.rows])
