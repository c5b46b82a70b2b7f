"""Rule: remove unused columns, down to the sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from juncture.incremental.expressions.expression import Expression, InputColumn, columns, conjuncts, shifted
from juncture.incremental.operators.group import GroupAggregate
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

Places = Mapping[int, int]
"""From column positions of a node to those of its replacement."""


def pruned(node: PlanNode) -> PlanNode:
    """Return a plan with the same output that reads only needed columns. All uses of a source read the same ones."""
    collector = _Pruner(None)
    collector.exactly(node, range(len(node.types)))
    return _Pruner(collector.read).exactly(node, range(len(node.types)))


class _Pruner:
    """Removes columns. ``sources`` has the columns to read of each source; None to collect them in ``read``."""

    def __init__(self, sources: Mapping[str, Collection[int]] | None) -> None:
        self._sources = sources
        self.read: dict[str, set[int]] = {}

    def exactly(self, node: PlanNode, wanted: Sequence[int]) -> PlanNode:
        """Return a plan with exactly these columns, in this order."""
        pruned_node, places = self.some(node, frozenset(wanted))
        if [places[each] for each in wanted] == list(range(len(pruned_node.types))):
            return pruned_node
        output = tuple(pruned_node.every_column[places[each]] for each in wanted)
        if isinstance(pruned_node, JoinNode):
            return replace(pruned_node, output=tuple(pruned_node.shown[each.index] for each in output))
        return ProjectNode(pruned_node, output)

    def some(self, node: PlanNode, wanted: frozenset[int]) -> tuple[PlanNode, Places]:
        """Return a plan with at least these columns, and their positions."""
        # A batch needs a column to have a number of rows.
        wanted = wanted or frozenset([0])
        if isinstance(node, ScanNode):
            return self._scan(node, wanted)
        if isinstance(node, EmptyNode):
            return node, {place: place for place in wanted}
        if isinstance(node, ProjectNode):
            kept = sorted(wanted)
            pruned_input, places = self.some(node.input, _read([node.columns[each] for each in kept]))
            made_columns = tuple(shifted(node.columns[each], places) for each in kept)
            return _projected(pruned_input, made_columns), _numbered(kept)
        if isinstance(node, FilterNode):
            pruned_input, places = self.some(node.input, wanted | columns(node.condition))
            return FilterNode(pruned_input, shifted(node.condition, places)), places
        if isinstance(node, JoinNode):
            return self._join(node, wanted)
        if isinstance(node, GroupNode):
            return self._group(node, wanted)
        if isinstance(node, UnionNode):
            kept = sorted(wanted)
            return UnionNode(tuple(self.exactly(part, kept) for part in node.parts)), _numbered(kept)
        if isinstance(node, PartitionNode):
            return self._partition(node, wanted)
        if isinstance(node, ExpandNode):
            width = len(node.input.types)
            kept = sorted({*(place for place in wanted if place < width), *node.reads} or {0})
            at = _numbered(kept)
            expanded = replace(node, input=self.exactly(node.input, kept), reads=tuple(at[each] for each in node.reads))
            return expanded, at | _after(width, len(node.types), len(kept))
        assert isinstance(node, TopNode)
        kept = sorted(wanted | {key.column for key in node.order})
        at = _numbered(kept)
        order = tuple(replace(key, column=at[key.column]) for key in node.order)
        return replace(node, input=self.exactly(node.input, kept), order=order), at

    def _scan(self, node: ScanNode, wanted: frozenset[int]) -> tuple[PlanNode, Places]:
        if self._sources is None:
            self.read.setdefault(node.source, set()).update(wanted)
            return node, {place: place for place in wanted}
        positions = sorted(self._sources[node.source])
        return ScanNode(node.source, tuple(node.columns[place] for place in positions)), _numbered(positions)

    def _join(self, node: JoinNode, wanted: frozenset[int]) -> tuple[PlanNode, Places]:
        shown = {place: node.shown[place] for place in wanted}
        width = len(node.left.types)
        read = frozenset(shown.values()) | _read(conjuncts(node.condition))
        of_left = {each for each in read if each < width}
        of_right = {each - width for each in read if each >= width}
        if node.asof is not None:
            of_left |= columns(node.asof.left)
            of_right |= columns(node.asof.right)
        kept_left, kept_right = (sorted(each) for each in (of_left or {0}, of_right or {0}))
        (left, at_left), (right, at_right) = self._side(node.left, kept_left), self._side(node.right, kept_right)
        at = {**at_left, **{each + width: place + len(left.types) for each, place in at_right.items()}}
        match = node.asof
        if match is not None:
            match = replace(match, left=shifted(match.left, at_left), right=shifted(match.right, at_right))
        joined = JoinNode(
            left,
            right,
            node.how,
            shifted(node.condition, at),
            match,
            tuple(at[shown[place]] for place in sorted(wanted)),
        )
        return joined, _numbered(sorted(wanted))

    def _side(self, node: PlanNode, wanted: Sequence[int]) -> tuple[PlanNode, Places]:
        """Return a side of a join with exactly these columns, and their positions."""
        side = self.exactly(node, wanted)
        if isinstance(side, ProjectNode) and isinstance(side.input, ScanNode):
            chosen = [each.index for each in side.columns if isinstance(each, InputColumn)]
            if len(chosen) == len(side.columns) and sorted(chosen) == list(range(len(side.input.types))):
                # All columns of a source in another order: the join shares the stored rows of the source.
                return side.input, dict(zip(wanted, chosen, strict=True))
        return side, _numbered(wanted)

    def _partition(self, node: PartitionNode, wanted: frozenset[int]) -> tuple[PlanNode, Places]:
        width = len(node.input.types) if node.adds_columns else 0
        own = {place for place in wanted if place < width}
        kept = sorted({*own, *node.reads, *_read(node.keys)} or {0})
        at = _numbered(kept)
        keys = tuple(shifted(each, at) for each in node.keys)
        result_keys = keys if node.adds_columns else node.result_keys
        reads = tuple(at[each] for each in node.reads)
        partitioned = replace(
            node, input=self.exactly(node.input, kept), keys=keys, result_keys=result_keys, reads=reads
        )
        if not node.adds_columns:
            return partitioned, {place: place for place in range(len(node.types))}
        return partitioned, at | _after(width, len(node.types), len(kept))

    def _group(self, node: GroupNode, wanted: frozenset[int]) -> tuple[PlanNode, Places]:
        count = len(node.keys)
        kept = [place for place in range(len(node.aggregates)) if place + count in wanted]
        if not kept and not count:
            kept = [0]
        aggregates = [node.aggregates[place] for place in kept]
        values = [each.value for each in aggregates if each.value is not None]
        pruned_input, places = self.some(node.input, _read([*node.keys, *values]))
        keys = tuple(shifted(each, places) for each in node.keys)
        moved = tuple(_moved(each, places) for each in aggregates)
        return GroupNode(pruned_input, keys, moved), {place: place for place in range(count)} | {
            place + count: number + count for number, place in enumerate(kept)
        }


def _after(first: int, end: int, new_first: int) -> dict[int, int]:
    """Return the new positions of columns that follow others."""
    return {place: place - first + new_first for place in range(first, end)}


def _moved(aggregate: GroupAggregate, places: Places) -> GroupAggregate:
    return aggregate if aggregate.value is None else replace(aggregate, value=shifted(aggregate.value, dict(places)))


def _projected(node: PlanNode, output: tuple[Expression, ...]) -> PlanNode:
    """Return a projection. A join that only selects columns does so itself."""
    if isinstance(node, JoinNode) and all(each in node.every_column for each in output):
        at = {column: place for place, column in enumerate(node.every_column)}
        places = [at[each] for each in output if isinstance(each, InputColumn)]
        return replace(node, output=tuple(node.shown[place] for place in places))
    return node if output == node.every_column else ProjectNode(node, output)


def _numbered(positions: Sequence[int]) -> dict[int, int]:
    return {place: number for number, place in enumerate(positions)}


def _read(expressions: Sequence[Expression]) -> frozenset[int]:
    return frozenset(place for each in expressions for place in columns(each))
