"""Stored rows of a bucket in Spark's state store. Each micro-batch writes only what it changes.

Rows are in batches, whose columns never change: they are written when a batch is created, and removed when the join
merges or drops it. The state of the rows, such as marks of matches, weights and counts, is stored separately, in
blocks. A micro-batch writes the blocks that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import StateError
from juncture.hosting.hosted_join import Bucket, State, StoredBatch
from juncture.spec.schema import SIDES, Side
from juncture.streams.checkpoint import from_ipc, to_ipc


class ValueMap(Protocol):
    """Values by name: a map in Spark's state store."""

    def getValue(self, key: tuple[str], /) -> Any:  # noqa: N802 - Spark's name
        """Return a value, or None."""

    def updateValue(self, key: tuple[str], value: tuple[bytes], /) -> None:  # noqa: N802 - Spark's name
        """Set a value."""

    def removeKey(self, key: tuple[str], /) -> None:  # noqa: N802 - Spark's name
        """Remove a value."""


@dataclass(frozen=True)
class ValueSizes:
    """Sizes of values in the state store: at most ``part_bytes`` of columns, and the state of ``block_rows`` rows."""

    part_bytes: int = 16 << 20
    block_rows: int = 1 << 10


@dataclass(frozen=True)
class _Written:
    """A batch in the state store: the number of values of its columns, its rows in the bucket, and its state."""

    number: int
    parts: int
    stored: StoredBatch
    state: State


class StoredRows:
    """The stored rows of one bucket. ``manifest`` is what `write` returned last."""

    def __init__(
        self, values: ValueMap, manifest: Mapping[str, Any], state_type: npt.DTypeLike, sizes: ValueSizes
    ) -> None:
        self._values = values
        self._next: int = manifest.get("next", 0)
        self._manifest: dict[Side, list[list[int]]] = {side: manifest.get(side, []) for side in SIDES}
        self._type = np.dtype(state_type)
        self._sizes = sizes
        self._written: dict[Side, list[_Written]] = {"left": [], "right": []}

    def read(self, bucket: Bucket) -> None:
        """Load the rows into a bucket."""
        for side in SIDES:
            for number, parts, rows in self._manifest[side]:
                batch = from_ipc(b"".join(self._read(number, map(str, range(parts)), side))).to_batches()[0]
                blocks = self._read(number, self._blocks(rows), side)
                starts = range(0, rows, self._sizes.block_rows)
                state = np.concatenate(
                    [
                        _decoded(block, min(self._sizes.block_rows, rows - first), self._type)
                        for block, first in zip(blocks, starts, strict=True)
                    ],
                    axis=1,
                )
                living = np.flatnonzero(state[0])
                rows_alive = batch if len(living) == rows else rows_of(batch, array_of(living, pa.int64()))
                stored = bucket.load(side, rows_alive, state[:, living])
                stored = replace(stored, positions=living[stored.positions])
                self._written[side].append(_Written(number, parts, stored, state))

    def write(self, bucket: Bucket) -> dict[str, Any]:
        """Write the changes of the bucket, and return as plain data what `read` needs."""
        return {side: list(self._manifest_of(side, bucket)) for side in SIDES} | {"next": self._next}

    def _manifest_of(self, side: Side, bucket: Bucket) -> Iterator[list[int]]:
        """Write the batches of a side, and yield what `read` needs of each."""
        known = {id(each.stored.source): each for each in self._written[side]}
        for stored in bucket.batches(side):
            living = np.flatnonzero(stored.state[0])
            if not len(living):
                continue
            written = known.pop(id(stored.source), None)
            if written is None:
                number, self._next = self._next, self._next + 1
                parts = self._write_rows(number, bucket.rows(stored, living))
                self._write_state(number, stored.state[:, living], None)
                yield [number, parts, len(living)]
                continue
            # Rows that were deleted before are not in the bucket.
            state = np.zeros_like(written.state)
            state[:, written.stored.positions] = stored.state
            self._write_state(written.number, state, written.state)
            yield [written.number, written.parts, state.shape[1]]
        for written in known.values():
            for name in (*self._blocks(written.state.shape[1]), *map(str, range(written.parts))):
                self._values.removeKey((f"{written.number} {name}",))

    def _write_rows(self, number: int, rows: pa.RecordBatch) -> int:
        """Write the columns of a batch, and return the number of parts."""
        data, size = to_ipc(pa.Table.from_batches([rows])).to_pybytes(), self._sizes.part_bytes
        starts = range(0, len(data), size)
        for part, start in enumerate(starts):
            self._values.updateValue((f"{number} {part}",), (data[start : start + size],))
        return len(starts)

    def _write_state(self, number: int, state: State, before: State | None) -> None:
        for block, name in enumerate(self._blocks(state.shape[1])):
            here = slice(block * self._sizes.block_rows, (block + 1) * self._sizes.block_rows)
            if before is None or not np.array_equal(state[:, here], before[:, here]):
                self._values.updateValue((f"{number} {name}",), (_encoded(state[:, here]),))

    def _blocks(self, rows: int) -> list[str]:
        """Return the names of the blocks of ``rows`` rows."""
        return [f"state {block}" for block in range(-(-rows // self._sizes.block_rows))]

    def _read(self, number: int, names: Iterable[str], side: Side) -> list[bytes]:
        values = [self._values.getValue((f"{number} {name}",)) for name in names]
        if None in values:
            raise StateError(
                f"The state in the checkpoint of this query is damaged: a part of the {side} rows is missing. Start "
                "the query with a new checkpoint and output.",
                name="JN-STATE-DAMAGED",
            )
        return [value for [value] in values]


def _encoded(state: State) -> bytes:
    """Return state as bytes; masks with a bit per row."""
    return (np.packbits(state, axis=1) if state.dtype == np.bool_ else state).tobytes()


def _decoded(data: bytes, rows: int, of: np.dtype[Any]) -> State:
    if of != np.bool_:
        return np.frombuffer(data, of).reshape(-1, rows)
    packed = np.frombuffer(data, np.uint8).reshape(-1, -(-rows // 8))
    return np.unpackbits(packed, axis=1, count=rows).astype(np.bool_)
