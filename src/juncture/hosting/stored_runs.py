"""Stored rows of a bucket of changes in Spark's state store. Each micro-batch writes only what it changes.

Rows are in runs. The columns of a run never change: they are written when it is created, and removed when it is merged.
Weights and match counts are stored separately, in blocks. A micro-batch writes the blocks that it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from juncture.hosting.cells import Table as Cells
from juncture.hosting.cells import put_rows, remove, rows_put, values_of
from juncture.hosting.change_bucket import BucketChanges, BucketRun, Table
from juncture.incremental.state.records import unweighted, weighted
from juncture.spec.schema import SIDES, Side

_BLOCK_ROWS = 1 << 10


@dataclass(frozen=True)
class _Written:
    """A run in the state store: the number of values of its columns, the run in memory, and its written state."""

    number: int
    parts: int
    held: BucketRun
    state: Table

    @property
    def names(self) -> list[str | int]:
        """Names of its values."""
        return [*_blocks(self.state.shape[1]), *range(self.parts)]


class StoredRuns:
    """The stored rows of one bucket. ``manifest`` is what `write` returned last."""

    def __init__(self, cells: Cells, manifest: Mapping[str, Any]) -> None:
        self._cells = cells
        self._next: int = manifest.get("next", 0)
        self._manifest: dict[Side, list[list[int]]] = {side: manifest.get(side, []) for side in SIDES}
        self._written: dict[Side, list[_Written]] = {"left": [], "right": []}

    def read(self, join: BucketChanges) -> None:
        """Load the rows into a join."""
        for side in SIDES:
            for number, parts, rows in self._manifest[side]:
                batch, hashes = unweighted(rows_put(self._cells, number, parts, side))
                blocks = values_of(self._cells, number, _blocks(rows), side)
                state = np.concatenate(
                    [
                        np.frombuffer(block, np.int64).reshape(-1, min(_BLOCK_ROWS, rows - first))
                        for block, first in zip(blocks, range(0, rows, _BLOCK_ROWS), strict=True)
                    ],
                    axis=1,
                )
                held = join.load(side, batch, hashes, state)
                self._written[side].append(_Written(number, parts, held, state))

    def write(self, join: BucketChanges) -> dict[str, Any]:
        """Write the changes of the join, and return as plain data what `read` needs."""
        return {side: list(self._kept(side, join)) for side in SIDES} | {"next": self._next}

    def _kept(self, side: Side, join: BucketChanges) -> Iterator[list[int]]:
        """Write the runs of a side, and yield what `read` needs of each."""
        known = {id(each.held.run): each for each in self._written[side]}
        for run in join.runs(side):
            if not run.weights.any():
                # All rows are deleted.
                continue
            written = known.pop(id(run), None)
            rows = len(run)
            if written is None:
                number, self._next = self._next, self._next + 1
                parts = put_rows(self._cells, number, weighted(run.taken(np.arange(rows)), run.hashes))
                self._put_state(number, BucketRun(run, np.arange(rows)).state, None)
                yield [number, parts, rows]
                continue
            self._put_state(written.number, written.held.state, written.state)
            yield [written.number, written.parts, rows]
        for written in known.values():
            remove(self._cells, written.number, written.names)

    def _put_state(self, number: int, state: Table, before: Table | None) -> None:
        """Write the blocks of a run's state that have changed."""
        for block, name in enumerate(_blocks(state.shape[1])):
            here = slice(block * _BLOCK_ROWS, (block + 1) * _BLOCK_ROWS)
            if before is None or not np.array_equal(state[:, here], before[:, here]):
                self._cells.updateValue((f"{number} {name}",), (state[:, here].tobytes(),))


def _blocks(rows: int) -> list[str]:
    """Return the names of the blocks of ``rows`` rows."""
    return [f"state {block}" for block in range(-(-rows // _BLOCK_ROWS))]
