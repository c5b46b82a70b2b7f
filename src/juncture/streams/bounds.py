"""Which held rows can still match, given how far the other side has come: by interval arithmetic, built once per join.

An order says from where on the values of an expression come. What that says of the expressions that a join compares,
and these of the held rows, follows from `juncture.predicate.intervals`. The result is a least code for each relation of
the join, and for expressions of a predicate that is more than its relations: a row with a lesser one is let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import plain, validity
from juncture.columnar.order_encoding import StepCoder, TooWideError
from juncture.kernels.array_types import Ints
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.evaluate.vectors import as_vector, to_column
from juncture.predicate.intervals.graph import Graph, Shrunk
from juncture.predicate.intervals.interval import Bound, Interval, interval
from juncture.predicate.language import build, nodes
from juncture.predicate.language.nodes import Column, Node, children, sides, walk
from juncture.predicate.language.types import DAY_S, Type, in_steps
from juncture.spec.schema import Side
from juncture.streams.condition import Condition, Relation
from juncture.streams.frontier import Frontier
from juncture.streams.order import SideOrder, domain_of

__all__ = ["GREATEST", "NO_LIMIT", "Bounds", "Coming", "Filter", "Limits"]

NO_LIMIT, GREATEST = -(2**63), 2**63 - 1
_BRANCHES_MOST = 16

Table = npt.NDArray[np.int64]

_SAMPLES = {
    "date": (400, 4_000, 40_000),
    "timestamp": (400 * DAY_S, 4_000 * DAY_S, 40_000 * DAY_S),
}
"""Values by which it is seen whether a limit follows an order."""


@dataclass(frozen=True)
class Limits:
    """Which rows can still match.

    Attributes
    ----------
    least
        For each line of codes the least that a row has to have, whatever else.
    branches
        The same for alternatives, of which a row has to satisfy one; none if there are no alternatives.
    ended
        Whether no row can.
    """

    least: Ints
    branches: tuple[Ints, ...] = ()
    ended: bool = False

    @property
    def is_open(self) -> bool:
        """Whether all rows can still match."""
        return (
            not self.ended
            and bool((self.least == NO_LIMIT).all())
            and (not self.branches or any(bool((branch == NO_LIMIT).all()) for branch in self.branches))
        )

    def dead(self, codes: Table) -> npt.NDArray[np.bool_]:
        """Tell which rows with some codes match nothing any more."""
        if self.ended:
            return np.ones(codes.shape[1], np.bool_)
        gone = _below(codes, self.least)
        if self.branches:
            all_gone = np.ones(codes.shape[1], np.bool_)
            for branch in self.branches:
                all_gone &= _below(codes, branch)
            gone |= all_gone
        return gone

    def may_kill(self, least: Ints) -> bool:
        """Tell whether any row may be dead, given the least code of each line."""
        if self.ended or (least < self.least).any():
            return True
        return bool(self.branches) and all(bool((least < branch).any()) for branch in self.branches)


def _below(codes: Table, least: Ints) -> npt.NDArray[np.bool_]:
    gone = np.zeros(codes.shape[1], np.bool_)
    for line in np.flatnonzero(least != NO_LIMIT):
        gone |= codes[line] < least[line]
    return gone


@dataclass(frozen=True)
class _Watch:
    """An expression of held rows that a predicate limits otherwise than by relations.

    Attributes
    ----------
    node
        The expression.
    upper
        Whether its values are limited from above.
    coder
        Makes codes of its values.
    null_lives
        Whether a row in which it is null can match.
    """

    node: Node
    upper: bool
    coder: StepCoder
    null_lives: bool

    def codes(self, batch: pa.RecordBatch, side: Side) -> Ints:
        """Return the codes of held rows: greater ones live longer."""
        values = plain(evaluate(self.node, **{side: batch}))
        try:
            codes, _ = self.coder.encode(values)
        except TooWideError:
            return np.full(batch.num_rows, GREATEST)
        codes = ~codes if self.upper else codes
        valid = validity(values)
        return codes if valid is None else np.where(valid, codes, GREATEST if self.null_lives else NO_LIMIT)

    def least(self, one: Interval) -> int:
        """Return the least code of what an interval holds."""
        end, nan = (one.upper if self.upper else one.lower), one.may_be_nan
        if one.empty and not nan:
            return NO_LIMIT if one.may_be_null else GREATEST
        if end is None or (self.upper and nan):
            return NO_LIMIT
        codes, _ = self.coder.encode(plain(_one(end, one.type)))
        return ~int(codes[0]) if self.upper else int(codes[0])


@dataclass(frozen=True)
class Filter:
    """A condition on held rows alone, which some alternative of a predicate makes: a row that fails it has no limit."""

    node: Node

    def codes(self, batch: pa.RecordBatch, side: Side) -> Ints:
        """Return the codes of held rows: the least if they fail."""
        passed = matches(self.node, **{side: batch}).to_numpy(zero_copy_only=False)
        return np.where(passed, np.int64(GREATEST), np.int64(NO_LIMIT))


@dataclass(frozen=True)
class _Branch:
    """An alternative of a predicate: its graph, and which lines of codes it limits.

    Attributes
    ----------
    graph
        Of the alternative and the orders.
    watches
        For each watched node, the lines of its lower and its upper limit; -1 where there is none.
    filters
        The lines of conditions on held rows alone.
    """

    graph: Graph
    watches: tuple[tuple[int, int], ...]
    filters: tuple[int, ...] = ()


class Bounds:
    """What is held of one side, and for how long.

    Parameters
    ----------
    condition
        When rows match.
    side
        The side whose rows are held.
    orders
        Those of the other side.
    """

    def __init__(self, condition: Condition, side: Side, orders: Sequence[SideOrder]) -> None:
        self.condition = condition
        self.side: Side = side
        self._other: Side = "right" if side == "left" else "left"
        self.orders = tuple(orders)
        self._marks = [
            Column(order.node.type, self._other, f" order {place}", False) for place, order in enumerate(orders)
        ]
        expressions = [self._expression(each) for each in condition.relations]
        filtered = condition.filters[self._other == "right"]
        self._known = _OrderGraph.of(self.orders, self._marks, expressions, filtered)
        self._shifts = [self._shift(place) for place in range(len(condition.relations))]
        self._last: tuple[list[int | None], Limits] | None = None
        self._static: Limits | None = None
        self.watches: list[_Watch | Filter] = []
        self._branches: list[_Branch] = []
        if condition.predicate is not None and condition.check is not None and orders:
            self._add_branches(condition.predicate)
        self._static = self._limits([None] * len(self.orders), range(len(condition.relations)))
        self.moving = self._moving()
        self._moving_relations = [line for line in self.moving[0] if line < len(condition.relations)]

    def follows(self, place: int) -> SideOrder | None:
        """Return the order of the other side that a relation's limit follows step by step; None if it is not that."""
        shift = self._shifts[place]
        if shift is not None:
            return self.orders[shift[0]]
        expression = self._expression(self.condition.relations[place])
        return next((order for order in self.orders if order.node == expression), None)

    def _expression(self, relation: Relation) -> Node | None:
        return relation.right if self.side == "left" else relation.left

    @property
    def lines(self) -> int:
        """How many lines of codes held rows have."""
        return len(self.condition.relations) + len(self.watches)

    @property
    def is_bounded(self) -> bool:
        """Whether every held row is let go some time."""
        base, branches = self.moving
        return bool(base) or (bool(branches) and all(branches))

    @property
    def alternatives(self) -> list[list[int]]:
        """The lines of codes that limit rows in each alternative of a predicate."""
        return [
            [*moving, *branch.filters] for moving, branch in zip(self.moving[1], self._branches, strict=True) if moving
        ]

    def codes(self, batch: pa.RecordBatch, codes: Table) -> Table:
        """Return the codes of held rows, given those for the relations."""
        if not self.watches:
            return codes
        more = [watch.codes(batch, self.side) for watch in self.watches]
        return np.concatenate([codes, np.stack(more)])

    def limits(self, frontier: Frontier) -> Limits:
        """Return which rows can still match."""
        if frontier.ended:
            return Limits(np.full(self.lines, NO_LIMIT, np.int64), ended=True)
        if self._last is not None and self._last[0] == frontier.least:
            return self._last[1]
        found = self._limits(frontier.least, self._moving_relations)
        self._last = (list(frontier.least), found)
        return found

    def _limits(self, codes: Sequence[int | None], relations: Sequence[int]) -> Limits:
        """Return which rows can still match by some of the relations; what does not move is as it was."""
        least = np.full(self.lines, NO_LIMIT, np.int64) if self._static is None else self._static.least.copy()
        ranges: list[Interval] | None = None
        for place in relations:
            relation, shift = self.condition.relations[place], self._shifts[place]
            if shift is not None:
                code = codes[shift[0]]
                if code is not None:
                    least[place] = min(max(code + shift[1], NO_LIMIT), GREATEST)
            elif self._known is not None and self._known.reaches[place]:
                ranges = self._known.of_codes(self.orders, codes) if ranges is None else ranges
                least[place] = self._least(relation, ranges[place])
        return Limits(least, tuple(self._branch_limits(branch, codes) for branch in self._branches))

    def _least(self, relation: Relation, values: Interval) -> int:
        """Return the least code that satisfies a relation with some of the values that can come."""
        if values.empty and not values.may_be_nan:
            return GREATEST
        # What comes is coded the greater, the easier it is to match.
        above = relation.upper == (self._other == "left")
        end = values.upper if above else values.lower
        if end is None or (above and values.may_be_nan):
            return NO_LIMIT
        code_of = relation.left_code if self._other == "left" else relation.right_code
        try:
            return ~code_of(_one(end, values.type))
        except (TooWideError, pa.ArrowInvalid):
            # The value is none of the columns that are compared.
            return NO_LIMIT

    def _shift(self, place: int) -> tuple[int, int] | None:
        """Return the order that a relation follows step by step, and how far apart they are; None if it does not."""
        relation = self.condition.relations[place]
        expression = self._expression(relation)
        for number, order in enumerate(self.orders):
            if expression != order.node or order.coder.domain.kind == "float":
                continue
            found = [self._least(relation, order.interval_from(code)) for code in (0, 5, 70)]
            if NO_LIMIT not in found and found[1] == found[0] + 5 and found[2] == found[0] + 70:
                return number, found[0]
        return None

    def _add_branches(self, predicate: Node) -> None:
        """Watch the expressions that alternatives of a predicate limit, beyond what relations tell."""
        alternatives = _alternatives(predicate)
        covered = self._covered() if len(alternatives) == 1 else None
        lines: dict[_Watch, int] = {}
        for alternative in alternatives:
            watched = _watchable(alternative, self.side)
            graph = Graph(build.conjunction([alternative, *_constraints(self.orders, self._marks)]), watched)
            free = graph.shrink({}).watched
            sampled = [graph.shrink(self._marked(codes)) for codes in _samples(self.orders)]
            places = []
            for place, node in enumerate(watched):
                pair = [-1, -1]
                for upper in (False, True):
                    if (node, upper) in (covered or ()) or not _follows(sampled, free[place], place, upper=upper):
                        continue
                    watch = _Watch(node, upper, StepCoder(domain_of(node.type)), free[place].may_be_null)
                    if watch not in lines:
                        lines[watch] = self.lines
                        self.watches.append(watch)
                    pair[upper] = lines[watch]
                places.append((pair[0], pair[1]))
            self._branches.append(_Branch(graph, tuple(places), self._filters(alternative) if covered is None else ()))
        if not lines:
            self._branches.clear()
            self.watches.clear()

    def _filters(self, alternative: Node) -> tuple[int, ...]:
        """Return the lines of what an alternative demands of held rows alone."""
        parts = alternative.operands if isinstance(alternative, nodes.And) else (alternative,)
        first = self.lines
        self.watches += [Filter(part) for part in parts if sides(part) == {self.side}]
        return tuple(range(first, self.lines))

    def _covered(self) -> set[tuple[Node, bool]]:
        """Return the expressions of held rows that relations limit by an order, and from which side."""
        found = set()
        for place, relation in enumerate(self.condition.relations):
            node = relation.left if self.side == "left" else relation.right
            if node is not None and self._shifts[place] is not None:
                found.add((node, relation.upper != (self.side == "left")))
        return found

    def _marked(self, codes: Sequence[int | None]) -> dict[Column, Interval]:
        return {
            mark: _point(order, code)
            for mark, order, code in zip(self._marks, self.orders, codes, strict=True)
            if code is not None
        }

    def _branch_limits(self, branch: _Branch, codes: Sequence[int | None]) -> Ints:
        least = np.full(self.lines, NO_LIMIT, np.int64)
        # Any code but the least will do.
        least[list(branch.filters)] = NO_LIMIT + 1
        if not any(place >= 0 for pair in branch.watches for place in pair):
            return least
        shrunk = branch.graph.shrink(self._marked(codes))
        if not shrunk.feasible:
            return np.full(self.lines, GREATEST, np.int64)
        for pair, one in zip(branch.watches, shrunk.watched, strict=True):
            for place in pair:
                if place >= 0:
                    watch = self.watches[place - len(self.condition.relations)]
                    assert isinstance(watch, _Watch)
                    try:
                        least[place] = watch.least(one)
                    except TooWideError:
                        least[place] = NO_LIMIT
        return least

    def _moving(self) -> tuple[list[int], list[list[int]]]:
        """Return which lines' limits move on with the orders: of the relations, and of each alternative."""
        relations = range(len(self.condition.relations))
        found = [self._limits(codes, relations) for codes in _samples(self.orders)]
        base = [line for line in range(self.lines) if _moves([limits.least for limits in found], line)]
        branches = [
            [line for line in range(self.lines) if _moves([limits.branches[number] for limits in found], line)]
            for number in range(len(self._branches))
        ]
        return base, branches

    def matches_null(self, order: SideOrder) -> bool:
        """Tell whether a row of the held side may match if its own order is null."""
        predicate = self.condition.predicate
        if predicate is None:
            return not self._is_compared(order)
        return Graph(build.conjunction([predicate, build.is_null(order.node)])).shrink({}).feasible

    def matches_nan(self, order: SideOrder) -> bool:
        """Tell whether a row of the held side may match if its own order is NaN: to a predicate that is a value."""
        return self.condition.predicate is not None or not self._is_compared(order)

    def _is_compared(self, order: SideOrder) -> bool:
        """Tell whether a join compares the very expression of an order, so that neither null nor NaN match."""
        compared = self.condition.join.compared(self.side)
        return isinstance(order.node, Column) and order.node.name in compared


