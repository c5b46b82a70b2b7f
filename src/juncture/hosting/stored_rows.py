"""Stored rows of a bucket in Spark's state store. Each micro-batch writes only what it changes.

The operator stores rows in batches. Only two marks of each row change: whether it is alive, and whether it has had a
match. So a batch is written when it is created, its marks (two bits per row) when they change, and it is removed when
the operator merges or drops it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.hosting.cells import Table, put_rows, remove, rows_put, values_of
from juncture.hosting.stream_bucket import BucketJoin
from juncture.kernels.array_types import Mask
from juncture.spec.schema import SIDES, Side
from juncture.streams.state.state_batch import StateBatch


@dataclass(frozen=True)
class _Written:
    """A batch in the state store.

    Attributes
    ----------
    parts
        Number of values that contain its rows.
    batch
        Its living rows, as the operator loaded them.
    alive, matched
        Masks of all its rows.
    """

    number: int
    parts: int
    batch: pa.RecordBatch
    alive: Mask
    matched: Mask

    def marks(self, held: StateBatch) -> tuple[Mask, Mask]:
        """Return the current masks of all rows, given those of the loaded rows."""
        places = np.flatnonzero(self.alive)
        alive, matched = np.zeros(len(self.alive), np.bool_), self.matched.copy()
        alive[places] = held.alive
        matched[places] = held.matched
        return alive, matched


class StoredRows:
    """The stored rows of one bucket. ``manifest`` is what `write` returned last."""

    def __init__(self, table: Table, manifest: Mapping[str, Any]) -> None:
        self._table = table
        self._next: int = manifest.get("next", 0)
        self._manifest: dict[Side, list[list[int]]] = {side: manifest.get(side, []) for side in SIDES}
        self._written: dict[Side, list[_Written]] = {"left": [], "right": []}

    def read(self, join: BucketJoin) -> None:
        """Load the rows into a join."""
        for side in SIDES:
            for number, parts, rows in self._manifest[side]:
                written = self._batch(side, number, parts, rows)
                self._written[side].append(written)
                join.load(side, written.batch, written.matched[written.alive])

    def write(self, join: BucketJoin) -> dict[str, Any]:
        """Write the changes of the join, and return as plain data what `read` needs."""
        return {side: list(self._kept(side, join.held(side))) for side in SIDES} | {"next": self._next}

    def _kept(self, side: Side, batches: Iterable[StateBatch]) -> Iterator[list[int]]:
        """Write the batches of a side, and yield what `read` needs of each."""
        known = {id(each.batch): each for each in self._written[side]}
        for held in batches:
            written = known.pop(id(held.batch), None)
            if written is None:
                yield self._add(held)
                continue
            alive, matched = written.marks(held)
            if not (np.array_equal(alive, written.alive) and np.array_equal(matched, written.matched)):
                self._mark(written.number, alive, matched)
            yield [written.number, written.parts, len(alive)]
        for written in known.values():
            remove(self._table, written.number, ("marks", *range(written.parts)))

    def _add(self, held: StateBatch) -> list[int]:
        """Write a new batch."""
        number, self._next = self._next, self._next + 1
        rows = _selected(held.batch, held.alive)
        parts = put_rows(self._table, number, rows)
        self._mark(number, np.ones(rows.num_rows, np.bool_), held.matched[held.alive])
        return [number, parts, rows.num_rows]

    def _mark(self, number: int, alive: Mask, matched: Mask) -> None:
        marks = np.concatenate([np.packbits(alive), np.packbits(matched)])
        self._table.updateValue((f"{number} marks",), (marks.tobytes(),))

    def _batch(self, side: Side, number: int, parts: int, rows: int) -> _Written:
        """Read a batch."""
        [marks] = values_of(self._table, number, ["marks"], side)
        batch = rows_put(self._table, number, parts, side)
        alive, matched = (
            np.unpackbits(each, count=rows).astype(np.bool_) for each in np.frombuffer(marks, np.uint8).reshape(2, -1)
        )
        return _Written(number, parts, _selected(batch, alive), alive, matched)


def _selected(batch: pa.RecordBatch, wanted: Mask) -> pa.RecordBatch:
    """Return some rows of a batch; the batch itself for all rows."""
    return batch if wanted.all() else rows_of(batch, array_of(np.flatnonzero(wanted), pa.int64()))
