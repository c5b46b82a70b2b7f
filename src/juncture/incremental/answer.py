"""The changes of an answer as they come together: rows of the output with weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.incremental.identity import RowIdentity
from juncture.kernels.array_types import Ints


class Changes:
    """Rows of the output with weights, gathered during an epoch."""

    def __init__(self, *, are_wanted: bool = True) -> None:
        self.are_wanted = are_wanted
        self._batches: list[pa.RecordBatch] = []
        self._weights: list[Ints] = []

    def add(self, batch: pa.RecordBatch, weights: Ints) -> None:
        """Add rows, of which none has a weight of zero."""
        if self.are_wanted and batch.num_rows:
            self._batches.append(batch)
            self._weights.append(weights)

    def gathered(self) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the rows as they were added."""
        yield from zip(self._batches, self._weights, strict=True)

    def consolidated(self, identity: RowIdentity) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield each distinct row once, with the sum of its weights, where that is not zero."""
        if self._batches:
            batch, weights, _ = identity.consolidated(self._batches, np.concatenate(self._weights))
            if batch.num_rows:
                yield batch, weights
