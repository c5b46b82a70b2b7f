"""What a task gives back to Spark: rows of exactly the types that it expects, or the message of an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.errors import JunctureError

__all__ = ["Output", "error_text"]

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Output:
    """Turns tables into the batches that Spark takes, with a last column for an error.

    An exception that leaves a task reaches the user as a traceback of Spark's worker. So an error that the user can
    mend is a row instead, from which the query makes an error of one sentence.

    Attributes
    ----------
    schema
        The names and types that Spark expects, without the error.
    """

    schema: pa.Schema

    def batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield rows, until there are no more or there is an error."""
        try:
            for table in tables:
                yield from self._batches(table)
        except JunctureError as error:
            row = [pa.nulls(1, field.type) for field in self.schema] + [pa.array([error_text(error)])]
            yield pa.record_batch(row, schema=self._wire)

    @property
    def _wire(self) -> pa.Schema:
        return self.schema.append(pa.field("error", pa.string()))

    def _batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(table.columns, self.schema, strict=True)
        ]
        errors = pa.nulls(table.num_rows, pa.string())
        wire = pa.table([*columns, errors], schema=self._wire)
        yield from wire.to_batches(max_chunksize=_BATCH_ROWS)


def error_text(error: JunctureError) -> str:
    """Return an error as one line that says its class too."""
    return f"{type(error).__module__}.{type(error).__name__}: {' '.join(str(error).split())}"
