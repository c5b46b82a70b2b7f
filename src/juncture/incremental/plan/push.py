"""Rule: push conditions down as far as their meaning allows, and order inner joins so that the fewest rows are stored.

Each use of a shared node receives its own conditions, and uses that are still equal are one node. A group node with
several uses stays one node: the disjunction of the conditions of all uses is pushed below it, and each use filters its
groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from juncture.incremental.expressions.expression import Expression, all_of, any_of, conjuncts, is_never, shifted
from juncture.incremental.plan.clusters import JoinCluster
from juncture.incremental.plan.nodes import EmptyNode, FilterNode, PlanNode, numbered
from juncture.incremental.plan.stateful_nodes import JoinNode

Conditions = tuple[Expression, ...]


def pushed(node: PlanNode, static: Collection[str]) -> PlanNode:
    """Return a plan with conditions pushed down, given the sources that never change after the first epoch."""
    first = _Pusher(frozenset(static), {})
    first.push(node, [])
    return _Pusher(frozenset(static), first.uses).push(node, [])


def _of_any(uses: Collection[Sequence[Expression]]) -> list[Expression]:
    """Return the conditions that follow from any of several uses, per set of columns that all of them restrict."""
    by_columns = [_by_columns(use) for use in uses]
    of_all = [conditions for conditions in by_columns[0] if all(conditions in use for use in by_columns)]
    return [any_of(list(dict.fromkeys(all_of(use[conditions]) for use in by_columns))) for conditions in of_all]


def _by_columns(conditions: Sequence[Expression]) -> dict[frozenset[int], list[Expression]]:
    conditions_by_columns: dict[frozenset[int], list[Expression]] = {}
    for each in dict.fromkeys(conditions):
        conditions_by_columns.setdefault(each.columns, []).append(each)
    return conditions_by_columns


class _Pusher:
    """Pushes conditions down. ``known`` has those of the uses of a shared node, which an earlier pass collected."""

    def __init__(self, static: frozenset[str], uses: Mapping[PlanNode, Collection[Conditions]]) -> None:
        self._static = static
        self._uses = uses
        self.uses: dict[PlanNode, dict[Conditions, None]] = {}

    def push(self, node: PlanNode, conditions: Sequence[Expression]) -> PlanNode:
        """Return a plan filtered by some conditions."""
        if any(is_never(each) for each in conditions):
            return EmptyNode(node.types)
        parts, conditions_of_parts = node.flattened()
        if len(parts) > 1:
            every_condition = (*conditions_of_parts, *conditions)
            return self._joined(JoinCluster(tuple(parts), every_condition, tuple(range(len(node.types)))))
        passing = [each for each in conditions if node.push(each)]
        above: Sequence[Expression] = [each for each in conditions if each not in passing]
        if node.is_one_node:
            self.uses.setdefault(node, {})[tuple(passing)] = None
            uses = self._uses.get(node, ())
            if len(uses) > 1 and tuple(passing) in uses:
                passing, above = _of_any(uses), conditions
        released, below = node.release()
        below = [*below, *(each for condition in passing for each in released.push(condition))]
        inputs = [
            self.push(each, [part for at, condition in below if at == number for part in conjuncts(condition)])
            for number, each in enumerate(released.inputs)
        ]
        limited = released.with_inputs(inputs).simplified().limited(above)
        return FilterNode(limited, all_of(list(dict.fromkeys(above)))).simplified()

    def _joined(self, cluster: JoinCluster) -> PlanNode:
        """Return inner joins of inputs that are filtered by their own conditions."""
        conditions_of_parts: list[list[Expression]] = [[] for _ in cluster.parts]
        shared = []
        for each in cluster.conditions:
            owner = cluster.owner(each.columns)
            if owner is None:
                shared.append(each)
            else:
                conditions_of_parts[owner].append(shifted(each, -cluster.firsts[owner]))
        parts = tuple(self.push(part, conditions_of_parts[number]) for number, part in enumerate(cluster.parts))
        if any(is_never(each) for each in shared) or any(part.is_empty for part in parts):
            return EmptyNode(cluster.types)
        return self._in_order(JoinCluster(parts, tuple(shared), cluster.output))

    def _in_order(self, cluster: JoinCluster) -> PlanNode:
        """Return the joins, starting with the input that has the most conditions with others."""
        static = [part.sources <= self._static for part in cluster.parts]
        rest, pending = list(range(len(cluster.parts))), list(cluster.conditions)
        start = max(rest, key=lambda part: sum(bool(each.columns & cluster.columns_of_part(part)) for each in pending))
        rest.remove(start)
        joined, columns = cluster.parts[start], sorted(cluster.columns_of_part(start))
        while rest:
            part = cluster.next_part(frozenset(columns), rest, pending, static)
            rest.remove(part)
            columns += sorted(cluster.columns_of_part(part))
            applicable = [each for each in pending if each.columns <= frozenset(columns)]
            pending = [each for each in pending if each not in applicable]
            at = numbered(columns)
            condition = all_of([shifted(each, at) for each in applicable])
            joined = JoinNode(joined, cluster.parts[part], "inner", condition)
        at = numbered(columns)
        return joined.select([at[index] for index in cluster.output])
