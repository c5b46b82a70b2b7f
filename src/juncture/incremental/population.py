"""Initial rows: partitioned by the hash of their key, and joined part by part.

Rows that match have one key, so they are in one part. A part is small enough that hash tables, sorting and row copies
stay in the CPU cache, and its memory is reused for the next one. The parts are in the order of the rows on disk, so
that each side becomes one sorted run without searching rows. Tables larger than memory are partitioned into files
first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import StateError
from juncture.incremental.operators.join_runtime import JoinRuntime
from juncture.incremental.state.arrangement import Delta
from juncture.incremental.state.pages import sorted_pieces
from juncture.incremental.state.policy import ROW_BYTES, MemoryPolicy
from juncture.incremental.state.records import weighted_schema
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.hash import order_by_code
from juncture.runtime.progress import Report
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.incremental.state.run_writer import RunWriter

Weighted = tuple[pa.RecordBatch, Ints]
"""Rows with weights."""

_BITS = 6
_PARTS = 1 << _BITS
_BITS_MOST = 8
_PART_ROWS = 1 << 18
"""Approximate number of rows of a part in memory."""

_SCATTERED_ROWS = 1 << 17


def gathered(changes: Iterator[Weighted], most_bytes: float) -> tuple[list[Weighted], float]:
    """Return changes up to about ``most_bytes``, and the bytes that remain: none if there may be more changes."""
    found = []
    for batch, weights in changes:
        found.append((batch, weights))
        most_bytes -= batch.nbytes + ROW_BYTES * batch.num_rows
        if most_bytes <= 0:
            break
    return found, most_bytes


def in_parts(kept: JoinRuntime, changes: Mapping[Side, Sequence[Weighted]]) -> Iterator[dict[Side, list[Weighted]]]:
    """Yield the rows of both sides part by part; all at once if they are few, or have no key."""
    rows = sum(batch.num_rows for side in SIDES for batch, _ in changes[side])
    bits = min((rows // _PART_ROWS).bit_length(), _BITS_MOST)
    if not bits or not kept.keys.are_any:
        yield {side: list(changes[side]) for side in SIDES}
        return
    ordered = {
        side: [(batch, weights, (weights == 1).all(), *_by_part(kept, side, batch, bits)) for batch, weights in given]
        for side, given in changes.items()
    }
    for part in range(1 << bits):
        found: dict[Side, list[Weighted]] = {side: [] for side in SIDES}
        for side in SIDES:
            for batch, weights, are_one, order, ends in ordered[side]:
                here = order[ends[part] : ends[part + 1]]
                if len(here):
                    own = weights[: len(here)] if are_one else weights[here]
                    found[side].append((rows_of(batch, array_of(here, pa.int32())), own))
        yield found


def _by_part(kept: JoinRuntime, side: Side, batch: pa.RecordBatch, bits: int) -> tuple[Codes, Ints]:
    """Return the rows of a batch in the order of their parts, and the start of each part, with the end."""
    part = (kept.hashes_of(side, batch) >> np.uint64(64 - bits)).astype(np.int32)
    ends = np.append(0, np.cumsum(np.bincount(part, minlength=1 << bits)))
    order = np.empty(len(part), np.int32)
    order_by_code(part, 0, ends[:-1].astype(np.int32), order)
    return order, ends


class Parted:
    """Loads initial rows that exceed memory in parts. The join has keys and no rows."""

    def __init__(self, kept: JoinRuntime, folder: Path, policy: MemoryPolicy, report: Report | None) -> None:
        self._kept = kept
        self._folder = folder
        self._policy = policy
        self._report = report

    def run(
        self,
        changes: Mapping[Side, Iterable[Weighted]],
        take: Callable[[Mapping[Side, Delta]], list[pa.RecordBatch]],
        writers: Mapping[Side, RunWriter],
    ) -> list[pa.RecordBatch]:
        """Load rows, and return the result, backed by a temporary file. ``take`` joins the rows of a part."""
        parts = self._folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        try:
            parts.mkdir()
            sizes = {side: self._scatter(side, changes[side], parts) for side in SIDES}
            total = sizes["left"] + sizes["right"]
            return self._joined(parts, total, take, writers)
        except OSError as error:
            raise StateError(
                f"State folder {self._folder} cannot be written: {error}. Check its permissions and the free disk "
                "space.",
                name="JN-STATE-WRITE",
            ) from error
        finally:
            shutil.rmtree(parts, ignore_errors=True)

    def _scatter(self, side: Side, changes: Iterable[Weighted], parts: Path) -> Ints:
        """Write the rows of a side in parts, and return the memory that each needs."""
        schema = weighted_schema(self._kept.arrangements[side].schema)
        sizes = np.zeros(_PARTS, np.int64)
        done = 0
        with ExitStack() as files:
            paths = [str(_path(parts, side, part)) for part in range(_PARTS)]
            writers = [files.enter_context(pa.ipc.new_stream(path, schema)) for path in paths]
            for batch, weights in _slices(changes):
                row_bytes = batch.nbytes // max(1, batch.num_rows) + ROW_BYTES
                order, ends = _by_part(self._kept, side, batch, _BITS)
                whole = pa.RecordBatch.from_arrays([*batch.columns, array_of(weights, pa.int64())], schema=schema)
                scattered = rows_of(whole, array_of(order, pa.int32()))
                counts = np.diff(ends)
                for part in np.flatnonzero(counts).tolist():
                    writers[part].write_batch(scattered.slice(ends[part], counts[part]))
                sizes += counts * row_bytes
                done += batch.num_rows
                self._notify(side, done, 0)
        self._notify(side, done, done)
        return sizes

    def _joined(
        self,
        parts: Path,
        sizes: Ints,
        take: Callable[[Mapping[Side, Delta]], list[pa.RecordBatch]],
        writers: Mapping[Side, RunWriter],
    ) -> list[pa.RecordBatch]:
        """Join the rows part by part."""
        path = parts / "answer.arrow"
        with ExitStack() as files:
            sink: pa.ipc.RecordBatchStreamWriter | None = None
            for some in _grouped(sizes, self._policy.piece_bytes):
                for batch in take({side: self._read(parts, side, some) for side in SIDES}):
                    if sink is None:
                        # Each part has its own dictionary, which a stream may replace and a file may not.
                        sink = files.enter_context(pa.ipc.new_stream(str(path), batch.schema))
                    sink.write_batch(batch)
                self._write(writers)
                self._notify("output", some.stop, _PARTS)
        if sink is None:
            return []
        with pa.memory_map(str(path)) as source:
            return list(pa.ipc.open_stream(source))

    def _read(self, parts: Path, side: Side, some: range) -> Delta:
        """Return the rows of some parts."""
        batches: list[pa.RecordBatch] = []
        for part in some:
            with pa.OSFile(str(_path(parts, side, part))) as file:
                batches += pa.ipc.open_stream(file)
            _path(parts, side, part).unlink()
        if not batches:
            return self._kept.nothing(side)
        weights = np.concatenate([np.asarray(batch.column(batch.num_columns - 1)) for batch in batches])
        names = self._kept.arrangements[side].schema.names
        return self._kept.summed_delta(side, [batch.select(names) for batch in batches], weights)

    def _write(self, writers: Mapping[Side, RunWriter]) -> None:
        """Write the rows in memory, and release them."""
        for side, arrangement in self._kept.arrangements.items():
            for run in arrangement.memory:
                for rows in sorted_pieces(run, self._kept.keys.hashes(run.groups), self._policy.batch_rows)[1]:
                    writers[side].add(rows)
            arrangement.memory = []
        self._kept.keys.forget()

    def _notify(self, phase: str, done: int, total: int) -> None:
        if self._report is not None:
            self._report(phase, done, total)


def _path(parts: Path, side: Side, part: int) -> Path:
    return parts / f"{side}-{part}.arrow"


def _slices(changes: Iterable[Weighted]) -> Iterator[Weighted]:
    """Yield rows in slices of limited size."""
    for batch, weights in changes:
        for first in range(0, batch.num_rows, _SCATTERED_ROWS):
            yield batch.slice(first, _SCATTERED_ROWS), weights[first : first + _SCATTERED_ROWS]


def _grouped(sizes: Ints, most: int) -> Iterator[range]:
    """Yield ranges of consecutive parts that fit in memory together."""
    first = 0
    for part in range(1, _PARTS + 1):
        if part == _PARTS or sizes[first : part + 1].sum() > most:
            yield range(first, part)
            first = part
