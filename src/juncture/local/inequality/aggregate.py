"""Joins by inequalities that return aggregates over the matches of each left row, without making the matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import concatenated, plain
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.sort import mark_runs
from juncture.local.inequality.folds import Fold, Values, counting, summing
from juncture.local.inequality.order_folds import ordering
from juncture.local.output.numbered import number_column
from juncture.local.output.pairs import BuildSide, Prober, cut, pairs_of, spans_of
from juncture.local.output.payload import Payload
from juncture.local.output.show import taken
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sort import Slots, order_of
from juncture.runtime.sources import Source
from juncture.runtime.take import nulls, tie_keys
from juncture.spec.aggregate import Aggregate, folded_columns, have_order
from juncture.spec.condition import ResolvedInequality


def aggregate_columns(join: ResolvedInequality) -> tuple[str, ...]:
    """Return the right columns that are aggregated."""
    return folded_columns(join.aggregates)


def tie_orderer(join: ResolvedInequality, right: Source, context: JoinContext) -> Callable[[Slots], None] | None:
    """Return what brings right rows of the same key and value into tie order, where an aggregate depends on it."""
    if not have_order(join.aggregates) or join.condition.predicate is not None:
        return None

    def order(slots: Slots) -> None:
        ends = np.empty(len(slots), np.int32)
        if len(slots) == 0 or mark_runs(slots.on[: len(slots)], slots.starts, ends) == 0:
            return
        same = ends[1:] == ends[:-1]
        tied = np.concatenate([[False], same]) | np.concatenate([same, [False]])
        positions = np.flatnonzero(tied)
        rows = slots.rows[positions]
        keys = tie_keys(right, join.tie_columns, rows.astype(np.int64), context)
        slots.rows[positions] = rows[order_of([ends[positions].astype(np.int64), *keys], context)]

    return order


def _match_order(join: ResolvedInequality, right: Source, build: BuildSide, context: JoinContext) -> Ints | None:
    """Return the place of each position's row in the order of matches; None if positions are in that order."""
    if join.condition.predicate is None or not have_order(join.aggregates):
        return None
    rows = build.rows_at(np.arange(len(build), dtype=np.int32)).astype(np.int64)
    ranks = np.empty(len(rows), np.int64)
    ranks[order_of(tie_keys(right, join.tie_columns, rows, context), context)] = np.arange(len(rows))
    return ranks


