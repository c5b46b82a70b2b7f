"""Stored rows of a bucket in Spark's state store. Each micro-batch writes only what it changes.

Rows are in batches, whose columns never change: they are written when a batch is created, and removed when the join
merges or drops it. The state of the rows, such as marks of matches, weights and counts, is stored separately, in
blocks. A micro-batch writes the blocks that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import StateError
from juncture.hosting.hosted_join import Bucket, Name, State, StoredBatch
from juncture.kernels.array_types import Ints
from juncture.streams.checkpoint import from_ipc, to_ipc
from juncture.streams.state.segment import freeze


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
    """Sizes of values in the state store: at most ``part_bytes`` of columns, and the state of ``block_rows`` rows.

    A bucket with at least ``decoded_rows`` is also kept decoded.
    """

    part_bytes: int = 16 << 20
    block_rows: int = 1 << 10
    decoded_rows: int = 1 << 15


@dataclass(frozen=True)
class _Written:
    """A batch in the state store: the number of values of its columns, and its state."""

    number: int
    parts: int
    source: object  # the same rows in the bucket
    positions: Ints | None  # of these rows in the batch; -1 if it is not there; None for 0, 1, 2 and so on
    state: State
    version: int | None  # of the state, as in `StoredBatch`

    @property
    def rows(self) -> int:
        """Number of rows, including deleted ones."""
        return int(self.state.shape[1])

    def updated(self, stored: StoredBatch) -> _Written:
        """Return the batch with the state that its rows have now."""
        if self.version is not None and self.version == stored.version:
            return self
        state = stored.state()
        if self.positions is not None:
            here = np.flatnonzero(self.positions >= 0)
            written = cast("State", np.zeros((len(state), self.rows), state.dtype))
            written[:, self.positions[here]] = state[:, here]
            state = written
        freeze(state)
        return replace(self, state=state, version=stored.version)


class StoredRows:
    """The stored rows of one bucket."""

    def __init__(self, values: ValueMap, state_type: npt.DTypeLike, sizes: ValueSizes) -> None:
        self._values = values
        self._next = 0
        self._type = np.dtype(state_type)
        self._sizes = sizes
        self._written: dict[str, list[_Written]] = {}

    @property
    def rows(self) -> int:
        """Number of rows, including deleted ones."""
        return sum(each.rows for written in self._written.values() for each in written)

    def read(self, bucket: Bucket[Name], manifest: Mapping[str, Any]) -> None:
        """Load the rows into a bucket. ``manifest`` is what `write` returned last."""
        self._next = manifest.get("next", 0)
        for name in bucket.names:
            self._written[name] = []
            for number, parts, rows in manifest.get(name, []):
                batch = from_ipc(b"".join(self._read(number, map(str, range(parts)), name))).to_batches()[0]
                blocks = self._read(number, self._blocks(rows), name)
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
                loaded = bucket.load(name, rows_alive, state[:, living])
                positions = living if loaded.positions is None else living[loaded.positions]
                freeze(state, positions)
                self._written[name].append(_Written(number, parts, loaded.source, positions, state, None))

    def write(self, bucket: Bucket[Name]) -> dict[str, Any]:
        """Write the changes of the bucket, and return as plain data what `read` needs."""
        self._written = {name: list(self._write_table(name, bucket)) for name in bucket.names}
        manifest = {
            name: [[each.number, each.parts, each.rows] for each in written] for name, written in self._written.items()
        }
        return manifest | {"next": self._next}

    def _write_table(self, name: Name, bucket: Bucket[Name]) -> Iterator[_Written]:
        """Write the batches of a table, and yield them."""
        known = {id(each.source): each for each in self._written[name]}
        for stored in bucket.batches(name):
            before = known.pop(id(stored.source), None)
            if before is None:
                state = stored.state()
                living = np.flatnonzero(state[0])
                if len(living):
                    yield self._write_new(stored, state, living, bucket)
                continue
            written = before.updated(stored)
            if written is not before:
                if not written.state[0].any():
                    known[id(stored.source)] = before
                    continue
                self._write_state(written.number, written.state, before.state)
            yield written
        for written in known.values():
            for part in (*self._blocks(written.rows), *map(str, range(written.parts))):
                self._values.removeKey((f"{written.number} {part}",))

    def _write_new(self, stored: StoredBatch, state: State, living: Ints, bucket: Bucket[Name]) -> _Written:
        """Write the living rows of a batch that is not in the state store."""
        number, self._next = self._next, self._next + 1
        parts = self._write_rows(number, bucket.rows(stored, living))
        positions = None
        if len(living) < state.shape[1]:
            positions = np.full(state.shape[1], -1)
            positions[living] = np.arange(len(living))
            state = state[:, living]
            freeze(positions)
        freeze(state)
        self._write_state(number, state, None)
        return _Written(number, parts, stored.source, positions, state, stored.version)

    def _write_rows(self, number: int, rows: pa.RecordBatch) -> int:
        """Write the columns of a batch, and return the number of parts."""
        data, size = to_ipc(pa.Table.from_batches([rows])).to_pybytes(), self._sizes.part_bytes
        starts = range(0, len(data), size)
        for part, start in enumerate(starts):
            self._values.updateValue((f"{number} {part}",), (data[start : start + size],))
        return len(starts)

    def _write_state(self, number: int, state: State, before: State | None) -> None:
        """Write the blocks of the state that differ from those before."""
        names, size = self._blocks(state.shape[1]), self._sizes.block_rows
        changed = np.arange(len(names))
        # The states of groups get more lines when their sums get more digits.
        if before is not None and len(before) == len(state):
            changed = np.unique(np.flatnonzero((state != before).any(axis=0)) // size)
        for block in changed.tolist():
            self._values.updateValue((f"{number} {names[block]}",), (_encoded(state[:, block * size :][:, :size]),))

    def _blocks(self, rows: int) -> list[str]:
        """Return the names of the blocks of ``rows`` rows."""
        return [f"state {block}" for block in range(-(-rows // self._sizes.block_rows))]

    def _read(self, number: int, names: Iterable[str], table: str) -> list[bytes]:
        values = [self._values.getValue((f"{number} {name}",)) for name in names]
        if None in values:
            raise StateError(
                f"The state in the checkpoint of this query is damaged: a part of the {table} rows is missing. Start "
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
