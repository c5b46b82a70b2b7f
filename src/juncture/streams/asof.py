"""As-of joins of streams: a left row is emitted once no future row can change its match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import rows_at
from juncture.errors import DataError, PlanError
from juncture.kernels.array_types import Ints, Mask
from juncture.kernels.next_row import mark_wanted
from juncture.matching.asof import AsofCondition, KeyRanges, check_asof, improving_ranges, left_ranges, tolerance_ranges
from juncture.matching.condition import column_of, unmatched_are_results
from juncture.matching.output import Output
from juncture.ordered.arithmetic import MAX_CODE
from juncture.predicate.language import build
from juncture.predicate.language.nodes import Node
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams.asof_search import AsofSearch, Waiting
from juncture.streams.frontier import Frontier
from juncture.streams.operator import StreamOperator
from juncture.streams.order import SideOrder
from juncture.streams.order_graph import FutureValues
from juncture.streams.state.sorted_rows import SortedRows

Number = TypeVar("Number", np.int32, np.int64)


@dataclass(frozen=True)
class AsofBounds:
    """Which rows of one side of an as-of join are kept, and for how long. ``future`` has the ``on`` values to come."""

    join: ResolvedAsof
    side: Side
    orders: Mapping[Side, Sequence[SideOrder]]
    future: Mapping[Side, FutureValues]

    @classmethod
    def of_sides(cls, join: ResolvedAsof, orders: Mapping[Side, Sequence[SideOrder]]) -> dict[Side, AsofBounds]:
        """Return the bounds of both sides."""
        check_asof(join, "streams")
        _check_all_available(join)
        future: dict[Side, FutureValues] = {
            "left": FutureValues(column_of(join, "left", join.left_on), orders["left"], join.domain),
            "right": FutureValues(column_of(join, "right", join.right_on), orders["right"], join.domain),
        }
        return {side: cls(join, side, orders, future) for side in SIDES}

    @property
    def is_bounded(self) -> bool:
        """Whether every row is evicted at some time, except for the last ones of each key."""
        other = self.future[other_side(self.side)]
        waits = self.side == "left" and self.join.left_by and self.join.tolerance is None and not self._passes
        return (other.rises or other.falls) and not waits

    @property
    def _passes(self) -> bool:
        """Whether future right rows move away from where matches are searched."""
        right, (direction, *others) = self.future["right"], self.join.directions
        return not others and (right.falls if direction.forward else right.rises)

    def unplaced(self, order: SideOrder) -> Node | None:
        """Return the condition on rows that have a null order and may match; None if no row can."""
        on = self.join.left_on if self.side == "left" else self.join.right_on
        if order.node == column_of(self.join, self.side, on):
            return None
        return build.disjunction([order.is_null, order.is_nan])


def _check_all_available(join: ResolvedAsof) -> None:
    """Raise an error for features with which any earlier right row could be the match of a later left row."""
    for argument, value in (("available_at", join.spec.available_at), ("where", join.spec.where)):
        if value is not None:
            raise PlanError(
                f"{argument}={value!r} is not supported for streams, because a later left row could pass over any "
                "number of right rows. Join in batch or over changes, or filter the inputs first.",
                name="JN-ASOF-UNSUPPORTED",
            )


class AsofJoin(StreamOperator):
    """An as-of join that emits final rows. It fails at a tie with ``ties="error"``."""

    def __init__(
        self,
        join: ResolvedAsof,
        future: Mapping[Side, FutureValues],
        output: Output,
        frontiers: Mapping[Side, Frontier],
    ) -> None:
        self._left, self._right = SortedRows(), SortedRows()
        self.stores: dict[Side, SortedRows] = {"left": self._left, "right": self._right}
        super().__init__(AsofCondition(join), frontiers, self.stores)
        self._join = join
        self._future = future
        self._output = output
        self._how = join.how
        self._search = AsofSearch(join, self._left, self._right)

    # New rows

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Store rows of a side, and yield rows that can match nothing."""
        new_rows = self._arranged(side, batch)
        self.stores[side].add(batch, new_rows, np.zeros(batch.num_rows, np.bool_))
        if len(new_rows.rows) < batch.num_rows and unmatched_are_results(self._how, side):
            yield self._output.alone(rows_at(batch, new_rows.others(batch.num_rows)), side)

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
        self.stores[side].add(batch, self._arranged(side, batch), matched)

    # Final rows

    def expire(self, _side: Side) -> Iterator[pa.RecordBatch]:
        """Yield final left rows, and evict right rows that no left row can match."""
        future = self._future["right"].range(self._frontiers["right"])
        waiting = self._waiting(future)
        if len(waiting):
            yield from self._emit_final(waiting, future)
        if self._right.rows:
            yield from self._evict()
        for store in self.stores.values():
            store.shrink()
        self._keys.forget()

    def _waiting(self, future: tuple[int, int]) -> Ints:
        codes = self._left.row_codes
        if self._are_final and not self._frontiers["right"].ended:
            # A future right row may have the same code, unless only earlier rows match.
            exact = self._join.spec.allow_exact_matches
            return np.flatnonzero(codes < (future[0] if exact else min(future[0], MAX_CODE - 1) + 1))
        if not self._search.any_does and future[0] <= future[1]:
            # Left rows beyond the future right rows are not final yet.
            right = self._future["right"]
            if right.rises != right.falls:
                return np.flatnonzero(codes <= future[0] if right.rises else codes >= future[1])
        return np.arange(len(codes))

    @property
    def _are_final(self) -> bool:
        """Whether all left rows in `_waiting` are final."""
        plain = not any(each.forward for each in self._join.directions) and not self._future["right"].falls
        return self._frontiers["right"].ended or (plain and not self._search.any_does)

    def _emit_final(self, positions: Ints, future: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        rows = Waiting(self._left.row_keys, self._left.row_codes, self._left.slots).at(positions)
        column = None if self._join.tolerance is None else self._join.tolerance.column
        tolerances = None if column is None else self._left.taken(rows.slots, [column]).column(column)
        ranges = tolerance_ranges(self._join, rows.codes, tolerances)
        try:
            found = self._search.matches(rows, ranges, are_final=self._are_final)
            final = self._final(rows.codes, found, future, ranges)
            if not final.any():
                return
            index = np.flatnonzero(final)
            final_rows, found = rows.at(index), found[index]
            if self._join.spec.ties == "error" and not self._are_final:
                found = self._search.decided(final_rows, are_final=True)
        except DataError:
            self.failed = True
            raise
        kept = np.ones(self._left.rows, np.bool_)
        kept[positions[index]] = False
        self._left.keep(kept)
        yield from self._results(final_rows.slots, found)

    def _final(self, codes: Ints, found: Ints, future: tuple[int, int], ranges: KeyRanges) -> Mask:
        """Return the left rows for which no future row would be a better match."""
        if future[0] > future[1]:
            return np.ones(len(codes), np.bool_)
        spec, held = self._join.spec, self._right.row_codes
        full = found.shape[1] >= spec.matches
        last = found[:, spec.matches - 1] if full else np.full(len(codes), -1)
        has_all = last >= 0
        best = held[np.where(has_all, last, 0)] if len(held) else np.zeros(len(codes), np.int64)
        low, high = improving_ranges(self._join, codes, best, has_all, ranges)
        final: Mask = (low > high) | (future[0] > high) | (future[1] < low)
        if ranges.possible is not None:
            final |= ~ranges.possible
        if self._search.any_does:
            final |= (found >= 0).any(axis=1) if found.shape[1] else False
        return final

    # Results

    def _results(self, slots: Ints, found: Ints) -> Iterator[pa.RecordBatch]:
        # Rows are read in the order of the store.
        order = np.argsort(slots)
        slots, found = slots[order], found[order]
        here = found >= 0
        matched = here.any(axis=1)
        if self._how in ("semi", "anti"):
            wanted = matched == (self._how == "semi")
            if wanted.any():
                yield self._output.alone(self._left.taken(slots[wanted]), "left")
            return
        if matched.any():
            taken = self._right.slots[found[here]]
            if self._how in ("right", "full"):
                self._right.mark(taken)
            left = self._left.taken(np.repeat(slots, here.sum(axis=1)), self._output.output_columns("left"))
            yield self._output.pairs(left, self._right.taken(taken, self._output.output_columns("right")))
        if self._how in ("left", "full") and not matched.all():
            yield self._output.alone(self._left.taken(slots[~matched]), "left")

    # Eviction

    def _evict(self) -> Iterator[pa.RecordBatch]:
        """Evict right rows that no left row can match, and yield the unmatched ones where ``how`` keeps them."""
        gone = self._right.keep(self._wanted())
        if self._how in ("right", "full"):
            alone = self._right.unmatched(gone)
            if len(alone):
                yield self._output.alone(self._right.taken(np.sort(alone)), "right")

    def _wanted(self) -> Mask:
        """Return the right rows that a waiting or future left row could match."""
        keys, codes = self._right.row_keys, self._right.row_codes
        waiting = self._left.row_keys, self._left.row_codes
        first, last = self._future["left"].range(self._frontiers["left"])
        low, high = left_ranges(self._join, codes)
        limits = self._join.spec.matches, not self._join.spec.allow_exact_matches
        wanted = np.zeros(len(keys), np.bool_)
        for direction in self._join.directions:
            if not direction.forward:
                mark_wanted(keys, codes, high, *waiting, first, last, *limits, wanted.view(np.uint8))
                continue
            # Forward search is backward search over complements in reverse order.
            mirrored = _mirrored(keys), _mirrored(codes), _mirrored(low), _mirrored(waiting[0]), _mirrored(waiting[1])
            ahead = np.zeros(len(keys), np.bool_)
            mark_wanted(*mirrored, ~last, ~first, *limits, ahead.view(np.uint8))
            wanted |= ahead[::-1]
        return wanted


def _mirrored(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the complements of ascending numbers in reverse order, which ascend again."""
    return np.ascontiguousarray(~values[::-1])
