"""The first rows of a join: partitioned by the hash of their key, and joined part by part.

Rows that match have one key, so they are in one part. A part is small enough that hash tables, sorting and row copies
stay in the CPU cache, and its memory is reused for the next one. Rows that fit in memory become one run there, with an
unsorted copy on disk, because sorting would take as long as joining. Tables larger than memory are partitioned into
files first. Their parts are in the order of the rows on disk, so that each side becomes one sorted run.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.errors import StateError
from juncture.incremental.operators.operator import Change, Flow
from juncture.incremental.operators.stored_join import JoinSide, StoredJoinOperator
from juncture.incremental.runtime import ANSWER, Batches, Runtime
from juncture.incremental.state.pages import loose_pieces, sorted_pieces
from juncture.incremental.state.policy import ROW_BYTES
from juncture.incremental.state.records import unweighted, weighted, weighted_schema
from juncture.incremental.state.run import RunConcatenator
from juncture.incremental.state.tables import StateTables
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.hash import order_by_code
from juncture.runtime.progress import Report
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from juncture.incremental.state.run_writer import RunWriter

_BITS = 6
_PARTS = 1 << _BITS
_BITS_MOST = 8
_PART_ROWS = 1 << 18
"""Approximate number of rows of a part in memory."""

_SCATTERED_ROWS = 1 << 17


class JoinLoader:
    """Loads the first rows of a join for `Runtime.populate`. ``write`` returns rows, maybe equal, as users get them."""

    def __init__(
        self, runtime: Runtime, write: Callable[[Iterable[Change]], list[pa.RecordBatch]], report: Report | None
    ) -> None:
        join = runtime.flow.graph.answers[ANSWER]
        assert isinstance(join, StoredJoinOperator)
        self._runtime = runtime
        self._join = join
        self._write = write
        self._report = report

    def __call__(self, streams: Mapping[str, Iterable[Change]], locate: Callable[[str, Flow], Flow]) -> Batches:
        """Return the rows of the result, in a temporary file if the tables exceed the memory."""
        changes: dict[Side, Iterator[Change]] = {side: iter(streams[side]) for side in SIDES}
        taken: dict[Side, Flow] = {side: [] for side in SIDES}
        tables, keys = self._runtime.tables, self._join.keys
        # Rows without a key cannot be partitioned.
        left_bytes = math.inf if tables is None or not keys.are_any else tables.policy.initial_bytes
        for side in SIDES:
            if left_bytes > 0:
                taken[side], left_bytes = _gathered(changes[side], left_bytes)
        if left_bytes > 0:
            answer = self._load_in_memory(taken, locate)
        else:
            assert tables is not None
            parts = {side: chain(taken[side], changes[side]) for side in SIDES}
            answer = self._load_in_files(tables, parts, locate)
        self._join.commit()
        return {ANSWER: answer}

    def _load_part(self, part: Mapping[Side, Flow], locate: Callable[[str, Flow], Flow]) -> list[pa.RecordBatch]:
        """Load some of the rows, whose keys no other part has, and return their result."""
        return self._write(self._join.step([locate(side, part[side]) for side in SIDES]))

    # In memory

    def _load_in_memory(
        self, changes: Mapping[Side, Flow], locate: Callable[[str, Flow], Flow]
    ) -> list[pa.RecordBatch]:
        tables, answer = self._runtime.tables, []
        writers = {} if tables is None else {side: tables.writer(is_sorted=False) for side in SIDES}
        joined = {side: self._concatenator(side, changes[side]) for side in SIDES}
        for part in _in_parts(self._join, changes):
            answer += self._load_part(part, locate)
            for side, each in self._join.sides.items():
                # Rows of other parts have other keys.
                for run in each.arrangement.memory:
                    joined[side].add(run)
                    if tables is not None:
                        for rows in loose_pieces(run, tables.policy.batch_rows):
                            writers[side].add(rows)
                each.arrangement.memory = []
        for side, each in self._join.sides.items():
            with self._runtime.one_epoch(side):
                whole = joined[side].run()
            each.arrangement.memory = [] if whole is None else [whole[0]]
            if tables is not None:
                tables.take_in(each.arrangement, writers[side], whole)
        return answer

    def _concatenator(self, side: Side, changes: Flow) -> RunConcatenator:
        """Return what concatenates the rows of a side into one run."""
        own = self._join.sides[side]
        batches = [batch for batch, _ in changes]
        has_all = [all(not batch.column(place).null_count for batch in batches) for place in range(len(own.schema))]
        lines = len(own.nothing.codes), own.arrangement.lines
        rows = sum(batch.num_rows for batch in batches)
        return RunConcatenator(rows, own.schema, has_all, lines, own.arrangement.matching)

    # In files

    def _load_in_files(
        self, tables: StateTables, changes: Mapping[Side, Iterable[Change]], locate: Callable[[str, Flow], Flow]
    ) -> list[pa.RecordBatch]:
        writers = {side: tables.writer(is_sorted=True) for side in SIDES}
        parts = tables.folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        try:
            parts.mkdir()
            sizes = {side: self._scatter(side, changes[side], parts) for side in SIDES}
            total = sizes["left"] + sizes["right"]
            answer = self._load_files(parts, _grouped(total, tables.piece_bytes), locate, writers, tables)
        except OSError as error:
            raise StateError(
                f"State folder {tables.folder} cannot be written: {error}. Check its permissions and the free disk "
                "space.",
                name="JN-STATE-WRITE",
            ) from error
        finally:
            shutil.rmtree(parts, ignore_errors=True)
        for side, each in self._join.sides.items():
            tables.take_in(each.arrangement, writers[side])
        return answer

    def _scatter(self, side: Side, changes: Iterable[Change], parts: Path) -> Ints:
        """Write the rows of a side in parts, and return the memory that each needs."""
        schema = weighted_schema(self._join.sides[side].schema)
        sizes = np.zeros(_PARTS, np.int64)
        done = 0
        with ExitStack() as files:
            paths = [str(_path(parts, side, part)) for part in range(_PARTS)]
            writers = [files.enter_context(pa.ipc.new_stream(path, schema)) for path in paths]
            for batch, weights in _slices(changes):
                row_bytes = batch.nbytes // max(1, batch.num_rows) + ROW_BYTES
                order, ends = _by_part(self._join.sides[side], batch, _BITS)
                scattered = rows_of(weighted(batch, weights), array_of(order, pa.int32()))
                counts = np.diff(ends)
                for part in np.flatnonzero(counts).tolist():
                    writers[part].write_batch(scattered.slice(ends[part], counts[part]))
                sizes += counts * row_bytes
                done += batch.num_rows
                self._notify(side, done, 0)
        self._notify(side, done, done)
        return sizes

    def _load_files(
        self,
        parts: Path,
        groups: Iterable[range],
        locate: Callable[[str, Flow], Flow],
        writers: Mapping[Side, RunWriter],
        tables: StateTables,
    ) -> list[pa.RecordBatch]:
        """Join the rows part by part."""
        path = parts / "answer.arrow"
        with ExitStack() as files:
            sink: pa.ipc.RecordBatchStreamWriter | None = None
            for some in groups:
                for batch in self._load_part({side: _read(parts, side, some) for side in SIDES}, locate):
                    if sink is None:
                        # Each part has its own dictionary, which a stream may replace and a file may not.
                        sink = files.enter_context(pa.ipc.new_stream(str(path), batch.schema))
                    sink.write_batch(batch)
                self._spill(writers, tables.policy.batch_rows)
                self._notify("output", some.stop, _PARTS)
        if sink is None:
            return []
        with pa.memory_map(str(path)) as source:
            return list(pa.ipc.open_stream(source))

    def _spill(self, writers: Mapping[Side, RunWriter], batch_rows: int) -> None:
        """Write the rows in memory, and release them."""
        for side, each in self._join.sides.items():
            for run in each.arrangement.memory:
                for rows in sorted_pieces(run, each.key_hashes(run), batch_rows)[1]:
                    writers[side].add(rows)
            each.arrangement.memory = []
        self._join.keys.forget()

    def _notify(self, phase: str, done: int, total: int) -> None:
        if self._report is not None:
            self._report(phase, done, total)


def _gathered(changes: Iterator[Change], most_bytes: float) -> tuple[Flow, float]:
    """Return changes up to about ``most_bytes``, and the bytes that remain: none if there may be more changes."""
    found = []
    for batch, weights in changes:
        found.append((batch, weights))
        most_bytes -= batch.nbytes + ROW_BYTES * batch.num_rows
        if most_bytes <= 0:
            break
    return found, most_bytes


def _in_parts(join: StoredJoinOperator, changes: Mapping[Side, Sequence[Change]]) -> Iterator[dict[Side, Flow]]:
    """Yield the rows of both sides part by part; all at once if they are few, or have no key."""
    rows = sum(batch.num_rows for side in SIDES for batch, _ in changes[side])
    bits = min((rows // _PART_ROWS).bit_length(), _BITS_MOST)
    if not bits or not join.keys.are_any:
        yield {side: list(changes[side]) for side in SIDES}
        return
    ordered = {
        side: [(*change, (change[1] == 1).all(), *_by_part(join.sides[side], change[0], bits)) for change in flow]
        for side, flow in changes.items()
    }
    for part in range(1 << bits):
        found: dict[Side, Flow] = {side: [] for side in SIDES}
        for side in SIDES:
            for batch, weights, are_one, order, ends in ordered[side]:
                here = order[ends[part] : ends[part + 1]]
                if len(here):
                    own = weights[: len(here)] if are_one else weights[here]
                    found[side].append((rows_of(batch, array_of(here, pa.int32())), own))
        yield found


def _by_part(side: JoinSide, batch: pa.RecordBatch, bits: int) -> tuple[Codes, Ints]:
    """Return the rows of a batch in the order of their parts, and the start of each part, with the end."""
    part = (side.hashes_of(batch) >> np.uint64(64 - bits)).astype(np.int32)
    ends = np.append(0, np.cumsum(np.bincount(part, minlength=1 << bits)))
    order = np.empty(len(part), np.int32)
    order_by_code(part, 0, ends[:-1].astype(np.int32), order)
    return order, ends


def _path(parts: Path, side: Side, part: int) -> Path:
    return parts / f"{side}-{part}.arrow"


def _read(parts: Path, side: Side, some: range) -> Flow:
    """Return the rows of some parts, and remove their files."""
    flow: Flow = []
    for part in some:
        with pa.OSFile(str(_path(parts, side, part))) as file:
            flow += map(unweighted, pa.ipc.open_stream(file))
        _path(parts, side, part).unlink()
    return flow


def _slices(changes: Iterable[Change]) -> Iterator[Change]:
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
