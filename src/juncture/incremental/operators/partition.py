"""Queries of DuckDB over the rows of partitions. An epoch computes the partitions that it touches again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, raw_values, rows_of
from juncture.incremental.expressions.evaluation import DuckQuery
from juncture.incremental.expressions.expression import evaluate
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.join import matches_of
from juncture.incremental.operators.operator import Change, Flow, ViewOperator, batch_of, some_rows
from juncture.kernels.array_types import Codes, Ints


class PartitionOperator(ViewOperator):
    """Returns what a query returns for the rows of each partition.

    A query of windows (``adds_columns``) returns the number of a row and values for it. Other queries return rows, at
    least one without ``keys``. The operator's own result, arranged by partition in ``results``, says what to retract.
    """

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        rows: ArrangedOperator,
        reads: Sequence[int],
        query: DuckQuery,
        *,
        adds_columns: bool,
    ) -> None:
        super().__init__(label, types, (rows,))
        self._rows = rows
        self._reads = reads
        self._query = query
        self._adds_columns = adds_columns
        self.results: ArrangedOperator

    @property
    def _has_one_partition(self) -> bool:
        return not self._rows.keys

    @property
    def waits(self) -> bool:
        """Whether a step needs changes. A query without partitions returns a row for an empty input too."""
        return not self._has_one_partition or self._adds_columns or bool(self.results.arrangement.rows)

    def step(self, _flows: Sequence[Flow]) -> Flow:
        """Return the old and new rows of the partitions with changed rows."""
        delta = self._rows.delta
        if not len(delta) and self.waits:
            return []
        codes, firsts = np.unique(delta.keys, return_index=True)
        if self._has_one_partition:
            codes = self._rows.domain.of([], 1)
        old = list(_rows_with(self._rows, codes))
        batches = [*(batch for batch, _ in old), delta.batch]
        rows, weights, _ = self._rows.identity.consolidated(
            batches, np.concatenate([*(weights for _, weights in old), delta.weights])
        )
        changes = [self._computed(rows, weights)]
        keys = [evaluate(key, delta.batch.columns, len(delta)) for key in self._rows.keys]
        index = array_of(firsts, pa.int64())
        result_codes = self.results.domain.of([rows_of(each, index) for each in keys], len(codes))
        retracted = [(batch, -weights) for batch, weights in _rows_with(self.results, result_codes)]
        changes = [*retracted, *changes]
        batch, weights, _ = self.results.identity.consolidated(
            [batch for batch, _ in changes], np.concatenate([weights for _, weights in changes])
        )
        return [(batch, weights)] if len(weights) else []

    def _computed(self, rows: pa.RecordBatch, weights: Ints) -> Change:
        """Return the result of the query for all rows of some partitions."""
        assert (weights > 0).all(), f"{self.label} received deletes of rows that it does not store"
        copies: Ints = np.repeat(np.arange(rows.num_rows), weights)
        repeated = some_rows(rows, copies)
        columns = [repeated.column(place) for place in self._reads]
        # The query reads the number of each row, to return values in any order.
        numbers = array_of(np.arange(len(copies)), pa.int64())
        result = self._query.run([*columns, numbers])
        if not self._adds_columns:
            return batch_of(result.columns, self.schema), np.ones(result.num_rows, np.int64)
        order = raw_values(result.column(0), np.int64)
        arrays = [*some_rows(repeated, order).columns, *result.columns[1:]]
        return batch_of(arrays, self.schema), np.ones(len(order), np.int64)


def _rows_with(arranged: ArrangedOperator, codes: Codes) -> Iterator[Change]:
    """Yield the rows before the epoch with some keys, and their weights."""
    for _, batch, positions, weights in matches_of(codes, arranged, is_changed=False):
        living = np.flatnonzero(weights)
        if len(living):
            yield some_rows(batch, positions[living].astype(np.int64)), weights[living]


class ExpandOperator(ViewOperator):
    """Returns any number of rows for each row: a query returns the number of a row and values for each."""

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        source: ViewOperator,
        reads: Sequence[int],
        query: DuckQuery,
    ) -> None:
        super().__init__(label, types, (source,))
        self._reads = reads
        self._query = query

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows for each row."""
        return [self._expanded(batch, weights) for batch, weights in flows[0] if batch.num_rows]

    def _expanded(self, batch: pa.RecordBatch, weights: Ints) -> Change:
        numbers = array_of(np.arange(batch.num_rows), pa.int64())
        result = self._query.run([*(batch.column(place) for place in self._reads), numbers])
        rows = raw_values(result.column(0), np.int64)
        arrays = [*some_rows(batch, rows).columns, *result.columns[1:]]
        return batch_of(arrays, self.schema), weights[rows]