def stream_aggregates(
    join: ResolvedInequality, right: Source, left: Source, prober: Prober, payload: Payload, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each left row (for ``how="inner"``, for each that matches): its columns, then the aggregates.

    The payload has the aggregated columns. Spans are folded in O(log n) each. If matches are no span, pairs are made a
    task at a time, folded and dropped.
    """
    order = _match_order(join, right, prober.right, context)
    folds = folds_of(join.aggregates, prober.right, payload, context, order)
    # Folds hold the columns in their own order.
    payload.release(keep=() if join.condition.predicate is None else join.compared("right"))
    context.threads.release_unused()
    counter, probers = counting(), _probers(join.aggregates, prober)
    slice_rows = context.threads.sizes.slice_rows
    sources = [column.source for column in join.output]
    columns = list(dict.fromkeys([*sources, *prober.columns])) or join.left_schema.names[:1]

    def folded(first: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        states = [fold.start(batch.num_rows) for fold in (counter, *folds)]
        for each, indices in probers:
            some, their_states = [(counter, *folds)[index] for index in indices], [states[index] for index in indices]
            _add(some, their_states, batch, each, slice_rows)
        rows = np.arange(batch.num_rows, dtype=np.int32)
        if join.how == "inner":
            rows = np.flatnonzero(states[0] > 0).astype(np.int32)
        results = [fold.finish(state, rows) for state, fold in zip(states[1:], folds, strict=True)]
        numbers = [number_column(left.row_numbers(first + rows.astype(np.int64))) for _ in join.numbered]
        table = pa.table([*taken(batch, sources, rows), *numbers, *results], schema=join.output_schema)
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    def piece_by_piece(first: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for start, piece in _pieces(batch, prober, slice_rows):
            yield from folded(first + start, piece)

    make = piece_by_piece if any(fold.grows for fold in folds) else folded
    reading = read_through(left, make, context, "left", columns=columns, coded=prober.coded)
    for batches in reading:
        yield from batches


def _probers(aggregates: tuple[Aggregate, ...], prober: Prober) -> list[tuple[Prober, list[int]]]:
    """Return what finds matches, and the places of what folds them: of the count of all first, then the aggregates."""
    if not prober.windows:
        return [(prober, list(range(len(aggregates) + 1)))]
    named = {name: [0] for name in prober.windows}
    unwindowed: list[int] = []
    for index, each in enumerate(aggregates, 1):
        (unwindowed if each.window is None else named[each.window]).append(index)
    return [(prober, unwindowed), *((prober.windows[name], indices) for name, indices in named.items())]


def _pieces(batch: pa.RecordBatch, prober: Prober, slice_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a batch where its rows have as many matches, at most, as lists are made of at once."""
    spans = spans_of(batch, prober.find(batch), prober.right, slice_rows)
    assert spans.match_spans.rows is not None
    counts = np.bincount(spans.match_spans.rows, spans.counts, minlength=batch.num_rows)
    parts = (np.cumsum(counts) // (4 * slice_rows)).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), batch.num_rows]
    for first, end in pairwise(edges):
        yield first, batch.slice(first, end - first)


def folds_of(
    aggregates: tuple[Aggregate, ...],
    right: BuildSide,
    payload: Payload,
    context: JoinContext,
    order: Ints | None = None,
) -> list[Fold]:
    """Return what folds each column, in the order of the positions.

    `order` is the place of each position's row in the order of matches; None if positions are in that order.
    """
    columns: dict[str, pa.Array] = {}
    rows = right.rows_at(np.arange(len(right), dtype=np.int32))
    for name in folded_columns(aggregates):
        column = payload.column(name, rows, context.threads)
        chunks = [plain(chunk) for chunk in column.chunks] or [plain(nulls(0, column.type))]
        columns[name] = chunks[0] if len(chunks) == 1 else concatenated(chunks)
    values: dict[tuple[str, str | None], Values] = {}
    folds: dict[Any, Fold] = {}
    result: list[Fold] = []
    for each in aggregates:
        # Of several windows all fold the same.
        same = each.column, each.function, each.argument
        if same not in folds:
            folds[same] = counting()
            if each.column is not None:
                key = each.column, each.other
                if key not in values:
                    other = None if each.other is None else columns[each.other]
                    values[key] = Values(columns[each.column], other, order)
                folds[same] = _fold_of(each, values[key], context)
        result.append(folds[same])
    return result


def _fold_of(aggregate: Aggregate, values: Values, context: JoinContext) -> Fold:
    if aggregate.function == "count":
        return counting(values)
    if aggregate.function in ("sum", "mean", "std", "weighted_mean"):
        return summing(aggregate, values, context)
    return ordering(aggregate, values, context)


def _add(folds: Sequence[Fold], states: list[Any], batch: pa.RecordBatch, prober: Prober, most: int) -> None:
    """Add the matches of a batch to the states of its rows."""
    match_spans = prober.find(batch)
    if match_spans.thresholds is None and match_spans.check is None and match_spans.rows is None:
        for state, fold in zip(states, folds, strict=True):
            fold.add_spans(state, match_spans.first, match_spans.end)
        return
    waits, waiting = any(fold.of_whole_rows for fold in folds), list[tuple[Codes, Codes]]()
    for task in cut(spans_of(batch, match_spans, prober.right, most), keep=False, most=most):
        rows, positions = pairs_of(task, prober.right, keep=False)
        if match_spans.check is not None:
            good = match_spans.check(rows, positions)
            rows, positions = rows[good], positions[good]
        waiting.append((rows, positions))
        if waits and task.continues:
            # The right side is held, and a row matches each of its rows once.
            continue
        pairs = waiting[0] if len(waiting) == 1 else tuple(map(np.concatenate, zip(*waiting, strict=True)))
        for state, fold in zip(states, folds, strict=True):
            fold.add_pairs(state, *pairs)
        waiting = []
