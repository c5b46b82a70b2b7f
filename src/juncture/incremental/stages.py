"""The stages of a query: operators that load their first rows together, and what divides these rows into parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter

import pyarrow as pa

from juncture.incremental.dataflow import Dataflow
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.plan.physical import OperatorGraph
from juncture.kernels.array_types import Words

Hashes = Callable[[pa.RecordBatch], Words]


@dataclass(eq=False)
class Stage:
    """Operators that are loaded together.

    Attributes
    ----------
    dataflow
        Runs the operators. The rows that other stages pass to it are sources too.
    has_parts
        Whether no operator combines rows whose hashes differ.
    static
        The sources that never change.
    hashes
        By source, the function that divides its rows into parts. Without parts, only the sources that are other stages.
    passed
        The outputs that are sources of other stages, by their names there.
    """

    dataflow: Dataflow
    has_parts: bool
    static: set[str] = field(default_factory=set)
    hashes: dict[str, Hashes | None] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)


def stages_of(graph: OperatorGraph, static: Collection[str]) -> list[Stage]:
    """Return the operators in stages, each after those that it reads."""
    owners: dict[ViewOperator, ViewOperator] = {entry: _owner(graph, source) for source, entry in graph.inputs.items()}
    stages: list[Stage] = []
    stage_index: dict[ViewOperator, int] = {}
    for number, operators in enumerate(_groups(graph, owners)):
        part = OperatorGraph()
        part.operators, part.scans, part.domains = operators, graph.scans, graph.domains
        stages.append(Stage(Dataflow(part), all(_keeps_parts(each, operators, owners) for each in operators)))
        stage_index |= dict.fromkeys(operators, number)
    unchanging: set[ViewOperator] = {entry for source, entry in graph.inputs.items() if source in static}
    entries: dict[tuple[Stage, ViewOperator, object], ViewOperator] = {}
    for operator in graph.operators:
        stage = stages[stage_index[operator]]
        if unchanging.issuperset(operator.inputs) and operator not in owners:
            unchanging.add(operator)
        for position, each in enumerate(operator.inputs):
            if stage_index[each] == stage_index[operator]:
                continue
            # Operators of a stage that read the same rows share one input, unless they divide the rows differently.
            key = stage, each, (operator, position) if stage.has_parts else None
            if key not in entries:
                # Names of tables and answers do not contain a null character.
                name = f"\0{len(stage_index)}"
                entries[key] = entry = ViewOperator(operator.label, each.schema.types, ())
                stage.dataflow.graph.inputs[name] = entry
                stage.hashes[name] = (
                    partial(stage.dataflow.part_hashes, operator, position) if stage.has_parts else None
                )
                stages[stage_index[each]].dataflow.graph.answers[name] = each
                stages[stage_index[each]].passed.append(name)
                stage_index[entry] = stage_index[operator]
                if each in unchanging:
                    stage.static.add(name)
            stage.dataflow.bridges[operator, position] = entries[key]
    for source, entry in graph.inputs.items():
        stage, owner = stages[stage_index[entry]], owners[entry]
        stage.dataflow.graph.inputs[source] = entry
        if stage.has_parts:
            stage.hashes[source] = partial(stage.dataflow.part_hashes, owner, owner.inputs.index(entry))
        if entry in unchanging:
            stage.static.add(source)
    for name, answer in graph.answers.items():
        stages[stage_index[answer]].dataflow.graph.answers[name] = answer
    for stage in stages:
        stage.dataflow.graph.operators = [
            *dict.fromkeys(stage.dataflow.bridges.values()),
            *stage.dataflow.graph.operators,
        ]
    return stages


def _owner(graph: OperatorGraph, source: str) -> ViewOperator:
    rows, entry = graph.source_rows[source], graph.inputs[source]
    return rows if isinstance(rows, ViewOperator) else next(each for each in graph.operators if entry in each.inputs)


def _groups(graph: OperatorGraph, owners: Mapping[ViewOperator, ViewOperator]) -> list[list[ViewOperator]]:
    """Return the operators that are loaded together, each group after those that it reads."""
    group = {each: number for number, each in enumerate(graph.operators)}

    def merge(one: int, other: int) -> None:
        group.update({each: one for each, number in group.items() if number == other})

    for operator in graph.operators:
        is_step = operator.is_stateless and len(operator.inputs) == 1
        for each in [*operator.reads, *(operator.inputs if is_step else ()), owners.get(operator, operator)]:
            merge(group[operator], group[each])
    while True:
        before: dict[int, set[int]] = {number: set() for number in group.values()}
        for operator, number in group.items():
            before[number] |= {group[each] for each in operator.inputs} - {number}
        try:
            order = list(TopologicalSorter(before).static_order())
            return [[each for each, number in group.items() if number == first] for first in order]
        except CycleError as error:
            for number in error.args[1][1:]:
                merge(error.args[1][0], number)


def _keeps_parts(
    operator: ViewOperator, stage: Sequence[ViewOperator], owners: Mapping[ViewOperator, ViewOperator]
) -> bool:
    """Return whether an operator can divide its rows into the parts of its stage.

    Rows of its stage are in parts already. These are its own parts if the operator owns or reads these rows.
    """
    inner = [each for each in operator.inputs if each in stage]
    return operator.has_parts and (
        operator.is_stateless
        or all(each in operator.reads or operator in each.reads or owners.get(each) is operator for each in inner)
    )
