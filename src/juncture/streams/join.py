"""A join of two streams, driven by hand or by readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import Mask, array_of, joined_batches, rows_of
from juncture.errors import DataError, PlanError, SchemaError, SpecError, did_you_mean
from juncture.predicate.language.nodes import columns
from juncture.spec.arguments import check_choice
from juncture.spec.asof import ResolvedAsof
from juncture.spec.base import Spec
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.spec.where import Where
from juncture.streams import explain
from juncture.streams.aggregates import AggregateJoin
from juncture.streams.asof import AsofBounds, AsofJoin, AsofSide
from juncture.streams.bounds import Bounds
from juncture.streams.checkpoint import with_marks, without_marks
from juncture.streams.condition import condition_of
from juncture.streams.frontier import Frontier
from juncture.streams.order import Order, SideOrder
from juncture.streams.output import Output, held_schema, streaming_join, to_streaming
from juncture.streams.pairs import PairJoin

__all__ = ["LateRows", "SideState", "State", "StreamJoin"]

LateRule = Literal["count", "collect", "error"]
SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True)
class SideState:
    """What a join holds of one side.

    Attributes
    ----------
    rows, bytes
        How many rows are held, and how much memory they take.
    evicted_rows
        How many have been held and let go.
    late_rows
        How many came too late.
    """

    rows: int
    bytes: int
    evicted_rows: int
    late_rows: int


@dataclass(frozen=True)
class State:
    """What a join holds.

    Attributes
    ----------
    left, right
        Of each side.
    """

    left: SideState
    right: SideState


@dataclass(frozen=True)
class LateRows:
    """The rows that came too late, as they came; none unless they are collected.

    Attributes
    ----------
    left, right
        Of each side.
    """

    left: pa.Table
    right: pa.Table


@dataclass(frozen=True)
class Setup:
    """What a join of streams is made of.

    Attributes
    ----------
    spec
        What it means.
    left_schema, right_schema
        The columns of both sides.
    left, right
        Their orders.
    allow_unbounded
        Whether it may hold rows for ever.
    late
        What becomes of rows that come too late.
    """

    spec: Spec
    left_schema: pa.Schema
    right_schema: pa.Schema
    left: tuple[Order, ...]
    right: tuple[Order, ...]
    allow_unbounded: bool
    late: LateRule

    def __post_init__(self) -> None:
        check_choice("late", self.late, ("count", "collect", "error"))

    def schema(self, side: Side) -> pa.Schema:
        """Return the columns of a side."""
        return self.left_schema if side == "left" else self.right_schema


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

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        given: Resolved = setup.spec.resolve(setup.left_schema, setup.right_schema)  # type: ignore[attr-defined]
        self._join = streaming_join(given)
        self._output = Output(self._join, given.given_back(setup.left_schema, setup.right_schema))
        self.schema = given.given_back(setup.left_schema, setup.right_schema)
        names = setup.spec.names if isinstance(setup.spec, Where) else ("l", "r")
        schemas = {"left": self._join.left_schema, "right": self._join.right_schema}
        self._orders: dict[Side, list[SideOrder]] = {
            side: [SideOrder.of(order, side, schemas[side], names) for order in orders]
            for side, orders in zip(SIDES, (setup.left, setup.right), strict=True)
        }
        self._frontiers: dict[Side, Frontier] = {side: Frontier(self._orders[side]) for side in SIDES}
        self._seen = {side: _seen(self._join, side, self._orders[side]) for side in SIDES}
        self._held = {side: held_schema(self._join, side) for side in SIDES}
        self._late_rows = dict.fromkeys(SIDES, 0)
        self._late: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
        self._closed = False
        self._ready: list[pa.RecordBatch] = []
        self._kept: list[pa.RecordBatch] = []
        self._bounds: dict[Side, Bounds] | dict[Side, AsofSide]
        self._operator: PairJoin | AggregateJoin | AsofJoin
        if isinstance(self._join, ResolvedAsof):
            asof = AsofBounds(self._join, self._orders)
            self._bounds = {side: AsofSide(asof, side) for side in SIDES}
            self._operator = AsofJoin(asof, self._frontiers, self._output)
        else:
            read = {column for orders in self._orders.values() for order in orders for column in columns(order.node)}
            condition = condition_of(self._join, read)
            bounds = {side: Bounds(condition, side, self._orders[_other(side)]) for side in SIDES}
            self._bounds = bounds
            if self._join.aggregates:
                self._operator = AggregateJoin(condition, bounds, self._frontiers)
            else:
                self._operator = PairJoin(condition, bounds, self._frontiers, self._output)
        if not setup.allow_unbounded:
            self._refuse_unbounded()

    def _refuse_unbounded(self) -> None:
        for side in SIDES:
            if not self._bounds[side].is_bounded:
                raise PlanError(explain.unbounded(self._bounds[side]))

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
            (side, batch) for side, table in given if table is not None for batch in _batches(table, side, self.setup)
        ]
        for side, batch in batches:
            if batch.num_rows:
                self._ready += self._push(side, batch)
        return self._given()

    def _given(self) -> list[pa.RecordBatch]:
        """Return what has followed so far, once."""
        ready, kept, self._ready, self._kept = self._ready, self._kept, [], []
        return kept + self._output.finished(ready)

    @property
    def not_given(self) -> pa.Table:
        """What has followed and has not been returned, since something else went wrong in the same call."""
        self._kept, self._ready = self._kept + self._output.finished(self._ready), []
        return pa.Table.from_batches(self._kept, self.schema)

    def _push(self, side: Side, given: pa.RecordBatch) -> list[pa.RecordBatch]:
        batch = to_streaming(given, self._seen[side])
        frontier = self._frontiers[side]
        before = frontier.to_dict()
        try:
            late, placed = frontier.take(batch)
            self._check_placed(side, batch, placed)
            if late is not None:
                batch = self._set_apart(side, given, batch, late)
            held = batch.select(self._held[side].names)
            return list(self._operator.push(side, held) if held.num_rows else self._expire(side))
        except DataError:
            frontier.restore(before)
            raise

    def _set_apart(self, side: Side, given: pa.RecordBatch, batch: pa.RecordBatch, late: Mask) -> pa.RecordBatch:
        """Return the rows that come in time, and count or keep the others."""
        if self.setup.late == "error":
            row = int(np.flatnonzero(late)[0])
            orders = ", ".join(repr(order.text) for order in self._orders[side])
            raise DataError(
                f"The {side} row {row:,} of a batch comes too late: it is farther behind the rows before it than the "
                f"order ({orders}) allows. Pass a greater delay=, or late='collect' to have such rows set apart. The "
                f"row is {given.slice(row, 1).to_pylist()[0]}."
            )
        self._late_rows[side] += int(late.sum())
        if self.setup.late == "collect":
            # Arrow takes no rows of some types.
            self._late[side] += [given.slice(row, 1) for row in np.flatnonzero(late).tolist()]
        return rows_of(batch, array_of(np.flatnonzero(~late), pa.int64()))

    def _check_placed(self, side: Side, batch: pa.RecordBatch, placed: Sequence[Mask | None]) -> None:
        """Refuse rows that have no place in an order and might match all the same."""
        for order, valid in zip(self._orders[side], placed, strict=True):
            if valid is None or valid.all():
                continue
            held, null = self._bounds[side], order.is_null(batch)
            if (null.any() and held.matches_null(order)) or ((~valid & ~null).any() and held.matches_nan(order)):
                row = int(np.flatnonzero(~valid)[0])
                raise DataError(
                    f"The {side} row {row:,} of a batch is null or NaN in the order {order.text!r}, so that it has no "
                    "place in it, and it might match other rows all the same. Drop such rows first, or join them apart."
                )

    def _expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        return self._operator.expire(_other(side))

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
        orders = self._orders[side]
        values = list(value) if isinstance(value, list | tuple) else [value]
        if not orders:
            raise SpecError(f"advance({side}={value!r}) says how far an order is, and the {side} side has none.")
        if len(values) != len(orders):
            raise SpecError(
                f"advance({side}={value!r}) has {len(values)} values, and the {side} side has {len(orders)} orders: "
                f"{', '.join(repr(order.text) for order in orders)}. Pass one for each; None says nothing."
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
            raise PlanError("The join is closed: nothing can be pushed any more. Make a new one with jn.stream(…).")
        if isinstance(self._operator, AsofJoin) and self._operator.failed:
            raise PlanError(
                "The join has no answer, since right rows tied and ties='error'. Make a new one without it."
            )

    def run(
        self, left: Iterable[Any], right: Iterable[Any], *, rows_at_once: int = 1 << 14
    ) -> Iterator[pa.RecordBatch]:
        """Join two readers to their ends, and yield the answer as it becomes final.

        Parameters
        ----------
        left, right
            Record batches, or readers of them. The side that is behind in its order is read next, so that little is
            held; where orders do not compare, both in turn.
        rows_at_once
            How many rows of a side to read before they are joined: small batches are gathered, since each costs as much
            as some thousand rows. 1 joins each batch as it is read.
        """
        self._check_open()
        readers: dict[Side, Iterator[Any]] = {"left": iter(left), "right": iter(right)}
        turn: Side = "right"
        while readers:
            turn = self._next(readers, turn)
            batches, is_last = self._read(readers[turn], turn, rows_at_once)
            for batch in batches:
                self._ready += self._push(turn, batch)
                yield from self._given()
            if is_last:
                del readers[turn]
                self._end(turn)
                yield from self._given()
        self._closed = True

    def _read(self, reader: Iterator[Any], side: Side, rows: int) -> tuple[list[pa.RecordBatch], bool]:
        """Return so many rows of a side, in one batch where it can hold them, and whether they are the last."""
        found: list[pa.RecordBatch] = []
        count = 0
        while count < max(rows, 1):
            table = next(reader, None)
            if table is None:
                return _gathered(found), True
            for batch in _batches(table, side, self.setup):
                if batch.num_rows:
                    found.append(batch)
                    count += batch.num_rows
        return _gathered(found), False

    def _next(self, readers: dict[Side, Iterator[Any]], turn: Side) -> Side:
        """Return the side to read next."""
        if len(readers) == 1:
            return next(iter(readers))
        left, right = self._place("left"), self._place("right")
        if left is None or right is None or left == right:
            return "left" if turn == "right" else "right"
        return "left" if left < right else "right"

    def _place(self, side: Side) -> float | None:
        """Return how far a side has come, in a measure that both have; None where that is unknown."""
        if not (self._orders["left"] and self._orders["right"]):
            return None
        one, other = self._orders["left"][0], self._orders["right"][0]
        if one.measure != other.measure:
            return None
        code = self._frontiers[side].least[0]
        return None if code is None else (one if side == "left" else other).measured(code)

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
        return LateRows(*(pa.Table.from_batches(self._late[side], self.setup.schema(side)) for side in SIDES))

    def explain(self, *, left_rate: float | None = None, right_rate: float | None = None) -> str:
        """Say what is held and for how long, and when what is given.

        Parameters
        ----------
        left_rate, right_rate
            How many rows come in a step of the side's order (a second, of times), to say how many are held.
        """
        return explain.explained(self._join, self._bounds, self._orders, {"left": left_rate, "right": right_rate})

    def progress(self) -> dict[str, Any]:
        """Return how far the join has come, as plain data."""
        return {
            "closed": self._closed,
            **{
                side: {
                    "frontier": self._frontiers[side].to_dict(),
                    "late_rows": self._late_rows[side],
                    "evicted_rows": self._operator.stores[side].evicted,
                }
                for side in SIDES
            },
        }

    def held(self, side: Side) -> dict[str, pa.Table]:
        """Return the rows that are held of a side, by what they are held as."""
        late = pa.Table.from_batches(self._late[side], self.setup.schema(side))
        return {"state": with_marks(self._operator.stores[side].living(), self._held[side]), "late": late}

    def go_on(self, progress: dict[str, Any], tables: dict[Side, dict[str, pa.Table]], not_given: pa.Table) -> None:
        """Become what `progress`, `held` and `not_given` described."""
        self._kept = not_given.to_batches()
        self._closed = progress["closed"]
        for side in SIDES:
            self._frontiers[side].restore(progress[side]["frontier"])
            self._late_rows[side] = progress[side]["late_rows"]
            self._late[side] = tables[side]["late"].to_batches()
            for batch, matched in without_marks(tables[side]["state"]):
                self._operator.load(side, batch, matched)
            self._operator.stores[side].evicted = progress[side]["evicted_rows"]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write all that the join holds to a folder, from which `restore` goes on.

        Raises
        ------
        StateError
            If it cannot be written.
        """
        from juncture.streams import checkpoint

        checkpoint.save(self, folder)

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
        from juncture.streams import checkpoint

        return checkpoint.restore(folder, expected)


