"""Collects the changes of a result during an epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from juncture.incremental.changes.identity import RowIdentity
from juncture.kernels.array_types import Ints


class Changes:
    """Result rows with weights. With ``are_wanted=False`` they are dropped, and need not be built."""

    def __init__(self, *, are_wanted: bool = True) -> None:
        self.are_wanted = are_wanted
        self._batches: list[pa.RecordBatch] = []
        self._weights: list[Ints] = []

    def add(self, batch: pa.RecordBatch, weights: Ints) -> None:
        """Add rows with non-zero weights."""
        if self.are_wanted and batch.num_rows:
            self._batches.append(batch)
            self._weights.append(weights)

    def gathered(self) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the rows in the order in which they were added."""
        yield from zip(self._batches, self._weights, strict=True)

    def consolidated(self, identity: RowIdentity) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield each distinct row once, with the sum of its weights, if that is not zero."""
        if self._batches:
            batch, weights, _ = identity.consolidated(self._batches, np.concatenate(self._weights))
            if batch.num_rows:
                yield batch, weights
