"""The values that future rows can have in expressions of their side, from the orders of that side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.columnar.types import DAY_S
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.predicate.evaluate.operations import to_column
from juncture.predicate.intervals.graph import Graph
from juncture.predicate.intervals.interval import Interval, interval
from juncture.predicate.language import build
from juncture.predicate.language.nodes import Column, Node, columns
from juncture.predicate.language.types import TIME_STEPS, Type, as_vector, in_steps
from juncture.streams.frontier import Frontier, beyond_codes
from juncture.streams.order import SideOrder

_FARTHEST = 10**9
_DAYS_FARTHEST = 80_000  # how far orders are sampled, within their types: nanoseconds end after a hundred thousand days


class OrderMarks:
    """The positions of orders as columns of a graph. Future rows are not behind them."""

    def __init__(self, orders: Sequence[SideOrder]) -> None:
        self.orders = tuple(orders)
        self._columns = [
            Column(order.node.type, order.side, f" order {place}", False) for place, order in enumerate(orders)
        ]

    def constraints(self) -> list[Node]:
        """Return the conditions that future rows satisfy."""
        return [
            build.compare("<=" if order.order.descending else ">=", order.node, mark)
            for order, mark in zip(self.orders, self._columns, strict=True)
        ]

    def at(self, codes: Sequence[int | None]) -> dict[Column, Interval]:
        """Return the known positions of the orders as intervals."""
        return {
            mark: _point(order, code)
            for mark, order, code in zip(self._columns, self.orders, codes, strict=True)
            if code is not None
        }

    def samples(self) -> list[list[int | None]]:
        """Return some positions along the orders, the last ones far ahead, to detect limits that advance."""
        return [[_sample(order, eighths) for order in self.orders] for eighths in (-7, -4, -1, 1, 4, 7)]


def _sample(order: SideOrder, eighths: int) -> int:
    """Return the code at some eighths of the way to the farthest position of an order."""
    own = order.node.type
    farthest = _FARTHEST
    if own.kind in ("date", "timestamp"):
        farthest = _DAYS_FARTHEST * (DAY_S * TIME_STEPS[own.unit] if own.unit else 1)
    elif own.is_discrete:
        farthest = min(farthest * 10**own.scale, int(own.greatest / own.step))
    return order.code_of_steps(farthest * eighths // 8 * (-1 if order.order.descending else 1))


def moves_on(limits: Sequence[int]) -> bool:
    """Return whether a limit advances, given its values at the samples. A limit that excludes all rows counts."""
    return limits[-1] > limits[-2] or limits[-1] == MAX_CODE


def _point(order: SideOrder, code: int) -> Interval:
    value, data_type = order.value_of(code), order.node.type
    assert isinstance(value, int | Fraction | float)
    if data_type.is_discrete:
        # A delay can move a position to before all values of the type, which then may all still come.
        value = min(value, data_type.greatest) if order.order.descending else max(value, data_type.least)
    return interval(data_type, value, value)


@dataclass(frozen=True)
class OrderGraph:
    """The intervals of expressions of one side, from its orders."""

    graph: Graph
    marks: OrderMarks
    watched: tuple[int, ...]  # for each expression, its index among the watched ones of the graph; -1 for none
    reaches: tuple[bool, ...]  # for each expression, whether an order can limit it

    @classmethod
    def of(cls, marks: OrderMarks, expressions: Sequence[Node | None], filtered: Node | None = None) -> OrderGraph:
        """Return the graph of expressions of one side. ``filtered`` also holds for rows that match."""
        distinct = tuple(dict.fromkeys(node for node in expressions if node is not None))
        known = marks.constraints() + ([] if filtered is None else [filtered])
        graph = Graph(build.conjunction(known), distinct, in_types=False)
        read = {column for order in marks.orders for column in columns(order.node)}
        reaches = tuple(node is not None and not read.isdisjoint(columns(node)) for node in expressions)
        watched = tuple(-1 if node is None else distinct.index(node) for node in expressions)
        return cls(graph, marks, watched, reaches)

    def at(self, codes: Sequence[int | None]) -> list[Interval]:
        """Return the interval of each expression in future rows, given the codes of the orders."""
        shrunk = self.graph.shrink(self.marks.at(codes)).watched
        anything = Interval(Type("null"), may_be_null=True)
        return [anything if place < 0 else shrunk[place] for place in self.watched]


def end_code(values: Interval, code_of: Callable[[pa.Array], int], *, upper: bool) -> int:
    """Return the code of an end of an interval; the extreme code without one.

    ``code_of`` returns the code of a column of one row. It raises `TooWideError` beyond 64 bits, and
    `pyarrow.ArrowInvalid` if the value does not exist in the type of the compared columns.
    """
    end = values.upper if upper else values.lower
    try:
        if end is not None:
            return code_of(to_column(as_vector([in_steps(end, values.type)], values.type), values.type, 1))
    except TooWideError:
        return beyond_codes(end)
    except pa.ArrowInvalid:
        pass
    return MAX_CODE if upper else MIN_CODE


def code_in(domain: Domain) -> Callable[[pa.Array], int]:
    """Return a function that returns the code of a column of one row."""
    return lambda values: int(domain.encode(plain(values))[0][0])


class FutureValues:
    """The range of the codes that future rows of a side can have in an expression."""

    def __init__(self, expression: Node | None, orders: Sequence[SideOrder], domain: Domain) -> None:
        self.orders = tuple(orders)
        self._code_of = code_in(domain)
        marks = OrderMarks(orders)
        self._graph = OrderGraph.of(marks, [expression])
        same = len(orders) == 1 and orders[0].node == expression and orders[0].domain == domain
        self._same_codes = same and not orders[0].domain.floating
        found = [self._range(codes) for codes in marks.samples()]
        self.rises = moves_on([least for least, _ in found])
        self.falls = moves_on([~most for _, most in found])

    def range(self, frontier: Frontier) -> tuple[int, int]:
        """Return the least and the greatest code of future rows; the least is greater if there are none."""
        return (MAX_CODE, MIN_CODE) if frontier.ended else self._range(frontier.least)

    def _range(self, codes: Sequence[int | None]) -> tuple[int, int]:
        if not self._graph.reaches[0]:
            return MIN_CODE, MAX_CODE
        if self._same_codes:
            code = codes[0]
            if code is None:
                return MIN_CODE, MAX_CODE
            return (MIN_CODE, ~code) if self.orders[0].order.descending else (code, MAX_CODE)
        [one] = self._graph.at(codes)
        if one.empty:
            return MAX_CODE, MIN_CODE
        return end_code(one, self._code_of, upper=False), end_code(one, self._code_of, upper=True)
