"""What a query keeps of the state of another one that it replaces, and what it computes.

Operators of equal nodes have equal state. Operators without an equal one are run, from the nearest rows that the old
query stores. If these are the rows of an arrangement that a new join follows, they are copied to it once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.operators.group import GroupOperator
from juncture.incremental.operators.join import JoinOperator
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.plan.nodes import PlanNode, ScanNode
from juncture.incremental.plan.physical import OperatorGraph

Key = TypeVar("Key")


class Replacement:
    """How the operators of a new query get their state.

    Attributes
    ----------
    old, new
        The operators of both queries.
    stored_twins
        The new operators that keep their state, with the old ones that have it.
    run
        The operators that start without state. Each gets the complete rows of its inputs. A join is the exception: it
        gets those of one input at least, and looks up the others, which are complete from the start.
    read
        The new operators whose rows are read, and not computed.
    missing
        The sources whose rows are read, but not stored with all needed columns.
    """

    def __init__(self, old: OperatorGraph, new: OperatorGraph) -> None:
        self.old, self.new = old, new
        self._twins = _twins(old.nodes, new.nodes) | _twins(old.arrangements, new.arrangements)
        self._stored: dict[PlanNode, ViewOperator] = {
            node: each for node, each in old.nodes.items() if isinstance(each, GroupOperator)
        }
        self._stored |= {node: each for (node, *_), each in old.arrangements.items() if each.keeps}
        self.stored_twins = {
            each: twin for each, twin in self._twins.items() if each.tables and each.tables.keys() == twin.tables.keys()
        }
        self.run: set[ViewOperator] = set()
        self.read: dict[ViewOperator, PlanNode] = {}
        self._scans: dict[ViewOperator, ScanNode] = {}
        self.missing: list[str] = []
        for operator in new.operators:
            if operator.tables and operator not in self.stored_twins:
                self._run(operator)
        self._follow_joins()

    def _run(self, operator: ViewOperator) -> None:
        if operator in self.run:
            return
        self.run.add(operator)
        self.stored_twins.pop(operator, None)
        for each in operator.inputs:
            if not isinstance(operator, JoinOperator):
                self._flow(each)
            elif each not in self.stored_twins:
                self._run(each)

    def _flow(self, operator: ViewOperator) -> None:
        nodes = [node for node, each in self.new.nodes.items() if each is operator]
        scan = next((node for node in nodes if isinstance(node, ScanNode)), None)
        stored = scan or next((node for node in nodes if node in self._stored), None)
        if stored is None:
            self._run(operator)
        elif operator not in self.read:
            self.read[operator] = stored
            if scan is not None:
                self._scans[operator] = scan
                if not self._has_columns(scan):
                    self.missing.append(scan.source)

    def _has_columns(self, scan: ScanNode) -> bool:
        stored = self.old.scans.get(scan.source)
        return stored is not None and set(scan.columns) <= set(stored.columns)

    def _follow_joins(self) -> None:
        """Let each join get the rows of an input. All arrangements of an input are complete from the start, or none."""
        count = -1
        while len(self.run) > count:
            count = len(self.run)
            for join in [each for each in self.new.operators if isinstance(each, JoinOperator) and each in self.run]:
                if self.run.isdisjoint(join.starts):
                    # On disk, the rows that those of the largest input match fit in memory.
                    self._run(max(join.starts, key=lambda each: self.stored_twins[each].rows))
                for arrangements in join.arrangements:
                    if not self.run.isdisjoint(arrangements):
                        for each in arrangements:
                            self._run(each)

    @property
    def part(self) -> OperatorGraph:
        """The operators that are run. Its inputs are those that are read: sources, and others by their numbers."""
        part = OperatorGraph()
        part.operators = [each for each in self.new.operators if each in self.run or each in self.read]
        part.inputs = {
            self._scans[operator].source if operator in self._scans else str(number): operator
            for number, operator in enumerate(self.read)
        }
        part.scans, part.domains = self.new.scans, self.new.domains
        return part

    def streams(self) -> dict[str, Iterator[ChangeBatch]]:
        """Return the rows that the old query stores of the inputs of ``part``, small inputs first."""
        stored = {name: self._reader(each) for name, each in self.part.inputs.items() if name not in self.missing}
        by_size = sorted(stored, key=lambda name: stored[name].rows)
        return {name: self._rows(self.part.inputs[name], stored[name]) for name in by_size}

    def _reader(self, operator: ViewOperator) -> ViewOperator:
        scan = self._scans.get(operator)
        return self._stored[self.read[operator] if scan is None else self.old.scans[scan.source]]

    def _rows(self, operator: ViewOperator, stored: ViewOperator) -> Iterator[ChangeBatch]:
        scan = self._scans.get(operator)
        indices = list(range(len(operator.schema)))
        if scan is not None:
            columns = self.old.scans[scan.source].columns
            indices = [columns.index(each) for each in scan.columns]
        for batch, weights in stored.living():
            yield ChangeBatch(batch_of([batch.column(index) for index in indices], operator.schema), weights)

    def state(self, operator: ViewOperator) -> str:
        """Return how an operator gets its rows, as text."""
        if operator in self.run:
            return "copied" if operator.tables and operator in self._twins else "computed"
        scan = self._scans.get(operator)
        return "pass its table" if scan is not None and scan.source in self.missing else "kept"


def _twins(old: Mapping[Key, ViewOperator], new: Mapping[Key, ViewOperator]) -> dict[ViewOperator, ViewOperator]:
    return {each: old[key] for key, each in new.items() if key in old}
