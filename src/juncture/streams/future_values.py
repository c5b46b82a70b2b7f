"""The range of values that future rows of a side can have in an expression."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.ordered.domain import Domain
from juncture.predicate.intervals.interval import Bound
from juncture.predicate.language.nodes import Node
from juncture.predicate.language.types import Type
from juncture.streams.frontier import Frontier
from juncture.streams.limits import beyond_codes
from juncture.streams.order import SideOrder
from juncture.streams.order_graph import OrderGraph, OrderMarks, moves_on, one_value


class FutureValues:
    """The range of the codes that future rows of a side can have in an expression."""

    def __init__(self, expression: Node | None, orders: Sequence[SideOrder], domain: Domain) -> None:
        self.orders = tuple(orders)
        self._domain = domain
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
        if self._graph is None or not self._graph.reaches[0]:
            return MIN_CODE, MAX_CODE
        if self._same_codes:
            code = codes[0]
            if code is None:
                return MIN_CODE, MAX_CODE
            return (MIN_CODE, ~code) if self.orders[0].order.descending else (code, MAX_CODE)
        [one] = self._graph.at(codes)
        if one.empty:
            return MAX_CODE, MIN_CODE
        return self._code(one.lower, one.type, MIN_CODE), self._code(one.upper, one.type, MAX_CODE)

    def _code(self, end: Bound, data_type: Type, without: int) -> int:
        if end is None:
            return without
        try:
            codes, _ = self._domain.encode(plain(one_value(end, data_type)))
        except TooWideError:
            return beyond_codes(end)
        except pa.ArrowInvalid:
            return without
        return int(codes[0])
