"""The first rows of tables that are larger than memory: parted by the hash of their key, and joined part by part.

Rows that match have one key, so they are in one part. The parts come in the order in which rows lie on disk, so that
each side becomes one sorted run, and no row is looked up.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import StateError
from juncture.incremental.answer import Changes
from juncture.incremental.arrangement import Delta, Journal
from juncture.incremental.operator import SIDES, Deltas, KeptJoin
from juncture.incremental.store.pages import stored_pieces
from juncture.incremental.store.saved import Writer, weighted_schema
from juncture.kernels.array_types import Ints
from juncture.runtime.progress import Report
from juncture.spec.schema import Side

Weighted = tuple[pa.RecordBatch, Ints]
"""Rows with weights."""

_BITS = 6
_PARTS = 1 << _BITS
_SCATTERED_ROWS = 1 << 17
_ROW_BYTES = 60
"""What a row in memory takes besides its columns, about."""

_AT_ONCE = 1 / 16
"""What rows that are joined at once may take of the memory: they are there some times over."""


def gathered(changes: Iterator[Weighted], most_bytes: float) -> tuple[list[Weighted], float]:
    """Return changes up to about so many bytes, and how many are left of these: none if there may be more changes."""
    found = []
    for batch, weights in changes:
        found.append((batch, weights))
        most_bytes -= batch.nbytes + _ROW_BYTES * batch.num_rows
        if most_bytes <= 0:
            break
    return found, most_bytes


class Parted:
    """Takes the first rows of a join by parts.

    Parameters
    ----------
    kept
        The join, which has a key and no rows.
    folder
        Where files may be written.
    memory_bytes
        How much memory to take.
    report
        Is told how far it is.
    """

    def __init__(self, kept: KeptJoin, folder: Path, memory_bytes: int, report: Report | None) -> None:
        self._kept = kept
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._report = report

    def run(
        self,
        changes: Mapping[Side, Iterable[Weighted]],
        located: Callable[[Mapping[Side, Delta]], Deltas],
        writers: Mapping[Side, Writer],
        answer: Callable[[Changes], Iterator[pa.RecordBatch]],
    ) -> list[pa.RecordBatch]:
        """Take rows, and return the answer, whose memory is a file that is gone with it.

        Parameters
        ----------
        changes
            The rows of both sides.
        located
            Finds what changes do, as `Arrangement.locate`.
        writers
            Where the rows of each side go.
        answer
            Makes rows of the answer.
        """
        parts = self._folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        try:
            parts.mkdir()
            sizes = {side: self._scatter(side, changes[side], parts) for side in SIDES}
            total = sizes["left"] + sizes["right"]
            return self._joined(parts, total, located, writers, answer)
        except OSError as error:
            raise StateError(f"The state cannot be written to {self._folder}: {error}.") from error
        finally:
            shutil.rmtree(parts, ignore_errors=True)

    def _scatter(self, side: Side, changes: Iterable[Weighted], parts: Path) -> Ints:
        """Write the rows of a side by parts, and return how much memory each takes."""
        schema = weighted_schema(self._kept.arrangements[side].schema)
        sizes = np.zeros(_PARTS, np.int64)
        done = 0
        with ExitStack() as files:
            paths = [str(_path(parts, side, part)) for part in range(_PARTS)]
            writers = [files.enter_context(pa.ipc.new_stream(path, schema)) for path in paths]
            for batch, weights in _slices(changes):
                part = (self._kept.hashes_of(side, batch) >> np.uint64(64 - _BITS)).astype(np.uint8)
                order = array_of(np.argsort(part, kind="stable"), pa.int64())
                whole = pa.RecordBatch.from_arrays([*batch.columns, array_of(weights, pa.int64())], schema=schema)
                scattered = rows_of(whole, order)
                counts = np.bincount(part, minlength=_PARTS)
                for number in np.flatnonzero(counts).tolist():
                    first = int(counts[:number].sum())
                    writers[number].write_batch(scattered.slice(first, int(counts[number])))
                sizes += counts * (batch.nbytes // max(1, batch.num_rows) + _ROW_BYTES)
                done += batch.num_rows
                self._tell(side, done, 0)
        self._tell(side, done, done)
        return sizes

    def _joined(
        self,
        parts: Path,
        sizes: Ints,
        located: Callable[[Mapping[Side, Delta]], Deltas],
        writers: Mapping[Side, Writer],
        answer: Callable[[Changes], Iterator[pa.RecordBatch]],
    ) -> list[pa.RecordBatch]:
        """Join the rows part by part."""
        path = parts / "answer.arrow"
        with ExitStack() as files:
            sink: pa.ipc.RecordBatchFileWriter | None = None
            for some in _grouped(sizes, int(self._memory_bytes * _AT_ONCE)):
                deltas = located({side: self._read(parts, side, some) for side in SIDES})
                changes = Changes()
                self._kept.operator.populate(deltas, Journal(), changes)
                for batch in answer(changes):
                    if sink is None:
                        sink = files.enter_context(pa.ipc.new_file(str(path), batch.schema))
                    sink.write_batch(batch)
                self._write(writers)
                self._tell("output", some.stop, _PARTS)
        if sink is None:
            return []
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            return [reader.get_batch(number) for number in range(reader.num_record_batches)]

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

    def _write(self, writers: Mapping[Side, Writer]) -> None:
        """Write the rows that are in memory, and let go of them."""
        for side, arrangement in self._kept.arrangements.items():
            for run in arrangement.memory:
                for rows in stored_pieces(run, self._kept.keys, is_sorted=True):
                    writers[side].add(rows)
            arrangement.memory = []
        self._kept.keys.forget()

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._report is not None:
            self._report(phase, done, total)


def _path(parts: Path, side: Side, part: int) -> Path:
    return parts / f"{side}-{part}.arrow"


def _slices(changes: Iterable[Weighted]) -> Iterator[Weighted]:
    """Yield rows, not too many at a time."""
    for batch, weights in changes:
        for first in range(0, batch.num_rows, _SCATTERED_ROWS):
            yield batch.slice(first, _SCATTERED_ROWS), weights[first : first + _SCATTERED_ROWS]


def _grouped(sizes: Ints, most: int) -> Iterator[range]:
    """Yield parts that follow each other and are not too large together."""
    first = 0
    for part in range(1, _PARTS + 1):
        if part == _PARTS or sizes[first : part + 1].sum() > most:
            yield range(first, part)
            first = part
