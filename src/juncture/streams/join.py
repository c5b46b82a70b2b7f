"""A join of two streams, driven by hand or by readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import DataError, PlanError, SpecError
from juncture.kernels.array_types import Mask
from juncture.predicate.evaluate.evaluate import matches
from juncture.spec.schema import SIDES, Side, other_side
from juncture.streams import checkpoint
from juncture.streams.batches import batches_of
from juncture.streams.frontier import Frontier
from juncture.streams.output import to_streaming
from juncture.streams.plan import StreamPlan
from juncture.streams.setup import Setup
from juncture.streams.snapshot import Snapshot
from juncture.streams.state.marks import with_marks, without_marks
from juncture.streams.summary import LateRows, SideState, State
from juncture.streams.turns import Turns


class StreamJoin:
    """A join of two streams. It is made by `juncture.stream`.

    Rows go in with `push`, in any turns, and rows of the answer come out as soon as they are final: a pair at once, an
    unmatched row when nothing that can still come would match it. All answers together are those of the same join of
    two tables with all rows that came in time.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> left, right = pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()})
    >>> join = jn.stream(
    ...     left,
    ...     right,
    ...     jn.Where("l.a > r.b - 3 AND l.a < r.b + 10", how="left"),
    ...     left=jn.Order("a"),
    ...     right=jn.Order("b"),
    ... )
    >>> join.push(left=pa.record_batch({"a": [3, 5]}))
    []
    >>> [batch.to_pylist() for batch in join.push(right=pa.record_batch({"b": [6]}))]
    [[{'a': 5, 'b': 6}, {'a': 3, 'b': None}]]
    >>> join.state.left.rows
    1
    """

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self.setup = plan.setup
        self.schema = plan.schema
        self._frontiers: dict[Side, Frontier] = {side: Frontier(plan.orders[side]) for side in SIDES}
        self._operator = plan.operator(self._frontiers)
        self._late_rows = dict.fromkeys(SIDES, 0)
        self._late: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
        self._closed = False
        self._ready: list[pa.RecordBatch] = []
        self._kept: list[pa.RecordBatch] = []

    def push(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Take rows of one side or of both, and return what follows from them.

        Parameters
        ----------
        left, right
            A record batch, or a table that speaks Arrow; of both sides, the left one goes first.

        Returns
        -------
        list of pyarrow.RecordBatch
            Rows of the answer, in no order.

        Raises
        ------
        SchemaError
            If the columns are not those of the side.
        DataError
            If a value has no place in an order and might match, an interval starts after its end, or a row comes too
            late where that is an error. Nothing of its batch has been taken then; what followed from those before it
            is returned by the next call. Or if right rows tie where ties are errors: then there is no answer.
        """
        self._check_open()
        given: list[tuple[Side, Any]] = [("left", left), ("right", right)]
        batches = [
            (side, batch)
            for side, table in given
            if table is not None
            for batch in batches_of(table, side, self.setup.schema(side))
        ]
        for side, batch in batches:
            if batch.num_rows:
                self._ready += self._push(side, batch)
        return self._given()

    def _given(self) -> list[pa.RecordBatch]:
        """Return what has followed so far, once."""
        ready, kept, self._ready, self._kept = self._ready, self._kept, [], []
        return kept + self._plan.output.finished(ready)

    def _push(self, side: Side, given: pa.RecordBatch) -> list[pa.RecordBatch]:
        batch = given if self._plan.is_seen_as_given[side] else to_streaming(given, self._plan.seen[side])
        frontier = self._frontiers[side]
        before = frontier.to_dict()
        try:
            late, placed = frontier.take(batch)
            self._check_placed(side, batch, placed)
            if late is not None:
                batch = self._set_apart(side, given, batch, late)
            held = batch if self._plan.is_held_as_seen[side] else to_streaming(batch, self._plan.held[side])
            return list(self._operator.push(side, held) if held.num_rows else self._expire(side))
        except DataError:
            frontier.restore(before)
            raise

    def _set_apart(self, side: Side, given: pa.RecordBatch, batch: pa.RecordBatch, late: Mask) -> pa.RecordBatch:
        """Return the rows that come in time, and count or keep the others."""
        if self.setup.late == "error":
            row = int(np.flatnonzero(late)[0])
            orders = ", ".join(repr(order.text) for order in self._plan.orders[side])
            raise DataError(
                f"The {side} row {row:,} of a batch is late: it is farther behind earlier rows than the order "
                f"({orders}) allows: {given.slice(row, 1).to_pylist()[0]}. Pass a greater delay=, or late='collect' "
                "to collect late rows.",
                name="JN-ROW-LATE",
            )
        self._late_rows[side] += int(late.sum())
        if self.setup.late == "collect":
            # Arrow takes no rows of some types.
            self._late[side] += [given.slice(row, 1) for row in np.flatnonzero(late).tolist()]
        return rows_of(batch, array_of(np.flatnonzero(~late), pa.int64()))

    def _check_placed(self, side: Side, batch: pa.RecordBatch, placed: Sequence[Mask | None]) -> None:
        """Refuse rows that have no place in an order and might match all the same."""
        for order, valid in zip(self._plan.orders[side], placed, strict=True):
            if valid is None or valid.all():
                continue
            wrong = self._plan.bounds[side].unplaced(order)
            rows = [] if wrong is None else np.flatnonzero(matches(wrong, **{side: batch})).tolist()
            if rows:
                raise DataError(
                    f"The {side} row {rows[0]:,} of a batch is null or NaN in the order {order.text!r}, but could "
                    "match other rows. Drop such rows, or join them separately.",
                    name="JN-ORDER-NULL",
                )

    def _expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        return self._operator.expire(other_side(side))

    def advance(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Let nothing come any more of a side that is before some values of its orders, and return what follows.

        Parameters
        ----------
        left, right
            A value of the side's order; if it has several, one for each, where None says nothing.

        Raises
        ------
        SpecError
            If the side has no order, or a value is of another kind.
        """
        self._check_open()
        values = [(side, value) for side, value in zip(SIDES, (left, right), strict=True) if value is not None]
        for side, codes in [(side, self._codes(side, value)) for side, value in values]:
            self._frontiers[side].advance(codes)
            self._ready += self._expire(side)
        return self._given()

    def _codes(self, side: Side, value: object) -> list[int | None]:
        orders = self._plan.orders[side]
        values = list(value) if isinstance(value, list | tuple) else [value]
        if not orders:
            raise SpecError(
                f"advance({side}={value!r}) needs an order, but the {side} side has none. Pass {side}=jn.Order(…) to "
                "jn.stream(…).",
                name="JN-ADVANCE",
            )
        if len(values) != len(orders):
            raise SpecError(
                f"advance({side}={value!r}) has {len(values)} values, but the {side} side has {len(orders)} orders: "
                f"{', '.join(repr(order.text) for order in orders)}. Pass one value per order, or None to leave an "
                "order unchanged.",
                name="JN-ADVANCE",
            )
        return [None if each is None else order.code_of(each) for order, each in zip(orders, values, strict=True)]

    def _end(self, side: Side) -> None:
        """Let nothing more come of a side."""
        self._frontiers[side].end()
        self._ready += self._expire(side)

    def close(self) -> list[pa.RecordBatch]:
        """Let nothing more come of either side, and return all that is left of the answer."""
        self._check_open()
        for side in SIDES:
            self._end(side)
        self._closed = True
        return self._given()

    def _check_open(self) -> None:
        if self._closed:
            raise PlanError("The join is closed. Create another one with jn.stream(…).", name="JN-STATE-CLOSED")
        if self._operator.failed:
            raise PlanError(
                "The join has ended, because right rows tied and ties='error'. Create another one with other ties=.",
                name="JN-STATE-CLOSED",
            )

    def run(
        self, left: Iterable[Any], right: Iterable[Any], *, rows_at_once: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Join two readers to their ends, and yield the answer as it becomes final.

        Parameters
        ----------
        left, right
            Record batches, or readers of them. The side that is behind in its order is read next, so that little is
            held; where orders do not compare, both in turn. A batch without rows says that there are none at the
            moment: what has been read is joined, and the other side is read next.
        rows_at_once
            How many rows of a side to read before they are joined: small batches are gathered, since each costs as much
            as some thousand rows. 1 joins each batch as it is read. None gathers 32,768, and 131,072 of an as-of join,
            which looks through all that it holds each time.
        """
        self._check_open()
        rows = self._plan.rows_at_once if rows_at_once is None else rows_at_once
        for side, batches, is_last in Turns({"left": left, "right": right}, self.setup, self._frontiers, rows):
            for batch in batches:
                self._ready += self._push(side, batch)
                yield from self._given()
            if is_last:
                self._end(side)
                yield from self._given()
        self._closed = True

    @property
    def state(self) -> State:
        """What the join holds."""
        return State(*(self._side_state(side) for side in SIDES))

    def _side_state(self, side: Side) -> SideState:
        store = self._operator.stores[side]
        return SideState(store.rows, store.nbytes, store.evicted, self._late_rows[side])

    @property
    def late(self) -> LateRows:
        """The rows that came too late, if ``late="collect"``."""
        return LateRows(*(self._late_table(side) for side in SIDES))

    def explain(self, *, left_rate: float | None = None, right_rate: float | None = None) -> str:
        """Say what is held and for how long, and when what is given.

        Parameters
        ----------
        left_rate, right_rate
            How many rows come in a step of the side's order (a second, of times), to say how many are held.
        """
        return self._plan.explain({"left": left_rate, "right": right_rate})

    def snapshot(self) -> Snapshot:
        """Return all that the join is at this moment, as a value from which `of` goes on."""
        self._kept, self._ready = self._kept + self._plan.output.finished(self._ready), []
        tables = {
            **{f"{side}_state": self._held_rows(side) for side in SIDES},
            **{f"{side}_late": self._late_table(side) for side in SIDES},
            "not_given": pa.Table.from_batches(self._kept, self.schema),
        }
        kept = {name: table for name, table in tables.items() if len(table)}
        return Snapshot(self._plan.described, self._progress(), kept)

    def _progress(self) -> dict[str, Any]:
        """Return how far the join has come, as plain data."""
        return {"closed": self._closed, "failed": self._operator.failed} | {
            side: {
                "frontier": self._frontiers[side].to_dict(),
                "late_rows": self._late_rows[side],
                "evicted_rows": self._operator.stores[side].evicted,
            }
            for side in SIDES
        }

    @classmethod
    def of(cls, plan: StreamPlan, snapshot: Snapshot) -> Self:
        """Return the join of a plan as it was at some moment.

        Parameters
        ----------
        plan
            What joins of the same setup share: it is made once, for any number of snapshots.
        snapshot
            What `snapshot` returned of a join of that setup.
        """
        join = cls(plan)
        join._go_on(snapshot)
        return join

    def _go_on(self, snapshot: Snapshot) -> None:
        progress, tables = snapshot.progress, snapshot.tables
        self._closed = progress["closed"]
        self._operator.failed = progress["failed"]
        self._kept = tables["not_given"].to_batches() if "not_given" in tables else []
        for side in SIDES:
            self._frontiers[side].restore(progress[side]["frontier"])
            self._late_rows[side] = progress[side]["late_rows"]
            if f"{side}_late" in tables:
                self._late[side] = tables[f"{side}_late"].to_batches()
            if f"{side}_state" in tables:
                for batch, matched in without_marks(tables[f"{side}_state"]):
                    self._operator.load(side, batch, matched)
            self._operator.stores[side].evicted = progress[side]["evicted_rows"]

    def _held_rows(self, side: Side) -> pa.Table:
        return with_marks(self._operator.stores[side].living(), self._plan.held[side])

    def _late_table(self, side: Side) -> pa.Table:
        return pa.Table.from_batches(self._late[side], self.setup.schema(side))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write all that the join holds to a folder, from which `restore` goes on.

        Raises
        ------
        StateError
            If it cannot be written.
        """
        checkpoint.write(self.snapshot(), folder)

    @classmethod
    def restore(cls, folder: str | PathLike[str], *, expected: StreamJoin | None = None) -> StreamJoin:
        """Return the join that was saved to a folder, as it was then.

        Parameters
        ----------
        folder
            The folder.
        expected
            A join that it has to be the state of.

        Raises
        ------
        StateError
            If there is no such state, it is damaged, or of another join.
        """
        snapshot = checkpoint.read(folder)
        if expected is not None:
            checkpoint.check_same(folder, snapshot, expected.setup)
        with checkpoint.reading(folder):
            plan = StreamPlan(Setup.from_dict(snapshot.setup)) if expected is None else expected._plan
            return cls.of(plan, snapshot)
