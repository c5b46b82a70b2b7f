"""The output of a join by inequalities, batch by batch, in the order of the left rows.

Left rows come in chunks. For each chunk the matches are counted first, and then made in tasks of bounded size, so that
a join with any number of matches needs the memory of a few tasks, beside the right side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, concatenated, plain
from juncture.columnar.conversion import converted
from juncture.kernels import band
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.local.output.numbered import number_column, unmatched_columns
from juncture.local.output.pairs import (
    Check,
    MatchSpans,
    Prober,
    Task,
    cut,
    only_whether,
    pairs_of,
    pairs_of_one,
    spans_of,
    with_unmatched,
)
from juncture.local.output.payload import Payload
from juncture.predicate.evaluate.evaluate import matches
from juncture.predicate.language.nodes import Node, columns, sides
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sources import Source
from juncture.runtime.take import is_awkward, ordered, take
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

Each = TypeVar("Each")
TaskPairs = tuple[Task, Codes, Codes]
Done = list[pa.RecordBatch]

_PAIRS_LEAST = 1 << 10
_TASK_BYTES = 64 << 20  # about how much output a task makes at most
_FRUGAL_TASK_BYTES = 2 << 20  # and where memory is short


def show(
    join: Resolved, left: Source, prober: Prober, payload: Payload, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield a join's left rows in their order, then right rows without a match; the payload has the right columns."""
    work = _Stream(join, left, prober, payload, context)
    yield from work.semi() if join.how in ("semi", "anti") else work.pairs()


