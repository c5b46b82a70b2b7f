"""The operators of a query, run for one epoch at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from juncture.errors import DataError
from juncture.incremental.operators.operator import Flow, ViewOperator, consolidated
from juncture.incremental.plan.physical import OperatorGraph
from juncture.incremental.state.tables import StateTable

Flows = Mapping[str, Flow]
"""Changes by source, or by answer."""


class Dataflow:
    """Runs operators. ``most_rows`` is the largest output of one operator in the last epoch."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.most_rows = 0

    @property
    def tables(self) -> dict[str, StateTable]:
        """The stored rows of all operators, by their names in a store."""
        return {
            self.table_name(operator, name): table
            for operator in self.graph.operators
            for name, table in operator.tables.items()
        }

    def table_name(self, operator: ViewOperator, name: str) -> str:
        """Return the name in a store of the rows that an operator has under a name."""
        return f"{self.graph.operators.index(operator)} {operator.label}: {name}"

    def run(self, changes: Flows, *, wants_answers: bool = True) -> Flows:
        """Return the output of an epoch, or raise `DataError` for a failed value. `commit` or `abandon` must follow."""
        readers = Counter(id(each) for operator in self.graph.operators for each in operator.inputs)
        waiting = readers + Counter(id(each) for each in self.graph.answers.values())
        outputs: dict[int, Flow] = {}
        for source, entry in self.graph.inputs.items():
            outputs[id(entry)] = [each for each in changes.get(source, []) if each[0].num_rows]
            entry.emitted_rows += sum(len(weights) for _, weights in outputs[id(entry)])
        self.most_rows = 0
        for operator in self.graph.operators:
            if id(operator) in outputs:
                continue
            operator.is_output_read = wants_answers or id(operator) in readers
            flows = []
            for each in operator.inputs:
                waiting[id(each)] -= 1
                # Rows are released with their last reader.
                flows.append(list(outputs.get(id(each), [])) if waiting[id(each)] else outputs.pop(id(each), []))
            if operator.waits and not any(flows):
                outputs[id(operator)] = []
                continue
            start = time.perf_counter()
            try:
                output = _step(operator, flows)
            except (pa.ArrowException, DataError) as error:
                if len(self.graph.operators) == 1 + len(self.graph.inputs):
                    # The only operator needs no name.
                    raise
                text, name = f"{error}. Correct the value, or protect it with CASE in the query.", ""
                if isinstance(error, DataError):
                    text, name = error.message, error.name
                raise DataError(
                    f"Operator {operator.label!r} failed, and these changes were not applied: {text}",
                    name=name or "JN-VIEW-VALUE",
                ) from error
            rows = sum(len(weights) for _, weights in output)
            operator.emitted_rows += rows
            self.most_rows = max(self.most_rows, rows)
            operator.seconds += time.perf_counter() - start
            outputs[id(operator)] = output
        return {name: outputs[id(operator)] for name, operator in self.graph.answers.items()}

    def commit(self) -> None:
        """Commit the last epoch."""
        for operator in self.graph.operators:
            start = time.perf_counter()
            operator.commit()
            operator.seconds += time.perf_counter() - start
        for domain in self.graph.domains:
            domain.forget()

    def abandon(self) -> None:
        """Discard the last epoch."""
        for operator in self.graph.operators:
            operator.abandon()

    @property
    def others_bytes(self) -> int:
        """Bytes of memory that are not rows: keys and caches."""
        caches = sum(operator.fixed_bytes for operator in self.graph.operators)
        return caches + sum(domain.nbytes for domain in self.graph.domains)

    def restored(self) -> None:
        """Restore what operators derive from their rows, after these were opened."""
        for operator in self.graph.operators:
            operator.restored()


def _step(operator: ViewOperator, flows: Sequence[Flow]) -> Flow:
    """Return the output of an operator; if it fails, without rows whose weights cancel.

    In changes of a join, an old row of one table and a new row of another one may meet, for which an expression fails.
    """
    rows = _rows(flows)
    try:
        return operator.step(flows)
    except (pa.ArrowException, DataError):
        remaining = [consolidated(flow, source.schema) for source, flow in zip(operator.inputs, flows, strict=True)]
        if _rows(flows) < rows or _rows(remaining) == rows:
            raise
    operator.abandon()
    return operator.step(remaining)


def _rows(flows: Sequence[Flow]) -> int:
    return sum(len(weights) for flow in flows for _, weights in flow)
