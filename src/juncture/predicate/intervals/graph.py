"""A predicate as a graph in which equal parts are one node, and intervals propagate in both directions.

Upward, the interval of a node follows from those of its operands. Downward, a node narrows its operands. Both are
repeated until nothing changes, or for a limited number of rounds. Each step only excludes impossible values, so
stopping early is sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from juncture.predicate.intervals import arithmetic as calculate
from juncture.predicate.intervals import functions
from juncture.predicate.intervals import relate as logic
from juncture.predicate.intervals.interval import TRUE, Interval, everything, intersect, nothing, null, point, union
from juncture.predicate.intervals.narrow import narrow
from juncture.predicate.intervals.relate import among
from juncture.predicate.intervals.spans import Span
from juncture.predicate.language import nodes
from juncture.predicate.language.nodes import Column, Node, children, walk
from juncture.predicate.language.types import BIGINT, Type

MAX_ROUNDS = 24
MAX_BRANCHES = 32
"""The most alternatives of ORs that are narrowed separately."""

State = list[Interval]


@dataclass(frozen=True)
class Shrunk:
    """The possible values of columns where a predicate is true; empty intervals if it never is."""

    feasible: bool
    certain: bool  # whether the predicate is true for all rows within the given intervals
    columns: dict[Column, Interval]
    watched: tuple[Interval, ...] = ()  # of the watched expressions


class Graph:
    """A predicate, prepared for repeated evaluation on intervals.

    ``watched`` are expressions whose intervals are returned too. ``in_types`` is whether the range of a type limits
    values, unless it has 64 bits; it never limits how much values grow. A call costs some microseconds per node and
    round, and allocates nothing that outlives it.
    """

    def __init__(self, root: Node, watched: Sequence[Node] = (), *, in_types: bool = True) -> None:
        self._nodes = tuple(dict.fromkeys(node for part in (root, *watched) for node in walk(part)))
        index_of = {node: index for index, node in enumerate(self._nodes)}
        self._root = index_of[root]
        self._watched = tuple(index_of[node] for node in watched)
        self._operands = tuple(tuple(index_of[child] for child in children(node)) for node in self._nodes)
        self._leaves = {column: index for column, index in index_of.items() if isinstance(column, Column)}
        self._ranges = tuple(_range_of(node) if in_types else None for node in self._nodes)
        self._ors = [index for index, node in enumerate(self._nodes) if isinstance(node, nodes.Or)]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the predicate reads."""
        return tuple(self._leaves)

    def evaluate(self, bounds: Mapping[Column, Interval]) -> Interval:
        """Return all values of the predicate for rows within bounds; columns without bounds can be anything."""
        return self._forward(bounds)[self._root]

    def shrink(self, bounds: Mapping[Column, Interval]) -> Shrunk:
        """Return the values of columns where the predicate is true; columns without bounds can be anything."""
        state = self._forward(bounds)
        certain = state[self._root].is_point and state[self._root].may_be_true
        everything_there = set(range(len(state)))
        feasible = self._assert(state, self._root, everything_there) and self._follow_branches(state)
        if not feasible:
            empty = {column: nothing(column.type) for column in self._leaves}
            watched = tuple(nothing(self._nodes[index].type) for index in self._watched)
            return Shrunk(feasible=False, certain=False, columns=empty, watched=watched)
        columns = {column: state[index] for column, index in self._leaves.items()}
        return Shrunk(True, certain, columns, tuple(state[index] for index in self._watched))

    def _forward(self, bounds: Mapping[Column, Interval]) -> State:
        state: State = []
        for node, operands, allowed in zip(self._nodes, self._operands, self._ranges, strict=True):
            state.append(_limited_value(node, tuple([state[index] for index in operands]), bounds, allowed))
        return state

    def _assert(self, state: State, index: int, changed: set[int]) -> bool:
        """Require a node to be true, and propagate. Return whether that is feasible."""
        state[index] = intersect(state[index], TRUE)
        return state[index].feasible and self._propagate(state, changed | {index})

    def _propagate(self, state: State, changed: set[int]) -> bool:
        """Narrow the ``changed`` nodes, operands and users until nothing changes; return whether all are feasible."""
        for _ in range(MAX_ROUNDS):
            recent: set[int] = set()
            if not (self._pass_down(state, changed, recent) and self._pass_up(state, changed, recent)):
                return False
            if not recent:
                break
            changed = recent
        return True

    def _pass_down(self, state: State, changed: set[int], recent: set[int]) -> bool:
        """Narrow operands by their users, and add the narrowed ones to the recent changes."""
        for index in range(len(state) - 1, -1, -1):
            operands = self._operands[index]
            if not operands or not self._is_due(index, changed, recent):
                continue
            narrowed = narrow(self._nodes[index], state[index], tuple(state[operand] for operand in operands))
            for operand, one in zip(operands, narrowed, strict=True):
                if not _shrink(state, operand, one, recent):
                    return False
        return True

    def _pass_up(self, state: State, changed: set[int], recent: set[int]) -> bool:
        """Narrow nodes by their operands, and add the narrowed ones to the recent changes."""
        for index, operands in enumerate(self._operands):
            if operands and self._is_due(index, changed, recent):
                value = value_of(self._nodes[index], tuple(state[operand] for operand in operands))
                if not _shrink(state, index, value, recent):
                    return False
        return True

    def _is_due(self, index: int, *changes: set[int]) -> bool:
        """Return whether a node or one of its operands has changed."""
        return any(index in one or not one.isdisjoint(self._operands[index]) for one in changes)

    def _follow_branches(self, state: State) -> bool:
        """Narrow by each alternative of the ORs that must be true, and keep the union of the results."""
        branches = 0
        for index in self._ors:
            if not (state[index].is_point and state[index].may_be_true):
                continue
            operands = [operand for operand in self._operands[index] if state[operand].may_be_true]
            branches += len(operands)
            if branches > MAX_BRANCHES:
                break
            alternatives = []
            for operand in operands:
                alternative = list(state)
                if self._assert(alternative, operand, set()):
                    alternatives.append(alternative)
            if not alternatives:
                return False
            for leaf in self._leaves.values():
                state[leaf] = intersect(state[leaf], reduce(union, [each[leaf] for each in alternatives]))
            if not self._propagate(state, set(self._leaves.values())):
                return False
        return True


