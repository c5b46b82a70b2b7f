"""Interval arithmetic that decides which stored rows can still match, built once per join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, IntTable
from juncture.matching.condition import Condition, Relation
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.predicate.intervals.graph import Graph
from juncture.predicate.intervals.interval import Interval
from juncture.predicate.language import build
from juncture.predicate.language.nodes import FALSE, Column, Node, columns
from juncture.spec.schema import Side, other_side
from juncture.streams.alternatives import Alternatives, Filter, Watch
from juncture.streams.frontier import Frontier, Limits
from juncture.streams.order import SideOrder
from juncture.streams.order_graph import OrderGraph, OrderMarks, end_code, moves_on


class Bounds:
    """Limits of the stored rows of one side, from the orders of the other side."""

    def __init__(self, condition: Condition, side: Side, orders: Sequence[SideOrder]) -> None:
        self.condition = condition
        self.side: Side = side
        self._other = other_side(side)
        self.orders = tuple(orders)
        self._marks = OrderMarks(orders)
        relations = condition.relations
        filtered = condition.filters[self._other == "right"]
        self._known = OrderGraph.of(self._marks, [each.value(self._other) for each in relations], filtered)
        self._shifts = [self._shift(place) for place in range(len(relations))]
        self._last: tuple[list[int | None], Limits] | None = None
        self._static: Limits | None = None
        predicate = condition.predicate if condition.check is not None and orders else None
        self._alternatives = Alternatives(predicate, side, self._marks, len(relations), self._covered())
        self._end = Limits(np.full(self._alternatives.lines, MIN_CODE, np.int64), ended=True)
        self._static = self._limits([None] * len(self.orders), range(len(relations)))
        self.moving = self._moving()
        self._moving_relations = [line for line in self.moving[0] if line < len(relations)]

    @property
    def watches(self) -> Sequence[Watch | Filter]:
        """The expressions of the code lines after those of the relations."""
        return self._alternatives.watches

    def follows(self, place: int) -> SideOrder | None:
        """Return the order of the other side that the limit of a relation follows step by step, or None."""
        shift = self._shifts[place]
        if shift is not None:
            return self.orders[shift[0]]
        expression = self.condition.relations[place].value(self._other)
        return next((order for order in self.orders if order.node == expression), None)

    @property
    def is_bounded(self) -> bool:
        """Whether every stored row is evicted at some time."""
        base, branches = self.moving
        return bool(base) or (bool(branches) and all(branches))

    @property
    def alternatives(self) -> list[list[int]]:
        """The code lines that limit rows in each alternative of the predicate."""
        pairs = zip(self.moving[1], self._alternatives.branches, strict=True)
        return [[*moving, *branch.filters] for moving, branch in pairs if moving]

    def codes(self, batch: pa.RecordBatch, codes: IntTable) -> IntTable:
        """Return all code lines of stored rows, given those of the relations."""
        if not self.watches:
            return codes
        more = [watch.codes(batch, self.side) for watch in self.watches]
        return np.concatenate([codes, np.stack(more)])

    def limits(self, frontier: Frontier) -> Limits:
        """Return the limits of the rows that can still match."""
        if frontier.ended:
            return self._end
        last = self._last
        if last is not None and last[0] == frontier.least:
            return last[1]
        found = self._limits(frontier.least, self._moving_relations)
        self._last = (list(frontier.least), found)
        return found

    def _limits(self, codes: Sequence[int | None], relations: Sequence[int]) -> Limits:
        """Return the limits after recomputing some relations. The others keep their static limits."""
        least = (self._end if self._static is None else self._static).least.copy()
        ranges: list[Interval] | None = None
        for place in relations:
            relation, shift = self.condition.relations[place], self._shifts[place]
            if shift is not None:
                code = codes[shift[0]]
                if code is not None:
                    least[place] = min(max(code + shift[1], MIN_CODE), MAX_CODE)
            elif self._known.reaches[place]:
                ranges = self._known.at(codes) if ranges is None else ranges
                least[place] = self._least(relation, ranges[place])
        return Limits(least, self._alternatives.limits(codes))

    def _least(self, relation: Relation, values: Interval) -> int:
        """Return the least code that satisfies a relation with some future value."""
        if values.empty and not values.may_be_nan:
            return MAX_CODE
        # A future row has a greater code, the easier it is to match.
        code_of = relation.left_code if self._other == "left" else relation.right_code
        if relation.upper != (self._other == "left"):
            return end_code(values, lambda one: ~code_of(one), upper=False)
        return MIN_CODE if values.may_be_nan else ~end_code(values, code_of, upper=True)

    def _shift(self, place: int) -> tuple[int, int] | None:
        """Return the order that a relation follows step by step, and the distance in codes; None if it follows none."""
        relation = self.condition.relations[place]
        expression = relation.value(self._other)
        for number, order in enumerate(self.orders):
            if expression != order.node or order.domain.floating:
                continue
            found = [self._least(relation, order.interval_from(code)) for code in (0, 5, 70)]
            if MIN_CODE not in found and found[1] == found[0] + 5 and found[2] == found[0] + 70:
                return number, found[0]
        return None

    def _covered(self) -> set[tuple[Node, bool]]:
        """Return the expressions that a relation limits by an order, and whether from above."""
        found = set()
        for place, relation in enumerate(self.condition.relations):
            node = relation.value(self.side)
            if node is not None and self._shifts[place] is not None:
                found.add((node, relation.upper != (self.side == "left")))
        return found

    def _moving(self) -> tuple[list[int], list[list[int]]]:
        """Return the code lines whose limits advance with the orders: of the relations, and of each alternative."""
        relations = range(len(self.condition.relations))
        found = [self._limits(codes, relations) for codes in self._marks.samples()]
        base = _moving([limits.least for limits in found])
        branches = [_moving([limits.branches[number] for limits in found]) for number in range(len(found[0].branches))]
        return base, branches

    def unplaced(self, order: SideOrder) -> Node | None:
        """Return the condition on rows that have no value in their own order and may match; None if no row can."""
        cases = [self._null_match(order), *([] if self._is_compared(order.node) else [order.is_nan])]
        possible = [case for case in cases if Graph(case).shrink({}).feasible]
        return build.disjunction(possible) if possible else None

    def _null_match(self, order: SideOrder) -> Node:
        """Return the condition on rows that may match although their own order is null."""
        predicate, compared = self.condition.predicate, self.condition.join.compared(self.side)
        if predicate is not None:
            may_match = Graph(build.conjunction([predicate, order.is_null])).shrink({}).feasible
            return order.is_null if may_match else FALSE
        # Compared columns are not null in a match. A sum of them is null if it overflows its type.
        read = [column for column in columns(order.node) if column.name in compared]
        return build.conjunction([order.is_null, *(build.negation(build.is_null(column)) for column in read)])

    def _is_compared(self, node: Node) -> bool:
        """Return whether the join compares an expression outside a predicate, so that NaN matches nothing."""
        if self.condition.predicate is not None or self.condition.join.domain is None:
            # NaN equals NaN in predicates and in equal keys.
            return False
        if isinstance(node, Column):
            return node.name in self.condition.join.compared(self.side)
        return any(node == each.value(self.side) for each in self.condition.relations)


def _moving(found: Sequence[Ints]) -> list[int]:
    """Return the lines whose limits advance, given the limits of all lines at the samples."""
    return [line for line, limits in enumerate(np.array(found).T.tolist()) if moves_on(limits)]
