"""Operators without state: inputs, filters, projections and unions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from juncture.columnar.arrays import true_rows
from juncture.incremental.expressions.expression import Expression, InputColumn, evaluate
from juncture.incremental.operators.operator import Flow, ViewOperator, batch_of, some_rows


class InputOperator(ViewOperator):
    """The changes of a source, set from outside in ``put``."""

    def __init__(self, label: str, types: Sequence[pa.DataType]) -> None:
        super().__init__(label, types, ())
        self.put: Flow = []

    def step(self, _flows: Sequence[Flow]) -> Flow:
        """Return the changes of the source."""
        return self.put


class FilterOperator(ViewOperator):
    """Returns the columns ``shown`` of the rows for which a condition is true."""

    def __init__(self, label: str, source: ViewOperator, condition: Expression, shown: Sequence[int]) -> None:
        super().__init__(label, [source.schema.types[place] for place in shown], (source,))
        self._condition = condition
        self._shown = shown

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the matching rows."""
        changes = []
        for batch, weights in flows[0]:
            rows = true_rows(evaluate(self._condition, batch.columns, batch.num_rows))
            columns = batch_of([batch.column(place) for place in self._shown], self.schema)
            if len(rows) == batch.num_rows:
                changes.append((columns, weights))
            elif len(rows):
                changes.append((some_rows(columns, rows), weights[rows]))
        return changes


class ProjectOperator(ViewOperator):
    """Computes expressions for each row."""

    def __init__(self, label: str, source: ViewOperator, columns: Sequence[Expression]) -> None:
        super().__init__(label, [each.type for each in columns], (source,))
        self._columns = columns

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return one row per input row."""
        return [(self._projected(batch), weights) for batch, weights in flows[0]]

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            batch.column(each.index) if isinstance(each, InputColumn) else evaluate(each, batch.columns, batch.num_rows)
            for each in self._columns
        ]
        return batch_of(arrays, self.schema)


class UnionOperator(ViewOperator):
    """Concatenates its inputs."""

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows of all inputs."""
        return [change for flow in flows for change in flow]
