"""Clusters: nested inner joins as one join of many inputs, and the order in which changes of each are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from juncture.incremental.expressions.expression import Call, Expression, all_of, columns, conjuncts, shifted
from juncture.incremental.plan.nodes import FilterNode, JoinNode, PlanNode, ProjectNode


@dataclass(frozen=True)
class LookupStage:
    """An input to join next: ``keys`` over the columns of all inputs equal ``by`` over its own columns.

    ``condition`` covers the remaining conditions, over the columns of all inputs.
    """

    part: int
    keys: tuple[Expression, ...]
    by: tuple[Expression, ...]
    condition: Expression


@dataclass(frozen=True)
class DeltaPath:
    """The order in which the other inputs are joined to the changes of one. ``condition`` reads that input alone."""

    part: int
    condition: Expression
    stages: tuple[LookupStage, ...]


@dataclass(frozen=True)
class JoinCluster:
    """Inputs joined by conditions. Conditions and ``shown`` number the columns of all inputs in sequence."""

    parts: tuple[PlanNode, ...]
    conditions: tuple[Expression, ...]
    shown: tuple[int, ...]

    @property
    def firsts(self) -> list[int]:
        """Position of the first column of each input."""
        firsts = [0]
        for part in self.parts[:-1]:
            firsts.append(firsts[-1] + len(part.types))
        return firsts

    def places(self, part: int) -> frozenset[int]:
        """Return the column positions of an input."""
        first = self.firsts[part]
        return frozenset(range(first, first + len(self.parts[part].types)))

    def order(self, static: Sequence[bool]) -> list[int]:
        """Return the inputs in the order in which an epoch applies their changes.

        Static inputs are first, so that the changing inputs find all their rows. The start of the cluster, which has
        the most join conditions, is last.
        """
        changing = [part for part in range(len(self.parts)) if not static[part]]
        return [part for part in range(len(self.parts)) if static[part]] + changing[::-1]

    def delta_paths(self, static: Sequence[bool]) -> list[DeltaPath]:
        """Return a path for each changing input.

        Static inputs need no path if others change: in the epoch that loads them, the other inputs are empty before,
        and the changes of these find the static rows.
        """
        changing = [part for part in range(len(self.parts)) if not static[part]]
        return [self._delta_path(part, static) for part in changing or self.order(static)[-1:]]

    def _delta_path(self, start: int, static: Sequence[bool]) -> DeltaPath:
        joined = self.places(start)
        pending = [each for each in self.conditions if not columns(each) <= joined]
        alone = [each for each in self.conditions if columns(each) <= joined]
        rest = [part for part in range(len(self.parts)) if part != start]
        stages = []

        def rank(part: int) -> tuple[bool, bool, bool, int]:
            has_key = any(_pair(each, joined, self.places(part)) for each in pending)
            return not has_key, not static[part], not _is_filtered(self.parts[part]), part

        while rest:
            part = min(rest, key=rank)
            rest.remove(part)
            applicable = [each for each in pending if columns(each) <= joined | self.places(part)]
            pending = [each for each in pending if each not in applicable]
            pairs = [_pair(each, joined, self.places(part)) for each in applicable]
            keys = [pair for pair in pairs if pair is not None]
            stages.append(
                LookupStage(
                    part,
                    tuple(one for one, _ in keys),
                    tuple(shifted(other, -self.firsts[part]) for _, other in keys),
                    all_of([each for each, pair in zip(applicable, pairs, strict=True) if pair is None]),
                )
            )
            joined |= self.places(part)
        return DeltaPath(start, all_of(alone), tuple(stages))


def cluster_of(node: JoinNode, is_joined: Callable[[PlanNode], bool]) -> JoinCluster:
    """Return a join and the joins below it for which ``is_joined`` is true as one cluster."""
    sides = [
        cluster_of(side, is_joined)
        if isinstance(side, JoinNode) and is_joined(side)
        else JoinCluster((side,), (), tuple(range(len(side.types))))
        for side in node.inputs
    ]
    width = sum(len(part.types) for part in sides[0].parts)
    at = [*sides[0].shown, *(place + width for place in sides[1].shown)]
    own = [shifted(each, dict(enumerate(at))) for each in conjuncts(node.condition)]
    return JoinCluster(
        sides[0].parts + sides[1].parts,
        (*sides[0].conditions, *(shifted(each, width) for each in sides[1].conditions), *own),
        tuple(at[place] for place in node.shown),
    )


def _pair(condition: Expression, joined: frozenset[int], other: frozenset[int]) -> tuple[Expression, Expression] | None:
    """Return both sides of an equality between two sets of columns; None for other conditions."""
    if not isinstance(condition, Call) or condition.function != "equal":
        return None
    for one, two in (condition.operands, condition.operands[::-1]):
        if columns(one) and columns(two) and columns(one) <= joined and columns(two) <= other:
            return one, two
    return None


def _is_filtered(node: PlanNode) -> bool:
    if isinstance(node, ProjectNode):
        return _is_filtered(node.input)
    return isinstance(node, FilterNode)