def _gathered(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches as one, if their types allow."""
    try:
        return [joined_batches(batches)] if batches else []
    except pa.ArrowException:
        return batches


def _other(side: Side) -> Side:
    return "right" if side == "left" else "left"


def _seen(join: Resolved, side: Side, orders: Sequence[SideOrder]) -> pa.Schema:
    """Return the columns of a side that a join looks at."""
    schema = join.left_schema if side == "left" else join.right_schema
    ordered = [column.name for order in orders for column in columns(order.node)]
    names = {*held_schema(join, side).names, *ordered}
    return pa.schema([schema.field(name) for name in schema.names if name in names])


def _batches(table: Any, side: Side, setup: Setup) -> list[pa.RecordBatch]:
    """Return what was pushed as record batches of the side's columns.

    Raises
    ------
    SpecError
        If it is no table.
    SchemaError
        If its columns are others.
    """
    if isinstance(table, pa.RecordBatch):
        batches = [table]
    elif isinstance(table, pa.Table):
        batches = table.to_batches()
    elif hasattr(table, "__arrow_c_array__"):
        batches = [pa.record_batch(table)]
    elif hasattr(table, "__arrow_c_stream__"):
        batches = pa.table(table).to_batches()
    else:
        raise SpecError(
            f"push({side}=…) was given a {type(table).__name__}. Expected a record batch, or a table that speaks Arrow."
        )
    for batch in batches:
        _check_schema(batch.schema, setup.schema(side), side)
    return batches


def _check_schema(given: pa.Schema, wanted: pa.Schema, side: Side) -> None:
    if given.equals(wanted):
        return
    types = {field.name: field.type for field in given}
    for field in wanted:
        if field.name not in types:
            raise SchemaError(
                f"A {side} batch lacks the column {field.name!r} ({field.type}) that the stream has. "
                f"{did_you_mean(field.name, types)}"
            )
        if types[field.name] != field.type:
            raise SchemaError(
                f"The column {field.name!r} of a {side} batch is of type {types[field.name]}, and that of the stream "
                f"is {field.type}: a stream keeps its schema. Cast the batch first."
            )
    if len(given) != len(wanted):
        more = [name for name in given.names if name not in wanted.names]
        raise SchemaError(
            f"A {side} batch has columns that the stream does not have: {', '.join(map(repr, more or given.names))}. "
            "A stream keeps its schema: select its columns first."
        )
