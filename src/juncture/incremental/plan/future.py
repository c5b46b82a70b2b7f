"""The changes of each node that are still possible, given the frontiers of its sources.

Each source is followed through the plan by bounds on values that its future changes cause: a filter keeps them, a
projection of rising expressions and the keys of groups and partitions carry them over, and the conditions of a join
carry them from the changed side to the other one. Rows outside the bounds of all sources are final.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow.types as pat

from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import (
    Call,
    Constant,
    Expression,
    InputColumn,
    conjuncts,
    replaced,
    shifted,
)
from juncture.incremental.operators.eviction import Bound, Future, FutureChanges
from juncture.incremental.plan.nodes import (
    EmptyNode,
    ExpandNode,
    FilterNode,
    PlanNode,
    ProjectNode,
    ScanNode,
    UnionNode,
    numbered,
)
from juncture.incremental.plan.stateful_nodes import GroupNode, JoinNode, PartitionNode

_ASCENDING = {"equal": (0, 1), "less": (0, 1), "less_equal": (0, 1), "greater": (1, 0), "greater_equal": (1, 0)}
"""The positions of the lesser and the greater operand of a comparison."""


class FutureOf:
    """Finds the future changes of nodes. Static sources never change after the first epoch."""

    def __init__(self, static: Collection[str]) -> None:
        self._static = static
        self._known: dict[PlanNode, Future] = {}

    def __call__(self, node: PlanNode) -> Future:
        """Return the future changes of a node, with bounds over its columns."""
        if node not in self._known:
            self._known[node] = tuple(dict.fromkeys(self._of(node)))
        return self._known[node]

    def _of(self, node: PlanNode) -> Future:
        if isinstance(node, ScanNode):
            return self._of_scan(node)
        if isinstance(node, JoinNode):
            return projected(self.of_join(node), [_both(node)[place] for place in node.returned])
        inputs = [changes for each in node.inputs for changes in self(each)]
        if isinstance(node, FilterNode | UnionNode | EmptyNode | ExpandNode):
            return tuple(inputs)
        if isinstance(node, ProjectNode):
            return projected(inputs, node.columns, node.input)
        if isinstance(node, GroupNode):
            return projected(inputs, node.keys, node.input)
        if isinstance(node, PartitionNode):
            return self.of_partitions(node, node.result_keys)
        return tuple(FutureChanges(each.source) for each in inputs)

    def _of_scan(self, node: ScanNode) -> Future:
        if node.source in self._static:
            return ()
        ordered = [each for each, name in zip(node.every_column, node.names, strict=True) if name == node.order]
        return (FutureChanges(node.source, tuple(Bound(each, InputColumn(each.type, 0)) for each in ordered)),)

    def of_partitions(self, node: PartitionNode, keys: Sequence[Expression]) -> Future:
        """Return the changes of whole partitions, with bounds over given keys of each."""
        future = projected(self(node.input), node.keys, node.input)
        return tuple(
            FutureChanges(
                each.source,
                tuple(Bound(replaced(one.value, lambda key: keys[key.index]), one.least) for one in each.bounds),
            )
            for each in future
        )

    def of_join(self, node: JoinNode) -> Future:
        """Return the changes of joined rows, with bounds over the columns of both sides in sequence."""
        conditions, match = conjuncts(node.condition), node.asof
        if node.is_inner:
            return self.of_parts(node.inputs, conditions)
        # A right row changes later left rows in a backward join, and replaces other right rows there.
        after = [] if match is None or not match.backward else [(shifted(match.right, node.width), match.left)]
        left, right = (frozenset(range(*each)) for each in ((node.width,), (node.width, len(_both(node)))))
        future = []
        for own, other, each in (
            *((left, right, each) for each in self(node.left)),
            *((right, left, _shifted(each, node.width)) for each in self(node.right)),
        ):
            changes = _through(each, conditions, after if own is right else ())
            if match is not None and own is right:
                of_left = replace(changes, bounds=tuple(one for one in changes.bounds if one.value.columns <= left))
                future.append(_through(of_left, conditions))
                continue
            # Unmatched rows are only within the bounds of their own side.
            bounds = (one for one in changes.bounds if one in each.bounds or one.value.columns <= other)
            future.append(replace(changes, bounds=tuple(bounds)))
        return tuple(future)

    def of_parts(self, parts: Sequence[PlanNode], conditions: Sequence[Expression]) -> Future:
        """Return the changes of an inner join, with bounds over the columns of all parts in sequence."""
        future, first = [], 0
        for part in parts:
            future += [_through(_shifted(each, first), conditions) for each in self(part)]
            first += len(part.types)
        return tuple(future)

    def of_side(self, node: JoinNode, side: int) -> Future:
        """Return the changes that need rows of a side, with bounds over its columns."""
        own = node.inputs[side]
        places = range(node.width * side, node.width * side + len(own.types))
        return (*self(own), *restricted(self.of_join(node), places))


def _both(node: JoinNode) -> list[InputColumn]:
    types = node.left.types + node.right.types
    return [InputColumn(data_type, place) for place, data_type in enumerate(types)]


def _shifted(changes: FutureChanges, by: int) -> FutureChanges:
    return replace(changes, bounds=tuple(Bound(shifted(each.value, by), each.least) for each in changes.bounds))


def restricted(future: Future, places: Sequence[int]) -> Future:
    """Return changes with the bounds over some columns, which are numbered anew."""
    at = numbered(places)
    return tuple(
        FutureChanges(
            each.source,
            tuple(Bound(shifted(one.value, at), one.least) for one in each.bounds if one.value.columns <= at.keys()),
        )
        for each in future
    )


def projected(
    future: Sequence[FutureChanges],
    values: Sequence[Expression],
    node: PlanNode | None = None,
    *,
    is_last: bool = False,
) -> Future:
    """Return changes with bounds over some values of the rows of a node.

    Unless this ``is_last``, values that follow from others have bounds too, because nodes above may read them alone.
    """
    at = {each.index: place for place, each in enumerate(values) if isinstance(each, InputColumn)}

    def bounds(changes: FutureChanges) -> Iterator[Bound]:
        for bound in changes.bounds:
            if bound.value.columns <= at.keys():
                yield Bound(shifted(bound.value, at), bound.least)
                if is_last:
                    continue
            for place, value in enumerate(values):
                least = None if isinstance(value, InputColumn) else _least(value, bound, node)
                if least is not None:
                    yield Bound(InputColumn(value.type, place), least)

    return tuple(FutureChanges(each.source, tuple(dict.fromkeys(bounds(each)))) for each in future)


def _through(
    changes: FutureChanges,
    conditions: Sequence[Expression],
    pairs: Sequence[tuple[Expression, Expression]] = (),
) -> FutureChanges:
    """Return changes with the bounds that follow from conditions. Further ``pairs`` have a lesser value first."""
    pairs = list(pairs)
    for each in conditions:
        if isinstance(each, Call) and each.function in _ASCENDING:
            lesser, greater = (each.operands[place] for place in _ASCENDING[each.function])
            pairs += [(lesser, greater), *([(greater, lesser)] if each.function == "equal" else [])]
    bounds = list(changes.bounds)
    # Bounds that are added to the list are followed in turn.
    for bound in bounds:
        for lesser, greater in pairs:
            least = _least(lesser, bound, None)
            if least is not None:
                found = _solved(Bound(greater, least))
                if found.value not in [each.value for each in bounds]:
                    bounds.append(found)
    return replace(changes, bounds=tuple(bounds))


def _solved(bound: Bound) -> Bound:
    """Return a bound of a column in place of a bound of its sum with a constant."""
    value = bound.value
    if not isinstance(value, Call):
        return bound
    if isinstance(value.option, DuckQuery) and value.option.inverse is not None:
        return _solved(Bound(value.operands[0], replace(value, operands=(bound.least,), option=value.option.inverse)))
    if value.function not in ("add", "subtract") or not pat.is_integer(value.type):
        return bound
    place = _rising_operand(value)
    if place is None or value.operands[place].type != value.type:
        return bound
    inverse = "subtract" if value.function == "add" else "add"
    return _solved(Bound(value.operands[place], Call(value.type, inverse, (bound.least, value.operands[1 - place]))))


def _least(value: Expression, bound: Bound, node: PlanNode | None) -> Expression | None:
    """Return the least value of an expression that follows from a bound; None if the expression may fall."""
    if value == bound.value:
        return bound.least
    place = _rising_operand(value)
    if not isinstance(value, Call) or place is None:
        return None
    operand = value.operands[place]
    if value.function == "coalesce" and (node is None or not all(map(node.is_never_null, operand.columns))):
        return None
    least = _least(operand, bound, node)
    if least is None:
        return None
    return replace(value, operands=(*value.operands[:place], least, *value.operands[place + 1 :]))


def _rising_operand(value: Expression) -> int | None:
    """Return the only operand that is not constant, if the value of a call rises or stays as the operand rises."""
    if not isinstance(value, Call):
        return None
    places = [place for place, each in enumerate(value.operands) if not isinstance(each, Constant)]
    place = places[0] if len(places) == 1 else None
    if place is None or value.function == "duckdb":
        return place if isinstance(value.option, DuckQuery) and value.option.rises else None
    others = [each.value for each in value.operands if isinstance(each, Constant)]
    if any(each is None for each in others):
        return None
    if value.function == "cast":
        types = value.type, value.operands[0].type
        are_numbers = all(pat.is_integer(each) or pat.is_floating(each) or pat.is_decimal(each) for each in types)
        return place if are_numbers else None
    if value.function in ("multiply", "divide", "int_divide") and not others[0] > 0:
        return None
    first = value.function in ("subtract", "divide", "int_divide", "coalesce")
    is_known = first or value.function in ("add", "multiply")
    return place if is_known and not (first and place) else None
