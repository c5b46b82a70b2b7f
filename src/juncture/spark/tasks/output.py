"""A task's output for Spark: rows of exactly the expected types, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import JunctureError

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class TaskOutput:
    """Converts tables to the batches that Spark expects, with an additional last column for an error.

    An exception in a task would reach the user as a traceback of Spark's worker. Expected errors are therefore rows,
    which the query turns into an error of one sentence. `schema` excludes the error column.
    """

    schema: pa.Schema

    def batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield rows."""
        for table in tables:
            yield from self._wired(table).to_batches(max_chunksize=_BATCH_ROWS)

    def failure(self, error: JunctureError) -> Iterator[pa.RecordBatch]:
        """Yield an error as one row, with its class and message on one line."""
        text = f"{type(error).__module__}.{type(error).__name__}: {' '.join(str(error).split())}"
        yield pa.record_batch(
            [*(pa.nulls(1, field.type) for field in self.schema), pa.array([text])], schema=self._wire
        )

    @property
    def _wire(self) -> pa.Schema:
        return self.schema.append(pa.field("error", pa.string()))

    def _wired(self, table: pa.Table) -> pa.Table:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(table.columns, self.schema, strict=True)
        ]
        return pa.table([*columns, pa.nulls(table.num_rows, pa.string())], schema=self._wire)