class Coming:
    """Which values of an expression can still come of a side, as codes.

    Parameters
    ----------
    expression
        The expression.
    orders
        Those of its side.
    coder
        Makes codes of its values.
    """

    def __init__(self, expression: Node | None, orders: Sequence[SideOrder], coder: StepCoder) -> None:
        self.orders = tuple(orders)
        self._coder = coder
        marks = [Column(order.node.type, order.side, f" order {place}", False) for place, order in enumerate(orders)]
        self._graph = _OrderGraph.of(orders, marks, [expression], None)
        same = len(orders) == 1 and orders[0].node == expression and orders[0].coder == coder
        self._same_codes = same and orders[0].coder.domain.kind != "float"
        found = [self._range(codes) for codes in _samples(self.orders)]
        self.rises = any(after[0] > before[0] for before, after in pairwise(found))
        self.falls = any(after[1] < before[1] for before, after in pairwise(found))

    def range(self, frontier: Frontier) -> tuple[int, int]:
        """Return the least and the greatest code that can still come; the least greater if none can."""
        return (GREATEST, NO_LIMIT) if frontier.ended else self._range(frontier.least)

    def _range(self, codes: Sequence[int | None]) -> tuple[int, int]:
        if self._graph is None or not self._graph.reaches[0]:
            return NO_LIMIT, GREATEST
        if self._same_codes:
            code = codes[0]
            if code is None:
                return NO_LIMIT, GREATEST
            return (NO_LIMIT, ~code) if self.orders[0].order.descending else (code, GREATEST)
        [one] = self._graph.of_codes(self.orders, codes)
        if one.empty:
            return GREATEST, NO_LIMIT
        return self._code(one.lower, one.type, NO_LIMIT), self._code(one.upper, one.type, GREATEST)

    def _code(self, end: Bound, data_type: Type, without: int) -> int:
        if end is None:
            return without
        try:
            codes, _ = self._coder.encode(plain(_one(end, data_type)))
        except (TooWideError, pa.ArrowInvalid):
            return without
        return int(codes[0])


