"""The first rows of a maintained query. Rows that exceed the memory are loaded in stages, and each stage in parts.

A stage has operators that read the same stored rows, such as a join and its arranged inputs. It begins when the stages
before it have passed all of their rows to it. These are in files by the hash of the key by which the stage stores them.
A part of the hashes fits in memory, and no other part has its keys. So no stored row is looked up, each group is
emitted once, and the rows of each table become one run in the order on disk. Stages without such a key load their rows
piece by piece, as if each piece were an epoch.

Rows that fit in memory are one epoch. A join also divides these into parts: a part is small enough that hash tables,
sorting and row copies stay in the CPU cache, and its memory is reused for the next one. Its rows become one run in
memory with an unsorted copy on disk, because sorting would take as long as joining.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, rows_of
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches, ChangesByName
from juncture.incremental.changes.identity import consolidated
from juncture.incremental.dataflow import ANSWER, Batches, Dataflow, one_epoch
from juncture.incremental.operators.stored_join import StoredJoinOperator
from juncture.incremental.pieces import PieceSize, pieces
from juncture.incremental.stages import Hashes, Stage, stages_of
from juncture.incremental.state.pages import loose_pieces
from juncture.incremental.state.policy import ROW_BYTES
from juncture.incremental.state.records import unweighted, weighted
from juncture.incremental.state.run import RunConcatenator
from juncture.incremental.state.tables import StateTables
from juncture.kernels.array_types import Codes, Ints, Words
from juncture.kernels.hash import order_by_code
from juncture.runtime.progress import Report
from juncture.spec.schema import SIDES, Side

Locate = Callable[[str, ChangeBatches], ChangeBatches]
"""Returns the rows of a source that can be applied, for the next step."""

Write = Callable[[str, ChangeBatches], list[pa.RecordBatch]]
"""Returns rows of an answer in the format that users get."""

_BITS = 6
_PARTS = 1 << _BITS
_BITS_MOST = 8
_PART_ROWS = 1 << 18  # approximate number of rows of a part in memory

_SCATTERED_ROWS = 1 << 17


@dataclass(frozen=True)
class FirstRows:
    """The first rows of some operators: by source, which sources never change, and what locates them."""

    dataflow: Dataflow
    streams: Mapping[str, Iterable[ChangeBatch]]
    static: Collection[str]
    locate: Locate


def load_all(first: FirstRows, tables: StateTables | None, write: Write, report: Report | None) -> Batches:
    """Load the first rows of a query, and return its answers, in a temporary file if the rows exceed the memory."""
    join = next(iter(first.dataflow.graph.answers.values()))
    if isinstance(join, StoredJoinOperator) and tuple(first.dataflow.graph.inputs) == SIDES:
        return _JoinLoader(first, tables, write, report, join).load()
    return _Loader(first, tables, write, report).load()


def load_part(first: FirstRows, tables: StateTables | None) -> None:
    """Load the rows of some operators of a query, piece by piece."""
    for _ in _load_pieces(first, tables, _piece_size(tables)):
        pass
    if tables is not None:
        tables.after_piece()


def _piece_size(tables: StateTables | None) -> PieceSize:
    return PieceSize(math.inf if tables is None else tables.policy.piece_bytes)


def _load_pieces(first: FirstRows, tables: StateTables | None, size: PieceSize) -> Iterator[ChangesByName]:
    is_first = True
    for piece in pieces(first.streams, first.static, size):
        if tables is not None:
            tables.check()
            if not is_first:
                tables.after_piece()
        is_first = False
        outputs = first.dataflow.run({source: first.locate(source, rows) for source, rows in piece.items()})
        first.dataflow.commit()
        yield outputs
        size.adapt(sum(len(weights) for rows in piece.values() for _, weights in rows), first.dataflow.most_rows)


class _Loader:
    """Loads the first rows of a query."""

    def __init__(self, first: FirstRows, tables: StateTables | None, write: Write, report: Report | None) -> None:
        self._first = first
        self._tables = tables
        self._write = write
        self._report = report

    def load(self) -> Batches:
        changes = {source: iter(stream) for source, stream in self._first.streams.items()}
        taken: dict[str, ChangeBatches] = {}
        left_bytes = self._initial_bytes
        for source, stream in changes.items():
            taken[source], left_bytes = _gathered(stream, left_bytes)
        if left_bytes > 0:
            return self._load_in_memory(taken)
        assert self._tables is not None
        return self._load_in_stages(self._tables, {source: chain(taken[source], changes[source]) for source in changes})

    @property
    def _initial_bytes(self) -> float:
        return math.inf if self._tables is None else self._tables.policy.initial_bytes

    def _load_in_memory(self, rows: Mapping[str, ChangeBatches]) -> Batches:
        size, graph = _piece_size(self._tables), self._first.dataflow.graph
        first, *others = list(_load_pieces(replace(self._first, streams=rows), self._tables, size))
        if self._tables is not None:
            self._tables.after_piece()
        answers = {name: list(graph.answers[name].living()) for name in first} if others else first
        return {name: self._write(name, changes) for name, changes in answers.items()}

    # In stages

    def _load_in_stages(self, tables: StateTables, streams: Mapping[str, Iterable[ChangeBatch]]) -> Batches:
        folder, graph = tables.errors.folder / "parts", self._first.dataflow.graph
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
            with ExitStack() as files:
                answers = {
                    name: files.enter_context(closing(_AnswerFile(folder / f"answer-{number}")))
                    for number, name in enumerate(graph.answers)
                }
                spools: dict[str, _Spool] = {}
                stages = stages_of(graph, self._first.static)
                for stage in stages:
                    for name, hashes in stage.hashes.items():
                        spools[name] = files.enter_context(closing(_Spool(folder / str(len(spools)), hashes)))
                for stage in stages:
                    self._load_stage(stage, tables, streams, spools, answers)
                return {name: each.read() for name, each in answers.items()}
        except OSError as error:
            raise tables.errors.unwritten(error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _load_stage(
        self,
        stage: Stage,
        tables: StateTables,
        streams: Mapping[str, Iterable[ChangeBatch]],
        spools: Mapping[str, _Spool],
        answers: Mapping[str, _AnswerFile],
    ) -> None:
        size, graph = _piece_size(tables), stage.dataflow.graph
        inputs = {name: spools[name] for name in stage.hashes}
        for source in stage.hashes.keys() & streams.keys():
            inputs[source].add(streams[source], partial(self._notify, source))
        for spool in inputs.values():
            spool.close()
        first = FirstRows(stage.dataflow, {}, stage.static, self._located)
        if not stage.has_parts:
            rows = {source: streams.get(source, ()) for source in graph.inputs}
            rows |= {name: spool.rows(range(_PARTS)) for name, spool in inputs.items()}
            for outputs in _load_pieces(replace(first, streams=rows), tables, size):
                _pass_on(stage, outputs, spools)
            tables.after_piece()
            for name in answers.keys() & graph.answers.keys():
                for change in graph.answers[name].living():
                    answers[name].add(self._write(name, [change]))
            return
        size.begin()
        sizes = sum((spool.sizes for spool in inputs.values()), np.zeros(_PARTS, np.int64))
        for some, is_small in _grouped(sizes, size):
            rows = {name: spool.rows(some) for name, spool in inputs.items()}
            # The rows of an answer are one piece, which has no changes of earlier rows.
            is_one_piece = is_small or answers.keys() & graph.answers.keys()
            some_rows = replace(first, streams=rows, static=rows if is_one_piece else stage.static)
            for outputs in _load_pieces(some_rows, tables, size):
                _pass_on(stage, outputs, spools)
                for name in answers.keys() & outputs.keys():
                    answers[name].add(self._write(name, outputs[name]))
            tables.append(each.arrangement for each in stage.dataflow.tables.values())
            self._notify("output", some.stop, _PARTS)
        tables.finish_append()

    def _located(self, source: str, rows: ChangeBatches) -> ChangeBatches:
        # Rows of other stages are located already.
        return self._first.locate(source, rows) if source in self._first.dataflow.graph.inputs else rows

    def _notify(self, phase: str, done: int, total: int) -> None:
        if self._report is not None:
            self._report(phase, done, total)


def _pass_on(stage: Stage, outputs: ChangesByName, spools: Mapping[str, _Spool]) -> None:
    """Write the outputs of a stage for other stages, which may load the first ones without the last ones."""
    for name in stage.passed:
        batches = outputs[name]
        if any((weights < 0).any() for _, weights in batches):
            # A join may return the delete of a row before its insert.
            batches = consolidated(batches, stage.dataflow.graph.answers[name].schema)
        spools[name].add(batches)


class _Spool:
    """Rows in files, one for each part, which ``hashes`` of the rows divide; one file without."""

    def __init__(self, path: Path, hashes: Hashes | None) -> None:
        self.sizes: Ints = np.zeros(_PARTS, np.int64)  # memory that the rows of each part need
        self._path = path
        self._hashes = hashes
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def add(
        self, changes: Iterable[ChangeBatch], notify: Callable[[int, int], None] = lambda _done, _total: None
    ) -> None:
        done = 0
        for each in _slices(changes):
            batch = each.rows
            row_bytes = batch.nbytes // max(1, batch.num_rows) + ROW_BYTES
            ends = np.array([0, batch.num_rows])
            combined = weighted(*each)
            if self._hashes is not None:
                order, ends = _by_part(self._hashes(batch), _BITS)
                combined = rows_of(combined, array_of(order, pa.int32()))
            counts = np.diff(ends)
            for part in np.flatnonzero(counts).tolist():
                if part not in self._writers:
                    # Each batch may have its own dictionary, which a stream may replace and a file may not.
                    self._writers[part] = pa.ipc.new_stream(self._file(part), combined.schema)
                self._writers[part].write_batch(combined.slice(ends[part], counts[part]))
            self.sizes[: len(counts)] += counts * row_bytes
            done += batch.num_rows
            notify(done, 0)
        notify(done, done)

    def _file(self, part: int) -> str:
        return f"{self._path}-{part}.arrow"

    def rows(self, parts: Iterable[int]) -> Iterator[ChangeBatch]:
        for part in parts:
            if part in self._writers:
                with pa.OSFile(self._file(part)) as file:
                    yield from map(unweighted, pa.ipc.open_stream(file))
                Path(self._file(part)).unlink()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class _AnswerFile:
    """The rows of an answer in a file, which exists as long as they do."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._path, batch.schema)
            self._writer.write_batch(batch)

    def read(self) -> list[pa.RecordBatch]:
        self.close()
        if self._writer is None:
            return []
        with pa.memory_map(self._path) as source:
            return list(pa.ipc.open_stream(source))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _JoinLoader(_Loader):
    """Loads the first rows of a join."""

    def __init__(
        self,
        first: FirstRows,
        tables: StateTables | None,
        write: Write,
        report: Report | None,
        join: StoredJoinOperator,
    ) -> None:
        super().__init__(first, tables, write, report)
        self._join = join

    @property
    def _initial_bytes(self) -> float:
        # Rows without a key cannot be divided.
        return super()._initial_bytes if self._join.has_parts else math.inf

    def _load_in_memory(self, rows: Mapping[str, ChangeBatches]) -> Batches:
        changes: dict[Side, ChangeBatches] = {side: rows[side] for side in SIDES}
        tables, answer = self._tables, list[pa.RecordBatch]()
        writers = {} if tables is None else {side: tables.writer(is_sorted=False) for side in SIDES}
        joined = {side: self._concatenator(side, changes[side]) for side in SIDES}
        for part in _in_parts(self._join, changes):
            answer += self._write(ANSWER, self._join.step([self._first.locate(side, part[side]) for side in SIDES]))
            for side, each in self._join.sides.items():
                # Rows of other parts have other keys.
                for run in each.arrangement.memory:
                    joined[side].add(run)
                    if tables is not None:
                        for loose in loose_pieces(run, tables.policy.batch_rows):
                            writers[side].add(loose)
                each.arrangement.memory = []
        for side, each in self._join.sides.items():
            with one_epoch(f"{side} changes"):
                joined_run = joined[side].run()
            each.arrangement.memory = [] if joined_run is None else [joined_run[0]]
            if tables is not None:
                tables.take_in(each.arrangement, writers[side], joined_run)
        self._join.commit()
        return {ANSWER: answer}

    def _concatenator(self, side: Side, changes: ChangeBatches) -> RunConcatenator:
        join_side = self._join.sides[side]
        batches = [batch for batch, _ in changes]
        has_all = [
            all(not batch.column(index).null_count for batch in batches) for index in range(len(join_side.schema))
        ]
        lines = len(join_side.nothing.codes), join_side.arrangement.lines
        rows = sum(batch.num_rows for batch in batches)
        return RunConcatenator(rows, join_side.schema, has_all, lines, join_side.arrangement.matching)


