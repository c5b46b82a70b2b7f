"""Two tables pushed through a join of streams in random batches, and what has to come of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import juncture as jn
from juncture.errors import DataError
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.parse import parse_expression
from juncture.testing.rows import values
from support.kinds import Spec, defined_rows
from support.tables import difference

__all__ = ["Streamed", "arrange", "check", "heartbeat", "in_time", "order_values", "picked", "rows_in_order"]

SIDES = ("left", "right")


@dataclass
class Streamed:
    """A join of two tables whose rows come as streams.

    Attributes
    ----------
    spec, left, right
        The join, and the rows in the order in which they come.
    left_orders, right_orders
        Their orders.
    chance
        Decides on batches, and in which turn they come.
    folder
        Where the join is saved to and restored from now and then; None for never.
    """

    spec: Spec
    left: pa.Table
    right: pa.Table
    left_orders: Sequence[jn.Order]
    right_orders: Sequence[jn.Order]
    chance: random.Random
    folder: Path | None = None
    most: int = 5
    allow_unbounded: bool = False
    pushed: dict[str, int] = field(default_factory=lambda: {"left": 0, "right": 0})
    answer: list[pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.join = jn.stream(
            self.left.schema,
            self.right.schema,
            self.spec,
            left_order=list(self.left_orders),
            right_order=list(self.right_orders),
            allow_unbounded=self.allow_unbounded,
            late="collect",
        )

    def table(self, side: str) -> pa.Table:
        return self.left if side == "left" else self.right

    def orders(self, side: str) -> Sequence[jn.Order]:
        return self.left_orders if side == "left" else self.right_orders

    def steps(self) -> Iterable[tuple[str, int]]:
        """Push batch after batch, and yield the side and the rows of each, until all rows have come."""
        lead = self.chance.choice([0.2, 0.5, 0.8])
        while any(self.pushed[side] < self.table(side).num_rows for side in SIDES):
            open_sides = [side for side in SIDES if self.pushed[side] < self.table(side).num_rows]
            side = open_sides[0] if len(open_sides) == 1 else ("left" if self.chance.random() < lead else "right")
            first, rows = self.pushed[side], self.chance.randint(1, self.most)
            piece = self.table(side).slice(first, rows)
            self.pushed[side] += piece.num_rows
            self.answer += self.join.push(**{side: piece})
            if self.folder is not None and self.chance.random() < 0.2:
                self.join.save(self.folder / "state")
                self.join = jn.StreamJoin.restore(self.folder / "state", expected=self.join)
            if self.chance.random() < 0.2:
                self.answer += self.join.advance(**{each: self._heartbeat(each) for each in self._idle()})
            yield side, piece.num_rows

    def _idle(self) -> list[str]:
        """Return sides that have an order, one or both."""
        ordered = [side for side in SIDES if self.orders(side)]
        return self.chance.sample(ordered, self.chance.randint(0, len(ordered)))

    def _heartbeat(self, side: str) -> list[Any]:
        """Return the least values of the orders that are still to come, or none."""
        rest = self.table(side).slice(self.pushed[side])
        values = heartbeat(rest, side, self.orders(side))
        return [None if self.chance.random() < 0.3 else value for value in values]

    def finish(self) -> pa.Table:
        """Close the join, and return all of its answer."""
        self.answer += self.join.close()
        return pa.Table.from_batches(self.answer, self.join.schema)

    def came_in_time(self, side: str) -> tuple[pa.Table, pa.Table]:
        """Return the rows of a side that came in time, and the late ones."""
        table = self.table(side).slice(0, self.pushed[side])
        mask = in_time(table, side, self.orders(side))
        return picked(table, mask), picked(table, [not each for each in mask])


def picked(table: pa.Table, mask: Sequence[bool]) -> pa.Table:
    """Return some rows, one by one, since Arrow cannot take rows of all types."""
    return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row, good in enumerate(mask) if good)])


def check(streamed: Streamed) -> None:
    """Hold a join of streams to the join of all rows that came in time."""
    refused = False
    try:
        for _ in streamed.steps():
            pass
        answer = streamed.finish()
    except DataError as error:
        refused = "tie" in str(error)
        if not refused:
            raise
    kept = [streamed.came_in_time(side) for side in SIDES]
    try:
        wanted = defined_rows(streamed.spec, kept[0][0], kept[1][0])
    except DataError:
        assert refused
        return
    assert not refused
    problem = difference(answer, wanted, ordered=False)
    assert problem is None, problem
    for side, (_, late) in zip(SIDES, kept, strict=True):
        assert getattr(streamed.join.state, side).late_rows == late.num_rows
        problem = difference(getattr(streamed.join.late, side), late, ordered=True)
        assert problem is None, problem
        assert getattr(streamed.join.state, side).rows == 0


def heartbeat(rest: pa.Table, side: str, orders: Sequence[jn.Order]) -> list[Any]:
    """Return the least values of orders among rows that are still to come, or None."""
    found = []
    for order in orders:
        values = _python_values(order_column(rest, side, order.expression))
        found.append((max if order.descending else min)(values, default=None))
    return found


def order_column(table: pa.Table, side: str, expression: str) -> pa.Array:
    """Return the values of an order as a column."""
    empty = pa.schema([])
    schemas = (table.schema, empty) if side == "left" else (empty, table.schema)
    node = parse_expression(expression, *schemas)
    return evaluate(node, **{side: table}) if table.num_rows else pa.nulls(0)


def _python_values(array: pa.Array) -> list[Any]:
    """Return the values that are in an order; none where Python has none for some of them."""
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        return []
    try:
        values = array.to_pylist()
    except (OverflowError, ValueError):
        return []
    return [value for value in values if value is not None and value == value]


def order_values(table: pa.Table, side: str, expression: str) -> list[Any]:
    """Return the values of an order, times in nanoseconds."""
    array = order_column(table, side, expression)
    if not len(array):
        return []
    found = values(pa.chunked_array([array]))
    if pa.types.is_date(array.type):
        # A delay may be shorter than a day.
        found = [None if value is None else value * 86_400 * 10**9 for value in found]
    return [None if value is None or value != value else value for value in found]


def in_time(table: pa.Table, side: str, orders: Sequence[jn.Order]) -> list[bool]:
    """Tell which rows come in time, one after the other."""
    good = [True] * table.num_rows
    for order in orders:
        found = order_values(table, side, order.expression)
        delay = _delay(order.delay)
        best = None
        for row, value in enumerate(found):
            if value is None:
                continue
            exact: Any = value
            if best is not None:
                behind = best - exact if not order.descending else exact - best
                limit = best - delay if not order.descending else best + delay
                late = (
                    (exact < limit if not order.descending else exact > limit)
                    if isinstance(exact, float)
                    else behind > delay
                )
                good[row] = good[row] and not late
            if best is None or (exact > best) != order.descending:
                best = exact
    return good


def _delay(delay: Any) -> Any:
    """Return a delay as a number, or in nanoseconds."""
    if delay is None:
        return 0
    if isinstance(delay, timedelta):
        return delay // timedelta(microseconds=1) * 1000
    if isinstance(delay, str):
        from juncture.ordered.duration import duration_ns

        return duration_ns(delay, argument="delay")
    return delay


def arrange(
    table: pa.Table, side: str, order: jn.Order, chance: random.Random, *, disorder: int, nulls_last: bool = True
) -> pa.Table:
    """Return rows about in an order: each is moved by so many places at most."""
    rows = rows_in_order(table, side, order, chance, disorder=disorder, nulls_last=nulls_last)
    return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in rows)])


def rows_in_order(
    table: pa.Table, side: str, order: jn.Order, chance: random.Random, *, disorder: int, nulls_last: bool = True
) -> list[int]:
    """Return the numbers of rows about in an order: each is moved by so many places at most."""
    found = order_values(table, side, order.expression)
    sign = -1 if order.descending else 1

    def place(row: int) -> tuple[bool, Any]:
        value = found[row]
        return (value is None) == nulls_last, 0 if value is None else sign * Fraction(value) if _finite(
            value
        ) else sign * value

    rows = sorted(range(table.num_rows), key=place)
    keys = {row: position + chance.randint(0, disorder) for position, row in enumerate(rows)}
    return sorted(rows, key=keys.__getitem__)


def _finite(value: Any) -> bool:
    return isinstance(value, int | Decimal) or math.isfinite(value)