@dataclass(frozen=True)
class _OrderGraph:
    """What orders say of the expressions of their own side."""

    graph: Graph
    marks: list[Column]
    watched: tuple[int, ...]
    reaches: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        orders: Sequence[SideOrder],
        marks: list[Column],
        expressions: Sequence[Node | None],
        filtered: Node | None,
    ) -> _OrderGraph | None:
        if not orders or not any(expressions):
            return None
        nodes_ = tuple(dict.fromkeys(node for node in expressions if node is not None))
        known = _constraints(orders, marks) + ([] if filtered is None else [filtered])
        graph = Graph(build.conjunction(known), nodes_)
        read = {column for order in orders for column in nodes.columns(order.node)}
        reaches = tuple(node is not None and not read.isdisjoint(nodes.columns(node)) for node in expressions)
        watched = tuple(-1 if node is None else nodes_.index(node) for node in expressions)
        return cls(graph, marks, watched, reaches)

    def of_codes(self, orders: Sequence[SideOrder], codes: Sequence[int | None]) -> list[Interval]:
        """Return what each expression can be of rows that can still come."""
        marked = {
            mark: _point(order, code)
            for mark, order, code in zip(self.marks, orders, codes, strict=True)
            if code is not None
        }
        shrunk = self.graph.shrink(marked).watched
        anything = Interval(Type("null"), may_be_null=True)
        return [anything if place < 0 else shrunk[place] for place in self.watched]


