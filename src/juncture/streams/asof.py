"""As-of joins of streams: a left row is given when nothing that can still come would change its match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import Mask, array_of, joined_batches, rows_of
from juncture.columnar.key_table import EMPTY
from juncture.columnar.order_encoding import StepCoder, TooWideError
from juncture.errors import DataError, PlanError
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.next_row import find_next, mark_wanted
from juncture.kernels.row_order import sort_rows
from juncture.local.asof.join import find
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import Side
from juncture.streams.coming import Coming
from juncture.streams.condition import column_of
from juncture.streams.frontier import Frontier
from juncture.streams.limits import GREATEST, NO_LIMIT
from juncture.streams.order import SideOrder
from juncture.streams.output import Output, held_schema
from juncture.streams.reach import Reach, improving, moved, reach_of, served
from juncture.streams.state.keys import HeldKeys, in_order
from juncture.streams.state.segment import Segment
from juncture.streams.state.store import RowStore

__all__ = ["AsofBounds", "AsofJoin", "AsofSide"]

Positions = npt.NDArray[np.int64]
Place = tuple[Segment, Positions]


def _check(join: ResolvedAsof) -> None:
    """Refuse what streams do not have."""
    if join.known is not None:
        raise PlanError(
            f"known={join.spec.known!r} asks of each right row since when it is known, and a stream would have to hold "
            "rows for as long as any may become known. Join in batch, or by the time at which rows come."
        )
    if join.goes_by_table_order and join.how not in ("semi", "anti"):
        ties = join.spec.ties
        raise PlanError(
            f"ties={ties!r} takes the {ties} row in the order of the right table, and a stream has none: rows come in "
            "any order. Name in order_by= the columns that give the order, or leave ties= out."
        )


class AsofBounds:
    """What is held of both sides of an as-of join, and for how long.

    Parameters
    ----------
    join
        The join.
    orders
        Of both sides.

    Raises
    ------
    PlanError
        If the join asks for what streams do not have.
    """

    def __init__(self, join: ResolvedAsof, orders: Mapping[Side, Sequence[SideOrder]]) -> None:
        _check(join)
        self.join = join
        self.coder = StepCoder.of(join)
        self.coming: dict[Side, Coming] = {
            "left": Coming(column_of(join, "left", join.left_on), orders["left"], self.coder),
            "right": Coming(column_of(join, "right", join.right_on), orders["right"], self.coder),
        }
        self.orders = orders

    @property
    def waits_for_matches(self) -> bool:
        """Whether a left row may have to wait for a right one of its key, however long none comes."""
        passes = self._passes(self.join.spec.direction, self.coming["right"])
        return bool(self.join.left_by) and self.join.tolerance is None and not passes

    @staticmethod
    def _passes(direction: str, right: Coming) -> bool:
        """Tell whether right rows that come go away from where matches are sought."""
        return (direction == "backward" and right.rises) or (direction == "forward" and right.falls)

    def is_bounded(self, side: Side) -> bool:
        """Tell whether every held row of a side is let go some time, but for the last ones of each key."""
        if side == "left":
            right = self.coming["right"]
            return (right.rises or right.falls) and not self.waits_for_matches
        return self.coming["left"].rises or self.coming["left"].falls

    def matches_unplaced(self, side: Side, order: SideOrder) -> bool:
        """Tell whether a row may match if an order of its side is null or NaN."""
        on = self.join.left_on if side == "left" else self.join.right_on
        return order.node != column_of(self.join, side, on)


@dataclass(frozen=True)
class AsofSide:
    """What is held of one side of an as-of join, and for how long."""

    bounds: AsofBounds
    side: Side

    @property
    def is_bounded(self) -> bool:
        """Whether every held row is let go some time, but for the last ones of each key."""
        return self.bounds.is_bounded(self.side)

    def matches_null(self, order: SideOrder) -> bool:
        """Tell whether a row may match if an order of its side is null."""
        return self.bounds.matches_unplaced(self.side, order)

    def matches_nan(self, order: SideOrder) -> bool:
        """Tell whether a row may match if an order of its side is NaN."""
        return self.bounds.matches_unplaced(self.side, order)


class AsofJoin:
    """An as-of join whose rows are final when they are given.

    Parameters
    ----------
    bounds, frontiers
        What is held, and how far each side has come.
    output
        Makes rows of the output.

    Attributes
    ----------
    failed
        Whether there was a tie that is an error, so that there is no answer.
    """

    def __init__(self, bounds: AsofBounds, frontiers: Mapping[Side, Frontier], output: Output) -> None:
        self._bounds = bounds
        self._join = bounds.join
        self._frontiers = frontiers
        self._output = output
        self._how = self._join.how
        self.failed = False
        self._search = replace(self._join, how="left", spec=replace(self._join.spec, how="left"))
        if self._any_does:
            self._search = replace(self._search, spec=replace(self._search.spec, matches=1))
        self.stores: dict[Side, RowStore] = {"left": RowStore(0), "right": RowStore(0)}
        types = [
            [schema.field(name).type for name in by]
            for schema, by in (
                (self._join.left_schema, self._join.left_by),
                (self._join.right_schema, self._join.right_by),
            )
        ]
        self._keys = HeldKeys((types[0], types[1]), self.stores, nulls_equal=self._join.nulls_equal)

    # What comes

    def push(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what follows from rows of a side, whose frontier has moved on by them."""
        yield from self.take(side, batch)
        yield from self.expire("left")

    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Hold rows of a side, and yield those that can match nothing."""
        possible = self._hold(side, batch, np.zeros(batch.num_rows, np.bool_))
        kept = self._how in (("left", "full", "anti") if side == "left" else ("right", "full"))
        if kept and possible is not None:
            yield self._output.alone(rows_of(batch, array_of(np.flatnonzero(~possible), pa.int64())), side)

    def _hold(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> Mask | None:
        """Hold the rows of a side that can match at all; return which these are, or None if they are all."""
        names = self._join.left_by if side == "left" else self._join.right_by
        on = self._join.left_on if side == "left" else self._join.right_on
        try:
            codes, valid = self._bounds.coder.encode(batch.column(on))
        except TooWideError:
            raise DataError(
                f"A value of the {side} column {on!r} does not fit the 64 bits by which streams are compared. Cast it "
                "to a type of fewer digits, or of a coarser unit."
            ) from None
        keys = self._keys.of([batch.column(name) for name in names], valid, batch.num_rows)
        rows = in_order(keys, codes.reshape(1, -1))
        self.stores[side].add(batch, rows, keys[rows], codes[rows].reshape(1, -1), matched[rows])
        return None if len(rows) == batch.num_rows else keys != EMPTY

    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Hold rows that were held before."""
        self._hold(side, batch, matched)

    # What is final

    def expire(self, _side: Side) -> Iterator[pa.RecordBatch]:
        """Yield left rows that are final, and let go of right rows that no left row will take."""
        coming = self._bounds.coming["right"].range(self._frontiers["right"])
        waiting = self._waiting(coming)
        if waiting:
            yield from self._settle(waiting, coming)
        yield from self._let_go()
        self._keys.forget()

    def _waiting(self, coming: tuple[int, int]) -> list[Place]:
        """Return left rows that may be final."""
        spec = self._join.spec
        found = []
        for segment in self.stores["left"].segments:
            alive = segment.alive
            if self._are_final and not self._frontiers["right"].ended:
                # A right row of the same code may come as long as any may, unless only earlier ones match.
                limit = coming[0] if spec.allow_exact_matches else min(coming[0], GREATEST - 1) + 1
                alive = alive & (segment.codes[0] < limit)
            elif not self._any_does and coming[0] <= coming[1]:
                # What is beyond the rows that come is not final yet.
                rises, falls = (getattr(self._bounds.coming["right"], way) for way in ("rises", "falls"))
                if rises != falls:
                    beyond = segment.codes[0] > coming[0] if rises else segment.codes[0] < coming[1]
                    alive = alive & ~beyond
            positions = np.flatnonzero(alive)
            if len(positions):
                found.append((segment, positions))
        return found

    @property
    def _any_does(self) -> bool:
        """Whether any match will do, so that the first one is final."""
        return self._how in ("semi", "anti") and self._join.spec.ties != "error"

    def _settle(self, waiting: list[Place], coming: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """Find the matches of left rows, and yield those that are final."""
        left = joined_batches([segment.taken(positions) for segment, positions in waiting])
        keys = np.concatenate([segment.keys[positions] for segment, positions in waiting])
        codes = np.concatenate([segment.codes[0][positions] for segment, positions in waiting])
        reach = reach_of(self._join, self._bounds.coder, left, codes)
        right = self.stores["right"].segments
        right_codes = np.concatenate([np.zeros(0, np.int64), *(segment.codes[0] for segment in right)])
        pointers = self._pointers(left, waiting, keys, codes, right_codes, reach)
        final = self._final(codes, pointers, right_codes, coming, reach)
        first = 0
        for segment, positions in waiting:
            done = final[first : first + len(positions)]
            self.stores["left"].remove(segment, positions[done])
            first += len(positions)
        self.stores["left"].sweep()
        if final.any():
            index = np.flatnonzero(final)
            given = left
            if len(index) < len(final):
                given, pointers = rows_of(left, array_of(index, pa.int64())), pointers[index]
            if self._join.spec.ties == "error" and not self._are_final:
                pointers = self._decided(given, keys[index], settled=True)
            yield from self._given(given, pointers, right)

    def _pointers(
        self, left: pa.RecordBatch, waiting: list[Place], keys: Codes, codes: Ints, right_codes: Ints, reach: Reach
    ) -> Ints:
        """Return the slots of the right rows that each left row matches; those that are tied are decided apart."""
        is_rounded = self._bounds.coder.domain.kind == "float" and (
            self._join.tolerance is not None or self._join.spec.direction == "nearest"
        )
        if self._search.spec.matches > 1 or is_rounded:
            return self._decided(left, keys, settled=self._are_final)
        slots, tied = np.full(len(codes), -1), np.zeros(len(codes), np.bool_)
        first = 0
        for _, positions in waiting:
            here = slice(first, first + len(positions))
            first = here.stop
            slots[here], tied[here] = self._nearest(keys[here], codes[here], right_codes)
        if self._join.tolerance is not None and len(right_codes):
            found = right_codes[slots]
            slots[(found < reach.low) | (found > reach.high)] = -1
        if reach.possible is not None:
            slots[~reach.possible] = -1
        open_ties = np.flatnonzero(tied & (slots >= 0))
        if len(open_ties) and not self._any_does:
            rows = rows_of(left, array_of(open_ties, pa.int64()))
            slots[open_ties] = self._decided(rows, keys[open_ties], settled=self._are_final)[:, 0]
        return slots.reshape(-1, 1)

    def _nearest(self, keys: Codes, codes: Ints, right_codes: Ints) -> tuple[Ints, Mask]:
        """Return the slot of the right row that is next to each code, and whether others have its code."""
        spec = self._join.spec
        strict = not spec.allow_exact_matches
        if spec.direction != "nearest":
            return self._next(keys, codes, forward=spec.direction == "forward", strict=strict)
        behind, behind_tied = self._next(keys, codes, forward=False, strict=strict)
        ahead, ahead_tied = self._next(keys, codes, forward=True, strict=True)
        if not len(right_codes):
            return behind, behind_tied
        # Differences of codes are exact as unsigned ones.
        back = codes.view(np.uint64) - right_codes[behind].view(np.uint64)
        on = right_codes[ahead].view(np.uint64) - codes.view(np.uint64)
        is_nearer = on <= back if spec.prefer == "later" else on < back
        is_ahead = (ahead >= 0) & ((behind < 0) | is_nearer)
        return np.where(is_ahead, ahead, behind), np.where(is_ahead, ahead_tied, behind_tied)

    def _next(self, keys: Codes, codes: Ints, *, forward: bool, strict: bool) -> tuple[Ints, Mask]:
        """Return the slot of the next right row in one direction, and whether others have its code."""
        wanted = moved(codes, (1 if forward else -1) * strict)
        best = np.full(len(keys), -1)
        best_codes = np.full(len(keys), GREATEST if forward else NO_LIMIT)
        tied = np.zeros(len(keys), np.bool_)
        positions, same = np.empty(len(keys), np.int64), np.empty(len(keys), np.uint8)
        first = 0
        for segment in self.stores["right"].segments:
            held = segment.codes[0]
            find_next(keys, wanted, segment.groups, segment.starts, held, forward, positions, same)
            there = positions >= 0
            found = held[positions]
            equal = there & (best >= 0) & (found == best_codes)
            better = there & ((best < 0) | ((found < best_codes) if forward else (found > best_codes)))
            tied = np.where(better, same > 0, tied | equal)
            best = np.where(better, positions + first, best)
            best_codes = np.where(better, found, best_codes)
            first += len(held)
        # Beyond the last code there is none.
        return (np.where(wanted == codes, -1, best) if strict else best), tied

    @property
    def _are_final(self) -> bool:
        """Whether all rows whose matches are looked for are final."""
        plain = self._join.spec.direction == "backward" and not self._bounds.coming["right"].falls
        return self._frontiers["right"].ended or (plain and not self._any_does)

    def _decided(self, left: pa.RecordBatch, keys: Codes, *, settled: bool) -> Ints:
        """Return the slots of the right rows that each left row matches, best first, however ties are decided.

        Raises
        ------
        DataError
            If the rows are settled, ties are errors, and there is one.
        """
        segments = self.stores["right"].segments
        # Rows of other keys are none of their matches, and there may be many.
        wanted = np.zeros(max([int(keys.max()), *(int(each.groups[-1]) for each in segments)]) + 1, np.bool_)
        wanted[keys] = True
        alive = [np.flatnonzero(segment.alive & wanted[segment.keys]) for segment in segments]
        batches = [segment.taken(positions) for segment, positions in zip(segments, alive, strict=True)]
        right = pa.Table.from_batches(batches) if batches else held_schema(self._join, "right").empty_table()
        search = self._search
        if search.spec.ties == "error" and not settled:
            search = replace(search, spec=replace(search.spec, ties="greatest"))
        sources = TableSource(pa.Table.from_batches([left])), TableSource(right)
        try:
            with join_context(threads=1) as context:
                pointers = find(search, *sources, "merge", context).pointers
        except DataError:
            self.failed = True
            raise
        starts = np.cumsum([0, *(len(segment.rows) for segment in segments)])
        slots = np.concatenate(
            [np.zeros(0, np.int64), *(each + first for each, first in zip(alive, starts, strict=False))]
        )
        return np.where(pointers >= 0, slots[pointers], -1) if len(slots) else pointers

    def _final(self, codes: Ints, pointers: Ints, right_codes: Ints, coming: tuple[int, int], reach: Reach) -> Mask:
        """Tell which left rows nothing that can still come would match better."""
        spec = self._join.spec
        if coming[0] > coming[1]:
            return np.ones(len(codes), np.bool_)
        full = pointers.shape[1] >= spec.matches
        last = pointers[:, spec.matches - 1] if full else np.full(len(codes), -1)
        has_all = last >= 0
        best = right_codes[np.where(has_all, last, 0)] if len(right_codes) else np.zeros(len(codes), np.int64)
        low, high = improving(spec, self._bounds.coder, codes, best, has_all, reach)
        final: Mask = (low > high) | (coming[0] > high) | (coming[1] < low)
        if reach.possible is not None:
            final |= ~reach.possible
        if self._any_does:
            final |= (pointers >= 0).any(axis=1) if pointers.shape[1] else False
        return final

    # What is given

    def _given(self, left: pa.RecordBatch, pointers: Ints, right: list[Segment]) -> Iterator[pa.RecordBatch]:
        """Yield left rows that are final, with their matches."""
        here = pointers >= 0
        matched = here.any(axis=1)
        if self._how in ("semi", "anti"):
            wanted = np.flatnonzero(matched == (self._how == "semi"))
            if len(wanted):
                yield self._output.alone(rows_of(left, array_of(wanted, pa.int64())), "left")
            return
        rows = np.repeat(np.arange(len(pointers)), here.sum(axis=1))
        taken = pointers[here]
        if len(taken):
            edges = np.cumsum([0, *(len(segment.rows) for segment in right)])
            part = np.searchsorted(edges, taken, "right") - 1
            for number in np.unique(part).tolist():
                segment, mask = right[number], part == number
                places = taken[mask] - edges[number]
                segment.matched[places] = True
                ours = rows_of(left, array_of(rows[mask], pa.int64()))
                yield self._output.pairs(ours, segment.taken(places))
        if self._how in ("left", "full") and not matched.all():
            yield self._output.alone(rows_of(left, array_of(np.flatnonzero(~matched), pa.int64())), "left")

    # What is held

    def _let_go(self) -> Iterator[pa.RecordBatch]:
        """Let go of right rows that no left row will take, and yield those that none took, where they are kept."""
        store = self.stores["right"]
        if not store.segments:
            return
        segments = store.segments
        keys = np.concatenate([segment.keys for segment in segments])
        codes = np.concatenate([segment.codes[0] for segment in segments])
        alive = np.concatenate([segment.alive for segment in segments])
        wanted = self._wanted(keys, codes, alive)
        first = 0
        for segment in segments:
            here = slice(first, first + len(segment.rows))
            first = here.stop
            gone = segment.kill(~wanted[here])
            store.evicted += len(gone)
            if self._how in ("right", "full"):
                alone = gone[~segment.matched[gone]]
                if len(alone):
                    yield self._output.alone(segment.taken(alone), "right")
        store.sweep()

    def _wanted(self, keys: Codes, codes: Ints, alive: Mask) -> Mask:
        """Tell which right rows a left row that waits, or may come, would take."""
        spec = self._join.spec
        queries = [
            (segment.keys[segment.alive], segment.codes[0][segment.alive]) for segment in self.stores["left"].segments
        ]
        query_keys = np.concatenate([np.zeros(0, np.int32), *(each for each, _ in queries)])
        query_codes = np.concatenate([np.zeros(0, np.int64), *(each for _, each in queries)])
        coming = self._bounds.coming["left"].range(self._frontiers["left"])
        rows = np.flatnonzero(alive)
        low, high = served(self._join, self._bounds.coder, codes[rows])
        wanted = np.zeros(len(rows), np.uint8)
        if spec.direction != "forward":
            self._mark(keys[rows], codes[rows], high, query_keys, query_codes, coming, wanted)
        if spec.direction != "backward":
            turned = ~coming[1], ~coming[0]
            self._mark(keys[rows], ~codes[rows], ~low, query_keys, ~query_codes, turned, wanted)
        found = np.zeros(len(keys), np.bool_)
        found[rows] = wanted.astype(np.bool_)
        return found

    def _mark(
        self,
        keys: Codes,
        codes: Ints,
        far: Ints,
        query_keys: Codes,
        queries: Ints,
        coming: tuple[int, int],
        wanted: npt.NDArray[np.uint8],
    ) -> None:
        """Mark rows that serve queries not before them."""
        order, query_order = np.empty(len(keys), np.int32), np.empty(len(query_keys), np.int32)
        sort_rows(keys, codes, order)
        sort_rows(query_keys, queries, query_order)
        marks = np.zeros(len(keys), np.uint8)
        mark_wanted(
            keys[order], codes[order], far[order], query_keys[query_order], queries[query_order], *coming,
            self._join.spec.matches, not self._join.spec.allow_exact_matches, marks,
        )  # fmt: skip
        wanted[order] |= marks
