"""Rule: remove unused columns, down to the sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from juncture.incremental.plan.nodes import InputColumns, NarrowedNode, PlanNode, Positions, numbered


def pruned(plans: Mapping[str, PlanNode]) -> dict[str, PlanNode]:
    """Return plans with the same output that read only needed columns. All uses of a source read the same ones."""
    collector = _Pruner({})
    for plan in plans.values():
        collector.in_order(plan, range(len(plan.types)))
    pruner = _Pruner(collector.wanted_of)
    return {name: pruner.in_order(plan, range(len(plan.types))) for name, plan in plans.items()}


class _Pruner:
    """Removes columns that no use of a node needs (``needed_of``). ``wanted_of`` collects the needed ones."""

    def __init__(self, needed_of: Mapping[PlanNode, Collection[int]]) -> None:
        self._needed_of = needed_of
        self.wanted_of: dict[PlanNode, set[int]] = {}

    def in_order(self, node: PlanNode, wanted: Sequence[int]) -> PlanNode:
        """Return a plan with exactly these columns, in this order."""
        pruned_node, new_indices = self._more(node, frozenset(wanted))
        return pruned_node.only([new_indices[each] for each in wanted])

    def _more(self, node: PlanNode, wanted: Positions) -> NarrowedNode:
        """Return a plan with at least these columns, and their new indices."""
        self.wanted_of.setdefault(node, set()).update(wanted)
        wanted = frozenset(self._needed_of.get(node, wanted))
        # A batch needs a column to have a number of rows.
        inputs = [
            self._input(each, columns or frozenset([0]), node.input_columns)
            for each, columns in zip(node.inputs, node.needed(wanted), strict=True)
        ]
        return node.narrowed(wanted, inputs)

    def _input(self, node: PlanNode, wanted: Positions, which: InputColumns) -> NarrowedNode:
        new_indices = numbered(sorted(wanted))
        if which == "in order":
            return self.in_order(node, sorted(wanted)), new_indices
        more, indices_of_more = self._more(node, wanted)
        if which == "more" or {indices_of_more[each] for each in wanted} == set(range(len(more.types))):
            return more, indices_of_more
        return more.only([indices_of_more[each] for each in sorted(wanted)]), new_indices
