"""Operators that hold nothing: filters, projections, unions, and rows that never come."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from juncture.columnar.arrays import true_rows
from juncture.incremental.view.expressions import Expression, InputColumn, evaluate
from juncture.incremental.view.operators.operator import Flow, ViewOperator, batch_of, some_rows


class InputOperator(ViewOperator):
    """The changes of a source, which are put in from outside."""

    def __init__(self, label: str, types: Sequence[pa.DataType]) -> None:
        super().__init__(label, types, ())
        self.put: Flow = []

    def step(self, _flows: Sequence[Flow]) -> Flow:
        """Give what was put in."""
        return self.put


class FilterOperator(ViewOperator):
    """Gives some columns of the rows for which a condition is true.

    Parameters
    ----------
    label, source
        What it is called, and whose rows they are.
    condition, shown
        The condition, and which columns it gives.
    """

    def __init__(self, label: str, source: ViewOperator, condition: Expression, shown: Sequence[int]) -> None:
        super().__init__(label, [source.schema.types[place] for place in shown], (source,))
        self._condition = condition
        self._shown = shown

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Give some of the rows."""
        found = []
        for batch, weights in flows[0]:
            rows = true_rows(evaluate(self._condition, batch.columns, batch.num_rows))
            columns = batch_of([batch.column(place) for place in self._shown], self.schema)
            if len(rows) == batch.num_rows:
                found.append((columns, weights))
            elif len(rows):
                found.append((some_rows(columns, rows), weights[rows]))
        return found


class ProjectOperator(ViewOperator):
    """Gives values that are worked out of each row."""

    def __init__(self, label: str, source: ViewOperator, columns: Sequence[Expression]) -> None:
        super().__init__(label, [each.type for each in columns], (source,))
        self._columns = columns

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Give a row for each row."""
        return [(self._projected(batch), weights) for batch, weights in flows[0]]

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            batch.column(each.index) if isinstance(each, InputColumn) else evaluate(each, batch.columns, batch.num_rows)
            for each in self._columns
        ]
        return batch_of(arrays, self.schema)


class UnionOperator(ViewOperator):
    """Gives the rows of all inputs."""

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Give the rows as they come."""
        return [change for flow in flows for change in flow]