def _gathered(changes: Iterator[ChangeBatch], most_bytes: float) -> tuple[ChangeBatches, float]:
    """Return changes up to about ``most_bytes``, and the bytes that remain: none if there may be more changes."""
    gathered = []
    for change in changes:
        gathered.append(change)
        most_bytes -= change.rows.nbytes + ROW_BYTES * change.rows.num_rows
        if most_bytes <= 0:
            break
    return gathered, most_bytes


def _in_parts(
    join: StoredJoinOperator, changes: Mapping[Side, Sequence[ChangeBatch]]
) -> Iterator[dict[Side, ChangeBatches]]:
    """Yield the rows of both sides part by part; all at once if they are few, or have no key."""
    rows = sum(batch.num_rows for side in SIDES for batch, _ in changes[side])
    bits = min((rows // _PART_ROWS).bit_length(), _BITS_MOST)
    if not bits or not join.keys.are_any:
        yield {side: list(changes[side]) for side in SIDES}
        return
    ordered = {
        side: [
            (batch, weights, (weights == 1).all(), *_by_part(join.sides[side].hashes_of(batch), bits))
            for batch, weights in batches
        ]
        for side, batches in changes.items()
    }
    for part in range(1 << bits):
        part_changes: dict[Side, ChangeBatches] = {side: [] for side in SIDES}
        for side in SIDES:
            for batch, weights, are_one, order, ends in ordered[side]:
                here = order[ends[part] : ends[part + 1]]
                if len(here):
                    row_weights = weights[: len(here)] if are_one else weights[here]
                    part_changes[side].append(ChangeBatch(rows_of(batch, array_of(here, pa.int32())), row_weights))
        yield part_changes


def _by_part(hashes: Words, bits: int) -> tuple[Codes, Ints]:
    """Return rows in the order of the parts of their hashes, and the start of each part, with the end."""
    part = (hashes >> np.uint64(64 - bits)).astype(np.int32)
    ends = np.append(0, np.cumsum(np.bincount(part, minlength=1 << bits)))
    order = np.empty(len(part), np.int32)
    order_by_code(part, 0, ends[:-1].astype(np.int32), order)
    return order, ends


def _slices(changes: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
    for change in changes:
        for first in range(0, change.rows.num_rows, _SCATTERED_ROWS):
            yield change.slice(first, _SCATTERED_ROWS)


def _grouped(sizes: Ints, size: PieceSize) -> Iterator[tuple[range, bool]]:
    """Yield ranges of consecutive parts, and whether they are about as small as ``size``; one part may be larger."""
    first = 0
    while first < _PARTS:
        end = first + 1
        while end < _PARTS and sizes[first : end + 1].sum() <= size.now_bytes:
            end += 1
        yield range(first, end), size.fits(int(sizes[first:end].sum()))
        first = end
