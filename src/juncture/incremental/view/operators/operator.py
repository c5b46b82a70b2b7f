"""What all operators have in common: a step that changes nothing yet, and a commit that cannot fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, joined_batches, rows_of
from juncture.incremental.view.paging import HeldRows
from juncture.kernels.array_types import Ints

Change = tuple[pa.RecordBatch, Ints]
"""Rows, and by how much the weight of each changes."""

Flow = list[Change]
"""Changes. A row may come several times."""


class ViewOperator:
    """A part of a dataflow.

    Parameters
    ----------
    label
        What it is called where it is shown.
    types
        The types of the columns that it gives.
    inputs
        What it takes changes from.

    Attributes
    ----------
    seconds
        How long it has worked on all epochs.
    given
        How many rows it has given.
    """

    def __init__(self, label: str, types: Sequence[pa.DataType], inputs: Sequence[ViewOperator]) -> None:
        self.label = label
        self.schema = schema_of(types)
        self.inputs = tuple(inputs)
        self.seconds = 0.0
        self.given = 0

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Return what follows from the changes of the inputs, and change nothing that `abandon` does not undo.

        Parameters
        ----------
        flows
            The changes of each input.
        """
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether a step is made only if an input has changes: without any, it gives nothing and changes nothing."""
        return bool(self.inputs)

    def commit(self) -> None:
        """Hold what the last step found."""

    def abandon(self) -> None:
        """Forget what the last step found."""

    @property
    def held(self) -> tuple[HeldRows, ...]:
        """The rows that are held, and may go to disk."""
        return ()

    @property
    def rows(self) -> int:
        """How many rows, or groups, are held."""
        return 0

    @property
    def rows_on_disk(self) -> int:
        """How many rows of them are on disk."""
        pages = [held.arrangement.pages for held in self.held]
        return sum(0 if each is None else each.rows for each in pages)

    @property
    def fixed_bytes(self) -> int:
        """How much memory is taken by what cannot go to disk."""
        return 0

    @property
    def nbytes(self) -> int:
        """How much memory all takes that is held."""
        return self.fixed_bytes + sum(held.arrangement.nbytes for held in self.held)


def schema_of(types: Sequence[pa.DataType]) -> pa.Schema:
    """Return columns that are called by their places."""
    return pa.schema([(str(place), data_type) for place, data_type in enumerate(types)])


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as a batch."""
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)


def some_rows(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    """Return some rows of a batch."""
    return rows_of(batch, array_of(rows.astype(np.int64, copy=False), pa.int64()))


def as_one(flow: Flow, schema: pa.Schema) -> tuple[pa.RecordBatch, Ints]:
    """Return all changes in one batch."""
    if not flow:
        return pa.RecordBatch.from_pylist([], schema), np.zeros(0, np.int64)
    if len(flow) == 1:
        return flow[0]
    return joined_batches([batch for batch, _ in flow]), np.concatenate([weights for _, weights in flow])


def table_of(flow: Iterable[Change], schema: pa.Schema) -> pa.Table:
    """Return rows as a table, each as often as it is there."""
    batches = []
    for batch, weights in flow:
        rows = np.repeat(np.arange(batch.num_rows), weights)
        batches.append(batch if len(rows) == batch.num_rows else rows_of(batch, array_of(rows, pa.int64())))
    return pa.Table.from_batches(batches, schema)