def _follows(sampled: Sequence[Shrunk], free: Interval, place: int, *, upper: bool) -> bool:
    """Tell whether an expression that is watched is limited where orders have come some way."""
    for shrunk in sampled:
        one = shrunk.watched[place]
        end = one.upper if upper else one.lower
        if not shrunk.feasible or one.empty or end is None or (upper and one.may_be_nan):
            continue
        if end != (free.upper if upper else free.lower):
            return True
    return False


def _constraints(orders: Sequence[SideOrder], marks: Sequence[Column]) -> list[Node]:
    """Return what is true of rows that come: their orders are not behind marks."""
    return [
        build.compare("<=" if order.order.descending else ">=", order.node, mark)
        for order, mark in zip(orders, marks, strict=True)
    ]


def _point(order: SideOrder, code: int) -> Interval:
    value = order.value_of(code)
    assert not isinstance(value, bool | None)
    return interval(order.node.type, value, value)


def _one(end: Bound, data_type: Type) -> pa.Array:
    """Return an end of an interval as a column of one row."""
    return to_column(as_vector([in_steps(end, data_type)], data_type), data_type, 1)


def _samples(orders: Sequence[SideOrder]) -> list[list[int | None]]:
    """Return some places along orders."""
    several = []
    for number in range(3):
        for sign in (-1, 1):
            codes: list[int | None] = []
            for order in orders:
                kind, unit = order.node.type.kind, order.node.type.unit
                value = sign * _SAMPLES.get(kind, (10, 60, 110))[number]
                codes.append(order.code_of_steps(value * (1_000 ** ("s", "ms", "us", "ns").index(unit) if unit else 1)))
            several.append(codes)
    return sorted(several, key=lambda codes: [code or 0 for code in codes])


def _moves(found: Sequence[Ints], line: int) -> bool:
    return any(after[line] > before[line] for before, after in pairwise(found))


def _alternatives(predicate: Node) -> list[Node]:
    """Return conditions of which one is true where a predicate is; the predicate itself if they would be too many."""
    found: list[list[Node]] = [[]]
    for part in predicate.operands if isinstance(predicate, nodes.And) else (predicate,):
        options = part.operands if isinstance(part, nodes.Or) else (part,)
        found = [[*known, option] for known in found for option in options]
        if len(found) > _BRANCHES_MOST:
            return [predicate]
    return [build.conjunction(parts) for parts in found]


def _watchable(predicate: Node, side: Side) -> tuple[Node, ...]:
    """Return the greatest expressions of one side that are compared, and their columns."""
    found: dict[Node, None] = {}
    for node in walk(predicate):
        if sides(node) == {side}:
            continue
        for child in children(node):
            if sides(child) == {side}:
                for each in (child, *nodes.columns(child)):
                    if each.type.kind in ("integer", "float", "decimal", "date", "timestamp"):
                        found[each] = None
    return tuple(found)
