"""Left columns that come to the output last, by their row numbers, so that they need not go through the disk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.local.output.payload import read_held
from juncture.runtime.context import JoinContext
from juncture.runtime.row_ids import NumberedJoin
from juncture.spec.equi import ResolvedEqui


class LateColumns:
    """The left columns of a join, held to be added to rows that show their numbers.

    This is late materialization (Abadi, Myers, DeWitt and Madden, "Materialization strategies in a column-oriented
    DBMS", 2007).

    Parameters
    ----------
    numbered
        The join.
    context
        What the join may use.

    Attributes
    ----------
    narrow
        The same join without these columns in its output.
    """

    def __init__(self, numbered: NumberedJoin[ResolvedEqui], context: JoinContext) -> None:
        join = numbered.join
        self._left_rows = numbered.left.num_rows
        self._schema = join.output_schema
        # What stands in for a missing left value is a right one, and comes with the right row.
        is_late = [
            column.side == "left" and column.filled_from is None and column.name != numbered.number
            for column in join.output
        ]
        self._late = {column.name: column.source for column, late in zip(join.output, is_late, strict=True) if late}
        self._payload = read_held(numbered.left, tuple(dict.fromkeys(self._late.values())), context)
        kept = tuple(column for column, late in zip(join.output, is_late, strict=True) if not late)
        self.narrow = replace(numbered, join=replace(join, output=kept))

    def added_to(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return rows of the narrow join with the columns that it lacks, in more batches if they are too long."""
        numbers = self.narrow.numbers_of(batch)
        rows = np.where(numbers < self._left_rows, numbers, -1).astype(np.int32)
        late = dict(zip(self._late, self._payload.take(list(self._late.values()), rows), strict=True))
        columns = [late[name] if name in late else batch.column(name) for name in self._schema.names]
        batches: list[pa.RecordBatch] = pa.table(columns, schema=self._schema).to_batches()
        return batches
