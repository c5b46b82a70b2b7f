"""Rule: push conditions down as far as their meaning allows, and order inner joins so that the fewest rows are stored.

Each use of a shared node receives its own conditions, and uses that are still equal are one node. A group node with
several uses stays one node: the disjunction of the conditions of all uses is pushed below it, and each use filters its
groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from juncture.incremental.expressions.expression import (
    FALSE,
    TRUE,
    Call,
    Constant,
    Expression,
    InputColumn,
    all_of,
    any_of,
    columns,
    conjuncts,
    key_pair,
    replaced,
    shifted,
)
from juncture.incremental.plan.nodes import (
    EmptyNode,
    ExpandNode,
    FilterNode,
    GroupNode,
    JoinNode,
    PartitionNode,
    PlanNode,
    ProjectNode,
    ScanNode,
    TopNode,
    UnionNode,
)

Conditions = tuple[Expression, ...]


def pushed(node: PlanNode, static: Collection[str]) -> PlanNode:
    """Return a plan with conditions pushed down, given the sources that never change after the first epoch."""
    first = _Pusher(frozenset(static), {})
    first.push(node, [])
    return _Pusher(frozenset(static), first.key_conditions).push(node, [])


def _is_never(condition: Expression) -> bool:
    return condition == FALSE or (isinstance(condition, Constant) and condition.value is None)


def _filtered(node: PlanNode, conditions: Sequence[Expression]) -> PlanNode:
    condition = all_of(list(dict.fromkeys(conditions)))
    if condition == TRUE:
        return node
    never = _is_never(condition) or isinstance(node, EmptyNode)
    return EmptyNode(node.types) if never else FilterNode(node, condition)


def _of_any(uses: Collection[Sequence[Expression]]) -> list[Expression]:
    """Return the conditions that follow from at least one of several uses, as a disjunction per set of columns.

    Columns that one use does not restrict yield no condition.
    """
    by_columns = [_by_columns(use) for use in uses]
    of_all = [places for places in by_columns[0] if all(places in use for use in by_columns)]
    return [any_of(list(dict.fromkeys(all_of(use[places]) for use in by_columns))) for places in of_all]


def _by_columns(conditions: Sequence[Expression]) -> dict[frozenset[int], list[Expression]]:
    conditions_by_columns: dict[frozenset[int], list[Expression]] = {}
    for each in dict.fromkeys(conditions):
        conditions_by_columns.setdefault(columns(each), []).append(each)
    return conditions_by_columns


@dataclass(frozen=True)
class _Part:
    """An input of nested inner joins. Its columns start at position ``first``."""

    node: PlanNode
    first: int

    @property
    def places(self) -> frozenset[int]:
        return frozenset(range(self.first, self.first + len(self.node.types)))


class _Pusher:
    """Pushes conditions down.

    ``known`` has the key conditions of each use of a group node from an earlier pass. ``key_conditions`` collects them.
    """

    def __init__(self, static: frozenset[str], known: Mapping[PlanNode, Collection[Conditions]]) -> None:
        self._static = static
        self._known = known
        self.key_conditions: dict[PlanNode, dict[Conditions, None]] = {}

    def push(self, node: PlanNode, conditions: list[Expression]) -> PlanNode:
        """Return a plan filtered by some conditions."""
        if any(_is_never(each) for each in conditions):
            return EmptyNode(node.types)
        if isinstance(node, FilterNode):
            # Keep the order: an earlier condition may protect a later one from failing.
            return self.push(node.input, [*conjuncts(node.condition), *conditions])
        if isinstance(node, ProjectNode):
            return self._project(node, conditions)
        if isinstance(node, UnionNode):
            parts = [self.push(part, conditions) for part in node.parts]
            nonempty = [part for part in parts if not isinstance(part, EmptyNode)]
            return (
                nonempty[0] if len(nonempty) == 1 else UnionNode(tuple(nonempty)) if nonempty else EmptyNode(node.types)
            )
        if isinstance(node, GroupNode):
            return self._group(node, conditions)
        if isinstance(node, JoinNode):
            return self._join(node, conditions)
        if isinstance(node, PartitionNode):
            return self._partition(node, conditions)
        if isinstance(node, ExpandNode):
            own = [each for each in conditions if columns(each) and max(columns(each)) < len(node.input.types)]
            rest = [each for each in conditions if each not in own]
            return _filtered(replace(node, input=self.push(node.input, own)), rest)
        if isinstance(node, TopNode):
            # A condition above changes which rows are first, so it stays above.
            node = replace(node, input=self.push(node.input, []))
        return _filtered(node, conditions)

    def _project(self, node: ProjectNode, conditions: list[Expression]) -> PlanNode:
        below = [replaced(each, lambda column: node.columns[column.index]) for each in conditions]
        pushed_input = self.push(node.input, [part for each in below for part in conjuncts(each)])
        if isinstance(pushed_input, EmptyNode):
            return EmptyNode(node.types)
        if isinstance(pushed_input, ProjectNode):
            inner = pushed_input.columns
            return ProjectNode(
                pushed_input.input, tuple(replaced(each, lambda column: inner[column.index]) for each in node.columns)
            )
        return pushed_input if node.columns == pushed_input.every_column else ProjectNode(pushed_input, node.columns)

    def _group(self, node: GroupNode, conditions: list[Expression]) -> PlanNode:
        # Conditions on keys alone keep or exclude whole groups. Without keys, the one group must stay.
        key_conditions = [each for each in conditions if columns(each) and max(columns(each)) < len(node.keys)]
        self.key_conditions.setdefault(node, {})[tuple(key_conditions)] = None
        uses = self._known.get(node, ())
        if len(uses) > 1 and tuple(key_conditions) in uses:
            pushed_down, remaining = _of_any(uses), conditions
        else:
            pushed_down, remaining = key_conditions, [each for each in conditions if each not in key_conditions]
        below = [replaced(each, lambda column: node.keys[column.index]) for each in pushed_down]
        pushed_input = self.push(node.input, [part for each in below for part in conjuncts(each)])
        grouped = (
            EmptyNode(node.types)
            if isinstance(pushed_input, EmptyNode) and node.keys
            else replace(node, input=pushed_input)
        )
        return _filtered(grouped, remaining)

    def _partition(self, node: PartitionNode, conditions: list[Expression]) -> PlanNode:
        """Return partitions, with the conditions below that keep or exclude whole partitions."""
        by = frozenset(
            each.operands[0].index
            for each in node.keys
            if node.adds_columns
            and isinstance(each, Call)
            and each.function == "is_null"
            and isinstance(each.operands[0], InputColumn)
        )
        own = [each for each in conditions if columns(each) and columns(each) <= by]
        rest = [each for each in conditions if each not in own]
        return _filtered(replace(node, input=self.push(node.input, own)), rest)

    def _join(self, node: JoinNode, conditions: list[Expression]) -> PlanNode:
        if node.how == "inner" and node.asof is None:
            return self._inner(node, conditions)
        width = len(node.left.types)
        left_conditions = [
            each for each in conditions if self._keeps_left(node) and columns(each) and max(columns(each)) < width
        ]
        if node.how == "right" and node.asof is None:
            right_conditions = [each for each in conditions if columns(each) and min(columns(each)) >= width]
        else:
            right_conditions = []
        left, right, on_conditions = list(left_conditions), [shifted(each, -width) for each in right_conditions], []
        for each in conjuncts(node.condition):
            # A row that fails has no match, so it can be filtered on the side whose unmatched rows are dropped.
            places = columns(each)
            if places and min(places) >= width and node.how == "left":
                right.append(shifted(each, -width))
            elif places and max(places) < width and node.how == "right":
                left.append(each)
            else:
                on_conditions.append(each)
        sides = self.push(node.left, left), self.push(node.right, right)
        joined = JoinNode(*sides, node.how, all_of(on_conditions), node.asof)
        return _filtered(
            joined, [each for each in conditions if each not in left_conditions and each not in right_conditions]
        )

    def _keeps_left(self, node: JoinNode) -> bool:
        return node.how in ("inner", "left")

    # Inner joins

    def _inner(self, node: JoinNode, conditions: list[Expression]) -> PlanNode:
        parts: list[_Part] = []
        all_conditions = [*self._flatten(node, 0, parts), *conditions]
        own: dict[int, list[Expression]] = {part.first: [] for part in parts}
        shared = []
        for each in all_conditions:
            owner = next((part for part in parts if columns(each) and columns(each) <= part.places), None)
            if owner is None:
                shared.append(each)
            else:
                own[owner.first].append(shifted(each, -owner.first))
        if any(each == FALSE or (isinstance(each, Constant) and each.value is None) for each in shared):
            return EmptyNode(node.types)
        ready = [_Part(self.push(part.node, own[part.first]), part.first) for part in parts]
        if any(isinstance(part.node, EmptyNode) for part in ready):
            return EmptyNode(node.types)
        return self._in_order(node, ready, shared)

    def _flatten(self, node: PlanNode, first: int, parts: list[_Part]) -> list[Expression]:
        """Append the inputs of nested inner joins to ``parts``, and return their conditions."""
        if isinstance(node, FilterNode):
            own_conditions = [shifted(each, first) for each in conjuncts(node.condition)]
            return [*self._flatten(node.input, first, parts), *own_conditions]
        if isinstance(node, JoinNode) and node.how == "inner" and node.asof is None:
            own_conditions = [shifted(each, first) for each in conjuncts(node.condition)]
            left = self._flatten(node.left, first, parts)
            return [*left, *self._flatten(node.right, first + len(node.left.types), parts), *own_conditions]
        parts.append(_Part(node, first))
        return []

    def _in_order(self, node: PlanNode, parts: list[_Part], conditions: list[Expression]) -> PlanNode:
        """Return the joins, starting with the input that has the most conditions with others."""
        links = {part.first: sum(bool(columns(each) & part.places) for each in conditions) for part in parts}
        start = max(parts, key=lambda part: (links[part.first], -part.first))
        joined, places = start.node, sorted(start.places)
        rest, pending = [part for part in parts if part is not start], list(conditions)
        while rest:
            chosen = min(rest, key=lambda part: self._rank(part, places, pending))
            rest.remove(chosen)
            places = [*places, *sorted(chosen.places)]
            applicable = [each for each in pending if columns(each) <= frozenset(places)]
            pending = [each for each in pending if each not in applicable]
            at = {place: number for number, place in enumerate(places)}
            joined = JoinNode(joined, chosen.node, "inner", all_of([shifted(each, at) for each in applicable]))
        joined = _filtered(joined, pending)
        if places == sorted(places):
            return joined
        at = {place: number for number, place in enumerate(places)}
        return ProjectNode(
            joined, tuple(InputColumn(data_type, at[place]) for place, data_type in enumerate(node.types))
        )

    def _rank(
        self, part: _Part, places: Sequence[int], conditions: Sequence[Expression]
    ) -> tuple[bool, bool, bool, int]:
        """Return a sort key: inputs with an equality key first, then static, filtered and earlier ones."""
        both = [*places, *sorted(part.places)]
        at = {place: number for number, place in enumerate(both)}
        tied = [shifted(each, at) for each in conditions if columns(each) <= frozenset(both)]
        has_key = any(key_pair(each, len(places)) is not None for each in tied)
        return not has_key, not self._is_static(part.node), not isinstance(part.node, FilterNode), part.first

    def _is_static(self, node: PlanNode) -> bool:
        if isinstance(node, ScanNode):
            return node.source in self._static
        return bool(node.inputs) and all(self._is_static(each) for each in node.inputs)
