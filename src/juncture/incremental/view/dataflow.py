"""A running query: its operators apply an epoch completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from juncture.errors import DataError
from juncture.incremental.state.arrangement import Delta
from juncture.incremental.state.tables import StateTable
from juncture.incremental.view.operators.operator import Change, Flow, table_of
from juncture.incremental.view.physical import operators_of
from juncture.incremental.view.plan import PlanNode
from juncture.kernels.array_types import Ints


class Dataflow:
    """The operators of a plan. ``most_rows`` is the largest output of one operator in the last epoch."""

    def __init__(self, plan: PlanNode, static: Collection[str]) -> None:
        self.built = operators_of(plan, static)
        self.most_rows = 0

    @property
    def tables(self) -> dict[str, StateTable]:
        """The stored rows of all operators, by the number and label of the operator and their name in it."""
        return {
            f"{number} {operator.label}: {name}": table
            for number, operator in enumerate(self.built.operators)
            for name, table in operator.tables.items()
        }

    def located(self, source: str, flow: Flow) -> tuple[Delta, Ints]:
        """Return the applicable changes of a source and the unmatched deletes. `run` or `abandon` must follow."""
        return self.built.source_rows[source].located(flow)

    def run(self, changes: Mapping[str, Flow]) -> Flow:
        """Return the output of an epoch, or raise `DataError` for a failed value. `commit` or `abandon` must follow."""
        for source, entry in self.built.inputs.items():
            entry.put = [each for each in changes.get(source, []) if each[0].num_rows]
        outputs: dict[int, Flow] = {}
        self.most_rows = 0
        for operator in self.built.operators:
            flows = [outputs[id(each)] for each in operator.inputs]
            if operator.waits and not any(flows):
                outputs[id(operator)] = []
                continue
            start = time.perf_counter()
            try:
                output = operator.step(flows)
            except (pa.ArrowException, DataError) as error:
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
        return outputs[id(self.built.answer)]

    def commit(self) -> None:
        """Commit the last epoch."""
        for operator in self.built.operators:
            start = time.perf_counter()
            operator.commit()
            operator.seconds += time.perf_counter() - start
        for domain in self.built.domains:
            domain.forget()

    def abandon(self) -> None:
        """Discard the last epoch."""
        for operator in self.built.operators:
            operator.abandon()

    @property
    def others_bytes(self) -> int:
        """Bytes of memory that are not rows: keys and caches."""
        caches = sum(operator.fixed_bytes for operator in self.built.operators)
        return caches + sum(domain.nbytes for domain in self.built.domains)

    def restored(self) -> None:
        """Restore what operators derive from their rows, after these were opened."""
        for operator in self.built.operators:
            operator.restored()

    @property
    def answers(self) -> Iterator[Change]:
        """Distinct rows of the result with their weights."""
        return self.built.answer.arrangement.living()

    def answer(self, names: Sequence[str]) -> pa.Table:
        """Return the rows of the result in no order, repeated by weight."""
        return table_of(self.answers, self.built.answer.schema).rename_columns(list(names))

    def rows(self, source: str) -> Iterator[Change]:
        """Yield the distinct rows of a source with their weights."""
        return self.built.source_rows[source].arrangement.living()

    def source(self, source: str) -> pa.Table:
        """Return the rows of a source in no order, repeated by weight."""
        return table_of(self.rows(source), self.built.source_rows[source].schema)
