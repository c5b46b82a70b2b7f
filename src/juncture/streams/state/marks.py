"""Stored rows as tables, with a column that marks rows that have had a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Mask

_MATCHED = " matched"


def with_marks(batches: Iterable[tuple[pa.RecordBatch, Mask]], schema: pa.Schema) -> pa.Table:
    """Return rows as one table, with a column of marks."""
    field = pa.field(_MATCHED, pa.bool_())
    marked = [batch.append_column(field, pa.array(np.asarray(mask, np.bool_))) for batch, mask in batches]
    return pa.Table.from_batches(marked, schema.append(field))


def without_marks(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, Mask]]:
    """Yield the rows and marks that `with_marks` was given."""
    for batch in table.to_batches():
        yield batch.select(batch.schema.names[:-1]), batch.column(_MATCHED).to_numpy(zero_copy_only=False)
