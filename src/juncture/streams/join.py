"""A join of two streams in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import DataError, PlanError, SpecError
from juncture.kernels.array_types import Mask
from juncture.matching.output import project
from juncture.predicate.evaluate.evaluate import matches
from juncture.spec.schema import SIDES, Side
from juncture.streams import checkpoint
from juncture.streams.checkpoint import Snapshot
from juncture.streams.frontier import Frontier
from juncture.streams.plan import Setup, StreamPlan
from juncture.streams.reading import Turns, batches_of
from juncture.streams.state.segment import StateBatch


@dataclass(frozen=True)
class SideState:
    """Number and bytes of the stored rows of one side, and numbers of evicted and late rows."""

    rows: int
    bytes: int
    evicted_rows: int
    late_rows: int


@dataclass(frozen=True)
class State:
    """State of both sides of a stream join."""

    left: SideState
    right: SideState


@dataclass(frozen=True)
class LateRows:
    """Late rows of each side as they were pushed; empty unless ``late="collect"``."""

    left: pa.Table
    right: pa.Table


class StreamJoin:
    """A join of two streams, created by `juncture.stream`.

    Pass rows to `push` in any order of the sides. It returns results as soon as they are final: a match at once, an
    unmatched row when no future row can match it. All results together equal the join of two tables with all rows that
    were not late. Memory: the rows of both sides that future rows can still match, see `explain` and `state`.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> left, right = pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()})
    >>> join = jn.stream(
    ...     left,
    ...     right,
    ...     jn.Where("l.a > r.b - 3 AND l.a < r.b + 10", how="left"),
    ...     left_order=jn.Order("a"),
    ...     right_order=jn.Order("b"),
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
        self._unreturned: list[pa.RecordBatch] = []

    def push(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Apply rows of one side or both, and return the results that are final.

        Parameters
        ----------
        left, right
            A ``pyarrow.RecordBatch``, or a table with the Arrow PyCapsule interface. The left rows are applied first.

        Returns
        -------
        list of pyarrow.RecordBatch
            Result rows, in no order.

        Raises
        ------
        SchemaError
            If the columns differ from the schema of the side.
        DataError
            If a row without an order could match, an interval starts after its end, or a row is late with
            ``late="error"``. The batch is then not applied, and the next call returns the results of the batches
            before it. A tie with ``ties="error"`` ends the join.
        PlanError
            If the join is closed, or has ended.
        """
        self._check_open()
        tables: list[tuple[Side, Any]] = [("left", left), ("right", right)]
        batches = [
            (side, batch)
            for side, table in tables
            if table is not None
            for batch in batches_of(table, side, self.setup.schema(side))
        ]
        for side, batch in batches:
            if batch.num_rows:
                self._ready += self._push(side, batch)
        return self._results()

    def _results(self) -> list[pa.RecordBatch]:
        ready, kept, self._ready, self._unreturned = self._ready, self._unreturned, [], []
        return kept + self._plan.output.finished(ready)

    def _push(self, side: Side, full_batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        batch = project(full_batch, self._plan.read_schemas[side])
        frontier = self._frontiers[side]
        before = frontier.to_dict()
        try:
            return [*self._take(side, full_batch, batch), *self._operator.expire(side)]
        except DataError:
            frontier.restore(before)
            raise

    def _take(
        self, side: Side, full_batch: pa.RecordBatch, batch: pa.RecordBatch, *, advance: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of the rows that are not late, without those of eviction."""
        late, placed = self._frontiers[side].take(batch, advance=advance)
        self._check_placed(side, batch, placed)
        if late is not None:
            batch = self._without_late(side, full_batch, batch, late)
        stored = project(batch, self._plan.stored_schemas[side])
        if stored.num_rows:
            yield from self._operator.take(side, stored)

    def _without_late(
        self, side: Side, full_batch: pa.RecordBatch, batch: pa.RecordBatch, late: Mask
    ) -> pa.RecordBatch:
        """Return the rows that are not late, and count or collect the others."""
        if self.setup.late == "error":
            row = int(np.flatnonzero(late)[0])
            orders = ", ".join(repr(order.text) for order in self._plan.orders[side])
            raise DataError(
                f"The {side} row {row:,} of a batch is late: it is farther behind earlier rows than the order "
                f"({orders}) allows: {full_batch.slice(row, 1).to_pylist()[0]}. Pass a greater delay=, or "
                "late='collect' to collect late rows.",
                name="JN-ROW-LATE",
            )
        self._late_rows[side] += int(late.sum())
        if self.setup.late == "collect":
            # `take` does not support some types.
            self._late[side] += [full_batch.slice(row, 1) for row in np.flatnonzero(late).tolist()]
        return rows_of(batch, array_of(np.flatnonzero(~late), pa.int64()))

    def _check_placed(self, side: Side, batch: pa.RecordBatch, placed: Sequence[Mask | None]) -> None:
        """Raise an error for rows that have no value in an order but may match."""
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

    def advance(self, *, left: Any = None, right: Any = None) -> list[pa.RecordBatch]:
        """Declare that a side has no future rows before some values of its orders, and return the final results.

        Parameters
        ----------
        left, right
            A value of the side's order; with several orders, a list with one value each. None leaves an order
            unchanged.

        Raises
        ------
        SpecError
            If the side has no order, or a value has another type.
        PlanError
            If the join is closed, or has ended.
        """
        self._check_open()
        values = [(side, value) for side, value in zip(SIDES, (left, right), strict=True) if value is not None]
        for side, codes in [(side, self.codes_of(side, value)) for side, value in values]:
            self._frontiers[side].advance(codes)
            self._ready += self._operator.expire(side)
        return self._results()

    def output_position(self) -> list[Any]:
        """Return the least value that future results can have in each order of the left side.

        Pass it to `advance` of a join whose left rows are these results. That join needs as many orders, with a delay
        that no result exceeds, such as the range of the values: results arrive in no order, but none is late.

        Returns
        -------
        list
            A value per order. None if there is none: before the first left row, while results of a failed `push` are
            still to be returned, and when there are no future results. Takes time in proportion to the stored left
            rows.

        Raises
        ------
        PlanError
            If ``how`` is ``"right"`` or ``"full"``, whose results include rows without a left row.

        Examples
        --------
        >>> import juncture as jn
        >>> import pyarrow as pa
        >>> schema = pa.schema({"t": pa.int64()})
        >>> join = jn.stream(schema, schema, jn.Asof(on="t"), left_order=jn.Order("t"), right_order=jn.Order("t"))
        >>> join.push(left=pa.table({"t": [3, 8]}), right=pa.table({"t": [5]}))[0].to_pylist()
        [{'t': 3}]
        >>> join.output_position()  # the row with 8 may still get a better match
        [8]
        """
        if self.setup.spec.how in ("right", "full"):
            raise PlanError(
                f"output_position() needs results with a left row each, but how={self.setup.spec.how!r} also emits "
                "right rows alone. Pass how='left' or 'inner'.",
                name="JN-STREAM-HOW",
            )
        orders = self._plan.orders["left"]
        if self._ready or self._unreturned:
            return [None] * len(orders)
        stored = [each.living()[0] for each in self._operator.stores["left"].batches()]
        frontier = self._frontiers["left"]
        future = [None] * len(orders) if frontier.ended else frontier.least
        return [
            order.least_value(stored, may_come=not frontier.ended, future=code)
            for order, code in zip(orders, future, strict=True)
        ]

    def codes_of(self, side: Side, value: object) -> list[int | None]:
        """Return the codes of a value, or of a list of values, in the orders of a side; as `advance`."""
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

    def end(self, side: Side) -> list[pa.RecordBatch]:
        """Declare that a side has no further rows, and return the final results."""
        self._check_open()
        self._end(side)
        return self._results()

    def _end(self, side: Side) -> None:
        self._frontiers[side].end()
        self._ready += self._operator.expire(side)

    @property
    def has_failed(self) -> bool:
        """Whether the join has ended, because of rows that it cannot match."""
        return self._operator.failed

    def close(self) -> list[pa.RecordBatch]:
        """End both sides, and return all remaining results, unless the join is closed or has ended (`PlanError`)."""
        self._check_open()
        for side in SIDES:
            self._end(side)
        self._closed = True
        return self._results()

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
        """Join two readers to their ends, and yield results as they become final.

        Parameters
        ----------
        left, right
            Record batches, or readers of them. The side that is behind in its order is read next, which keeps the
            state small; if the orders are not comparable, both are read in turn. A batch without rows means that there
            are none at the moment: the rows read so far are joined, and the other side is read next.
        rows_at_once
            How many rows of a side to read before joining them. Each join costs as much as some thousand rows, so
            small batches are collected. 1 joins each batch as it is read. None means 32,768 rows, and 131,072 for an
            as-of join, which reads its whole state each time.
        """
        self._check_open()
        rows = self._plan.rows_at_once if rows_at_once is None else rows_at_once
        for side, batches, is_last in Turns({"left": left, "right": right}, self.setup, self._frontiers, rows):
            for batch in batches:
                self._ready += self._push(side, batch)
                yield from self._results()
            if is_last:
                self._end(side)
                yield from self._results()
        self._closed = True

    @property
    def state(self) -> State:
        """Number and memory of the stored rows of each side, and numbers of evicted and late rows."""
        return State(*(self._side_state(side) for side in SIDES))

    def _side_state(self, side: Side) -> SideState:
        store = self._operator.stores[side]
        return SideState(store.rows, store.nbytes, store.evicted, self._late_rows[side])

    @property
    def late(self) -> LateRows:
        """The late rows of each side, with ``late="collect"``."""
        return LateRows(*(self._late_table(side) for side in SIDES))

    def explain(self, *, left_rate: float | None = None, right_rate: float | None = None) -> str:
        """Return which rows are kept and for how long, and when results are emitted.

        Parameters
        ----------
        left_rate, right_rate
            Rows per step of the side's order (per second for times), to estimate how many rows are kept.
        """
        return self._plan.explain({"left": left_rate, "right": right_rate})

    def snapshot(self) -> Snapshot:
        """Return the state of the join as a value, from which `of` continues."""
        self._unreturned, self._ready = self._unreturned + self._plan.output.finished(self._ready), []
        tables = {
            **{
                f"{side}_state": _with_marks(self._operator.stores[side].batches(), self._plan.stored_schemas[side])
                for side in SIDES
            },
            **{f"{side}_late": self._late_table(side) for side in SIDES},
            "not_given": pa.Table.from_batches(self._unreturned, self.schema),
        }
        kept = {name: table for name, table in tables.items() if len(table)}
        return Snapshot(self._plan.described, self._progress(), kept)

    def _progress(self) -> dict[str, Any]:
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
        """Return a join with the state of a `snapshot` of the same setup. Any number of joins can share a plan."""
        join = cls(plan)
        join._load_snapshot(snapshot)
        return join

    def _load_snapshot(self, snapshot: Snapshot) -> None:
        progress, tables = snapshot.progress, snapshot.tables
        self._closed = progress["closed"]
        self._operator.failed = progress["failed"]
        self._unreturned = tables["not_given"].to_batches() if "not_given" in tables else []
        for side in SIDES:
            self._frontiers[side].restore(progress[side]["frontier"])
            self._late_rows[side] = progress[side]["late_rows"]
            if f"{side}_late" in tables:
                self._late[side] = tables[f"{side}_late"].to_batches()
            if f"{side}_state" in tables:
                for batch, matched in _without_marks(tables[f"{side}_state"]):
                    self._operator.load(side, batch, matched)
            self._operator.stores[side].evicted = progress[side]["evicted_rows"]

    def _late_table(self, side: Side) -> pa.Table:
        return pa.Table.from_batches(self._late[side], self.setup.schema(side))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the state of the join to a folder, which is replaced atomically. Raises `StateError` if that fails."""
        checkpoint.write(self.snapshot(), folder)

    @classmethod
    def restore(cls, folder: str | PathLike[str], *, expected: StreamJoin | None = None) -> StreamJoin:
        """Return the join that was saved to a folder.

        Parameters
        ----------
        folder, expected
            The folder, and a join with the expected setup. None accepts any.

        Raises
        ------
        StateError
            If the folder is missing or damaged, or belongs to another join.
        """
        snapshot = checkpoint.read(folder)
        if expected is not None:
            checkpoint.check_same(folder, snapshot, expected._plan.described)
        with checkpoint.reading(folder):
            plan = StreamPlan(Setup.from_dict(snapshot.setup)) if expected is None else expected._plan
            return cls.of(plan, snapshot)


_MATCHED = " matched"  # the column of saved tables that marks rows that have had a match


def _with_marks(batches: Iterable[StateBatch], schema: pa.Schema) -> pa.Table:
    field = pa.field(_MATCHED, pa.bool_())
    living = (batch.living() for batch in batches)
    marked = [batch.append_column(field, pa.array(matched)) for batch, matched in living]
    return pa.Table.from_batches(marked, schema.append(field))


def _without_marks(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, Mask]]:
    for batch in table.to_batches():
        yield batch.select(batch.schema.names[:-1]), batch.column(_MATCHED).to_numpy(zero_copy_only=False)