def _shrink(state: State, index: int, other: Interval, recent: set[int]) -> bool:
    """Intersect a node's interval with another one. Return whether that is feasible."""
    interval = state[index]
    if other is interval:
        return True
    narrowed = intersect(interval, other)
    if narrowed != interval:
        state[index] = narrowed
        recent.add(index)
    return narrowed.feasible


def possible(node: Node, bounds: Mapping[Column, Interval]) -> Interval:
    """Return all values of an expression for rows within bounds: a graph evaluated once."""
    intervals: dict[Node, Interval] = {}
    for part in walk(node):
        operands = tuple([intervals[child] for child in children(part)])
        intervals[part] = _limited_value(part, operands, bounds, _range_of(part))
    return intervals[node]


def _limited_value(
    node: Node, operands: tuple[Interval, ...], bounds: Mapping[Column, Interval], allowed: Interval | None
) -> Interval:
    """Return all values of a node or a column that the range of its type allows."""
    if isinstance(node, Column):
        value = bounds.get(node) or everything(node.type, null=node.nullable)
    else:
        value = value_of(node, operands)
    return value if allowed is None else intersect(value, allowed)


def _range_of(node: Node) -> Interval | None:
    """Return the range of a node's type; None if it limits nothing."""
    if isinstance(node, nodes.Cast) and node.type.kind == "float" and node.operand.type.is_discrete:
        return calculate.convert(_full_range(node.operand.type), node.type)
    is_wide = node.type.unit or node.type == BIGINT
    return _full_range(node.type) if node.type.is_discrete and not is_wide else None


def _full_range(data_type: Type) -> Interval:
    return Interval(data_type, Span(data_type.least, False, data_type.greatest, False), may_be_null=True)


def value_of(node: Node, operands: tuple[Interval, ...]) -> Interval:
    """Return all values of a node, given those of its operands."""
    match node:
        case nodes.Literal(type=data_type, value=value):
            assert value is None or not isinstance(value, complex)
            return null(data_type) if value is None else point(data_type, value)
        case nodes.Arithmetic(operator="*", left=left, right=right) if left == right:
            return calculate.square(operands[0], node.type)
        case nodes.Arithmetic(operator=operator):
            return calculate.arithmetic(operator, operands[0], operands[1], node.type)
        case nodes.Call():
            return functions.value(node, operands)
        case nodes.Cast(type=target):
            return calculate.convert(operands[0], target)
        case nodes.Compare(operator=comparison):
            return logic.compare(comparison, operands[0], operands[1])
        case nodes.In(options=options):
            return among(options, operands[0])
        case nodes.IsNull():
            return logic.is_null(operands[0])
        case nodes.Not():
            return logic.negation(operands[0])
        case nodes.And():
            return logic.conjunction(operands)
        case nodes.Or():
            return logic.disjunction(operands)
    raise AssertionError(f"{type(node).__name__} is not a node of a predicate")