class _Stream:
    def __init__(
        self,
        join: Resolved,
        left: Source,
        prober: Prober,
        payload: Payload,
        context: JoinContext,
    ) -> None:
        self._join = join
        self._left = left
        self._prober = prober
        self._payload = payload
        self._context = context
        self._keep = join.how in ("left", "full")
        self._sorts = prober.by_row and not prober.right.is_in_order
        self._schema = join.output_schema
        sources = [column.source if column.side == "left" else column.filled_from for column in join.output]
        # Batches without columns would have no rows either.
        self._columns = list(dict.fromkeys([*filter(None, sources), *prober.columns])) or join.left_schema.names[:1]
        self._row_bytes = left.plain_bytes_of(self._columns) // max(left.num_rows, 1) + payload.row_bytes
        task_bytes = _FRUGAL_TASK_BYTES if context.threads.is_frugal else _TASK_BYTES
        self._sizes = context.threads.sizes
        self._pairs_most = min(self._sizes.slice_rows, max(_PAIRS_LEAST, task_bytes // max(self._row_bytes, 1)))
        keeps_right = join.how in ("right", "full")
        self._matched = np.zeros(prober.right.total if keeps_right else 0, np.bool_)

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """Yield pairs, and then the right rows without a match where they are kept."""
        for batches in self._context.threads.map(self._finish, self._in_pieces(self._tasks(self._done_or_cut))):
            yield from batches
        yield from self._unmatched_right()

    def semi(self) -> Iterator[pa.RecordBatch]:
        """Yield the left rows with (or without) a match."""
        matched = np.zeros(0, np.bool_)
        for task, lefts, _ in self._context.threads.map(self._checked, self._tasks(self._cut)):
            if task.first == 0:
                matched = np.zeros(task.spans.batch.num_rows, np.bool_)
            matched[lefts] = True
            if task.last:
                wanted = np.flatnonzero(matched == (self._join.how == "semi")).astype(np.int32)
                yield from self._assembled(task.spans.batch, task.spans.first_row, wanted, None)

    def _tasks(self, work: Callable[[int, pa.RecordBatch], Sequence[Each]]) -> Iterator[Each]:
        """Read the left side, and yield what some work makes of its rows, those of a batch in order."""

        def tasks_of(first: int, batch: pa.RecordBatch) -> list[Each]:
            # So few rows that what is made of them is still in a cache when it is looked at again.
            rows = self._sizes.slice_rows
            starts = range(0, batch.num_rows, rows)
            return [each for start in starts for each in work(first + start, batch.slice(start, rows))]

        tasks = read_through(
            self._left, tasks_of, self._context, "left",
            columns=self._columns, coded=self._prober.coded, made_bytes=self._row_bytes,
            in_order=self._context.in_order,
        )  # fmt: skip
        yield from chain.from_iterable(tasks)

    def _done_or_cut(self, first: int, batch: pa.RecordBatch) -> Sequence[Task | Done]:
        """Return the output of some rows, if it has no more than they are; otherwise what there is to do for them."""
        match_spans = self._prober.find(batch)
        if match_spans.one_at_most and batch.num_rows <= self._pairs_most:
            lefts, positions = pairs_of_one(match_spans, keep=self._keep)
            return [self._joined(batch, first, lefts, self._prober.right.rows_at(positions))]
        tasks = self._cut_spans(first, batch, match_spans)
        # If unmatched rows are kept, only the next task knows whether the last row has a match that passes the check.
        depends = self._keep and tasks[0].spans.match_spans.check is not None
        depends = depends or (self._sorts and any(task.continued for task in tasks))
        is_little = sum(task.size for task in tasks) <= batch.num_rows and not depends
        return [self._finish(task) for task in tasks] if is_little else tasks

    def _cut(self, first: int, batch: pa.RecordBatch) -> list[Task]:
        return self._cut_spans(first, batch, self._prober.find(batch))

    def _cut_spans(self, first: int, batch: pa.RecordBatch, match_spans: MatchSpans) -> list[Task]:
        if self._join.how in ("semi", "anti") and match_spans.check is None:
            match_spans = only_whether(match_spans, self._prober.right, batch.num_rows)
        # Pairs that are to be checked take little memory, and few of them may match.
        most = self._pairs_most if match_spans.check is None else max(self._pairs_most, self._sizes.task_rows)
        spans = spans_of(batch, match_spans, self._prober.right, most, first_row=first)
        return cut(spans, keep=self._keep and match_spans.check is None, most=most)

    def _checked(self, task: Task) -> TaskPairs:
        """Return a task's pairs of left row and position; if they have to be checked, without rows that lack any."""
        check = task.spans.match_spans.check
        lefts, positions = pairs_of(task, self._prober.right, keep=self._keep and check is None)
        if check is not None:
            good = check(lefts, positions)
            lefts, positions = lefts[good], positions[good]
        return task, lefts, positions

    def _pairs(self, task: Task) -> TaskPairs:
        """Return a task's pairs of left and right row in their order."""
        task, lefts, positions = self._checked(task)
        rights = self._prober.right.rows_at(positions)
        if self._sorts:
            both = np.sort((lefts.astype(np.int64) << 32) | (rights + np.int64(1)))
            lefts, rights = (both >> 32).astype(np.int32), ((both & 0xFFFFFFFF) - 1).astype(np.int32)
        return task, lefts, rights

    def _in_pieces(self, tasks: Iterator[Task | Done]) -> Iterator[TaskPairs | Task | Done]:
        """Yield the pairs of tasks that need a check, in pieces, since the check determines the size of the output.

        Whether a row has a match, and in which order all of them are, may depend on more tasks than one.
        """
        had = False
        carryover: list[Codes] = []
        for each in self._context.threads.map(self._alone_or_pairs, tasks):
            if not isinstance(each, tuple):
                yield each
                continue
            pairs = _with_complete_rows(each, carryover) if self._sorts else each
            pieces, had = self._pieces(pairs, had=had)
            yield from pieces

    def _alone_or_pairs(self, task: Task | Done) -> TaskPairs | Task | Done:
        return self._pairs(task) if isinstance(task, Task) and self._depends(task) else task

    def _depends(self, task: Task) -> bool:
        """Return whether a task's output may depend on others, or be smaller than the task can know."""
        return task.spans.match_spans.check is not None or (self._sorts and (task.continued or task.continues))

    def _pieces(self, pairs: TaskPairs, *, had: bool) -> tuple[list[TaskPairs], bool]:
        """Return a task's pairs as pieces of bounded output, and whether its last row has had a match so far."""
        task, lefts, rights = pairs
        if self._keep and task.spans.match_spans.check is not None:
            lefts, rights, had = with_unmatched(task, lefts, rights, had=had)
        most = self._pairs_most
        return [
            (task, lefts[start : start + most], rights[start : start + most]) for start in range(0, len(lefts), most)
        ], had

    def _finish(self, piece: TaskPairs | Task | Done) -> Done:
        if isinstance(piece, list):
            return piece
        task, lefts, rights = piece if isinstance(piece, tuple) else self._pairs(piece)
        return self._joined(task.spans.batch, task.spans.first_row, lefts, rights)

    def _joined(self, batch: pa.RecordBatch, first: int, lefts: Codes, rights: Codes) -> Done:
        """Return left rows of a batch beside right rows, and note that these have a match."""
        if len(self._matched):
            self._matched[rights[rights >= 0]] = True
        return self._assembled(batch, first, lefts, rights)

    def _assembled(self, batch: pa.RecordBatch, first: int, lefts: Codes, rights: Codes | None) -> Done:
        """Return left rows of a batch beside right rows."""
        right_columns = iter(self._payload.take(self._join.output_names["right"], rights) if rights is not None else [])
        every = len(lefts) == batch.num_rows and bool((lefts == np.arange(len(lefts), dtype=lefts.dtype)).all())
        columns = []
        for column, field in zip(self._join.output, self._schema, strict=False):
            if column.side == "right":
                values = next(right_columns)
                if column.filled_from is not None and rights is not None:
                    values = _filled(values, batch.column(column.filled_from), lefts, rights < 0)
                columns.append(values)
                continue
            array = batch.column(column.source)
            if every:
                columns.append(pa.chunked_array([converted(array, field.type)], field.type))
            else:
                columns.append(_taken(array, lefts, field.type))
        if self._join.numbered:
            columns += self._numbers(first + lefts.astype(np.int64), rights)
        table: list[pa.RecordBatch] = pa.table(columns, schema=self._schema).to_batches()
        return table

    def _numbers(self, lefts: Ints, rights: Codes | None) -> list[pa.Array]:
        columns = []
        for side in self._join.numbered:
            if side == "left":
                columns.append(number_column(self._left.row_numbers(lefts)))
            else:
                assert rights is not None
                columns.append(number_column(self._payload.row_numbers(rights)))
        return columns

    def _unmatched_right(self) -> Iterator[pa.RecordBatch]:
        rows = np.flatnonzero(~self._matched).astype(np.int32)
        for start in range(0, len(rows), self._sizes.slice_rows):
            some = rows[start : start + self._sizes.slice_rows]
            columns = unmatched_columns(self._join, self._schema, len(some), partial(self._payload.column, rows=some))
            columns += self._numbers(np.full(len(some), band.NOWHERE, np.int64), some)
            yield from pa.table(columns, schema=self._schema).to_batches()


def _with_complete_rows(pairs: TaskPairs, carryover: list[Codes]) -> TaskPairs:
    """Return a task's pairs less those of a row that goes on in the next, with all those of a row that ends here.

    Pairs of each row are in the order of the right rows. `carryover` are the right rows that the task before excluded,
    and afterwards those that this one excludes.
    """
    task, lefts, rights = pairs
    if task.continued:
        count = int(np.searchsorted(lefts, task.first_row, "right"))
        carryover.append(rights[:count])
        lefts, rights = lefts[count:], rights[count:]
        if task.continues and task.first_row == task.last_row:
            return task, lefts, rights
        row_rights = np.sort(np.concatenate(carryover), kind="stable")
        lefts = np.concatenate([np.full(len(row_rights), task.first_row, np.int32), lefts])
        rights = np.concatenate([row_rights, rights])
        carryover.clear()
    if task.continues:
        count = int(np.searchsorted(lefts, task.last_row, "left"))
        carryover.append(rights[count:])
        lefts, rights = lefts[:count], rights[:count]
    return task, lefts, rights


def taken(batch: pa.RecordBatch, names: Sequence[str], rows: Codes) -> list[pa.ChunkedArray]:
    """Return columns of some rows of a batch."""
    return [_taken(batch.column(name), rows, batch.schema.field(name).type) for name in names]


def _taken(array: pa.Array, rows: Codes, data_type: pa.DataType) -> pa.ChunkedArray:
    values = plain(array) if is_awkward(array.type) else array
    return pa.chunked_array(ordered(values, rows, data_type, (0, len(rows))), data_type)


def _filled(values: pa.ChunkedArray, array: pa.Array, rows: Codes, missing: Mask) -> pa.ChunkedArray:
    """Return values, and where they are missing those of rows of an array."""
    if not missing.any():
        return values
    pieces, count = [plain(chunk) for chunk in values.chunks], len(missing)
    others = take(plain(array), array_of(rows[missing], pa.int32()))
    # Arrow chooses by a mask among decimals of all lengths but the greatest.
    combined = concatenated([*pieces, converted(others, pieces[0].type)])
    order = np.where(missing, count - 1 + np.cumsum(missing), np.arange(count))
    return pa.chunked_array(ordered(combined, order, values.type, (0, count)), values.type)


def columns_read(predicate: Node | None, side: Side) -> tuple[str, ...]:
    """Return the columns of a side that a predicate reads."""
    return () if predicate is None else tuple(each.name for each in columns(predicate) if each.side == side)


def checking(predicate: Node, payload: Payload, rows_at: Callable[[Codes], Codes]) -> Callable[[pa.RecordBatch], Check]:
    """Return what makes of a left batch a check of its pairs by a predicate.

    The payload has the right columns that the predicate reads, and `rows_at` returns its rows at some positions.
    """
    left_names, right_names = list(columns_read(predicate, "left")), list(columns_read(predicate, "right"))

    def check(batch: pa.RecordBatch) -> Check:
        def holds(lefts: Codes, positions: Codes) -> Mask:
            lefts_taken = pa.table(taken(batch, left_names, lefts), names=left_names) if left_names else None
            rights_taken = (
                pa.table(payload.take(right_names, rows_at(positions)), names=right_names) if right_names else None
            )
            if not sides(predicate):
                # A constant has no rows of its own.
                lefts_taken = pa.table({"row": pa.array(lefts)})
            result: Mask = matches(predicate, lefts_taken, rights_taken).to_numpy(zero_copy_only=False)
            return result

        return holds

    return check
