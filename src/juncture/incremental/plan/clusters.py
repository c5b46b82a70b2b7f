"""Clusters: nested inner joins as one join of many inputs, and the order in which changes of each are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from juncture.incremental.expressions.expression import (
    Expression,
    all_of,
    conjuncts,
    equated,
    key_pair,
    shifted,
    text_of,
)
from juncture.incremental.operators.eviction import Future, carry, joined
from juncture.incremental.plan.nodes import PlanNode
from juncture.incremental.plan.stateful_nodes import JoinNode


@dataclass(frozen=True)
class LookupStage:
    """An input to join next, by keys that equal ``by`` over its own columns."""

    part: int
    keys: tuple[Expression, ...]  # over the columns of all inputs
    by: tuple[Expression, ...]
    condition: Expression  # the remaining conditions, over the same columns


@dataclass(frozen=True)
class DeltaPath:
    """The order in which the other inputs are joined to the changes of one. ``condition`` reads that input alone."""

    part: int
    condition: Expression
    stages: tuple[LookupStage, ...]


@dataclass(frozen=True)
class JoinCluster:
    """Inputs joined by conditions. Conditions and ``output`` number the columns of all inputs in sequence."""

    parts: tuple[PlanNode, ...]
    conditions: tuple[Expression, ...]
    output: tuple[int, ...]

    @property
    def firsts(self) -> list[int]:
        """Position of the first column of each input."""
        firsts = [0]
        for part in self.parts[:-1]:
            firsts.append(firsts[-1] + len(part.types))
        return firsts

    def columns_of_part(self, part: int) -> frozenset[int]:
        """Return the column positions of an input."""
        first = self.firsts[part]
        return frozenset(range(first, first + len(self.parts[part].types)))

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Types of the output columns."""
        every = [data_type for part in self.parts for data_type in part.types]
        return tuple(every[index] for index in self.output)

    @property
    def label(self) -> str:
        """Text of the conditions."""
        names = [name for part in self.parts for name in part.names]
        texts = [
            " = ".join(text_of(operand, names) for operand in equated(each)) or text_of(each, names)
            for each in self.conditions
        ]
        return f"join on {' AND '.join(texts)}" if texts else "cross join"

    def futures(self, inputs: Sequence[Future]) -> list[Future]:
        """Return the changes that need rows of each input, with bounds over its columns, given those of all inputs."""
        future = joined(inputs, self.firsts, self.conditions)
        return [
            carry(future, [(each, shifted(each, first)) for each in part.every_column])
            for part, first in zip(self.parts, self.firsts, strict=True)
        ]

    def owner(self, columns: frozenset[int]) -> int | None:
        """Return the only input that has some columns; None without columns or for several inputs."""
        owners = [part for part in range(len(self.parts)) if columns <= self.columns_of_part(part)]
        return owners[0] if columns and owners else None

    def next_part(
        self, joined: frozenset[int], rest: Sequence[int], conditions: Sequence[Expression], static: Sequence[bool]
    ) -> int:
        """Return the input to join next: with an equality key first, then static, filtered and earlier ones.

        A key that other inputs share, such as the nation of customers and suppliers, may be unique in neither of two
        inputs. Keys of fewer inputs come first.
        """

        def rank(part: int) -> tuple[bool, bool, bool, int, int]:
            keys = [each for each in conditions if key_pair(each, joined, self.columns_of_part(part))]
            inputs = min((self._inputs_with(each) for each in keys), default=0)
            return not keys, not static[part], not self.parts[part].is_filtered, inputs, part

        return min(rest, key=rank)

    def _inputs_with(self, equality: Expression) -> int:
        """Return the number of inputs whose values equal those of an equality, directly or by other conditions."""
        equal = set(equated(equality))
        rest = [set(pair) for pair in map(equated, self.conditions) if pair]
        while linked := [each for each in rest if equal & each]:
            equal = equal.union(*linked)
            rest = [each for each in rest if each not in linked]
        return len({self.owner(each.columns) for each in equal})

    def order(self, static: Sequence[bool]) -> list[int]:
        """Return the inputs in the order in which an epoch applies their changes.

        Static inputs are first, so that changing ones find all their rows. The start, with most join conditions, is
        last.
        """
        changing = [part for part in range(len(self.parts)) if not static[part]]
        return [part for part in range(len(self.parts)) if static[part]] + changing[::-1]

    def delta_paths(self, static: Sequence[bool]) -> list[DeltaPath]:
        """Return a path for each changing input; static ones need none: the others are empty when they are loaded."""
        changing = [part for part in range(len(self.parts)) if not static[part]]
        return [self._delta_path(part, static) for part in changing or self.order(static)[-1:]]

    def _delta_path(self, start: int, static: Sequence[bool]) -> DeltaPath:
        joined = self.columns_of_part(start)
        pending = [each for each in self.conditions if not each.columns <= joined]
        alone = [each for each in self.conditions if each.columns <= joined]
        rest = [part for part in range(len(self.parts)) if part != start]
        stages = []
        while rest:
            part = self.next_part(joined, rest, pending, static)
            rest.remove(part)
            applicable = [each for each in pending if each.columns <= joined | self.columns_of_part(part)]
            pending = [each for each in pending if each not in applicable]
            pairs = [key_pair(each, joined, self.columns_of_part(part)) for each in applicable]
            keys = [pair for pair in pairs if pair is not None]
            stages.append(
                LookupStage(
                    part,
                    tuple(one for one, _ in keys),
                    tuple(shifted(other, -self.firsts[part]) for _, other in keys),
                    all_of([each for each, pair in zip(applicable, pairs, strict=True) if pair is None]),
                )
            )
            joined |= self.columns_of_part(part)
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
    at = [*sides[0].output, *(index + width for index in sides[1].output)]
    conditions = [shifted(each, dict(enumerate(at))) for each in conjuncts(node.condition)]
    return JoinCluster(
        sides[0].parts + sides[1].parts,
        (*sides[0].conditions, *(shifted(each, width) for each in sides[1].conditions), *conditions),
        tuple(at[index] for index in node.returned),
    )
