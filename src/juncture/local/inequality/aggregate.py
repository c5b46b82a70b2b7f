"""Joins by inequalities that return aggregates over the matches of each left row, without making the matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import concatenated, plain
from juncture.kernels.sort import mark_runs
from juncture.local.inequality.folds import Fold, Values, fold_of
from juncture.local.output.batches import taken
from juncture.local.output.pairs import BuildSide, Prober, cut, pairs_of, spans_of
from juncture.local.output.payload import Payload
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import read_through
from juncture.runtime.sort import Slots, order_of
from juncture.runtime.sources import Source
from juncture.runtime.take import nulls
from juncture.runtime.tie_keys import tie_keys
from juncture.spec.aggregate import Aggregate
from juncture.spec.condition import ResolvedInequality


def aggregate_columns(join: ResolvedInequality) -> tuple[str, ...]:
    """Return the right columns that are aggregated."""
    return tuple(dict.fromkeys(each.column for each in join.aggregates if each.column is not None))


def tie_orderer(join: ResolvedInequality, right: Source, context: JoinContext) -> Callable[[Slots], None] | None:
    """Return what brings right rows of the same key and value into tie order, where an aggregate depends on it."""
    if not any(each.function in ("first", "last") for each in join.aggregates):
        return None

    def order(slots: Slots) -> None:
        ends = np.empty(len(slots), np.int32)
        if len(slots) == 0 or mark_runs(slots.on[: len(slots)], slots.starts, ends) == 0:
            return
        same = ends[1:] == ends[:-1]
        tied = np.concatenate([[False], same]) | np.concatenate([same, [False]])
        places = np.flatnonzero(tied)
        rows = slots.rows[places]
        keys = tie_keys(right, join.tie_columns, rows.astype(np.int64), context)
        slots.rows[places] = rows[order_of([ends[places].astype(np.int64), *keys], context)]

    return order


def stream_aggregates(
    join: ResolvedInequality,
    left: Source,
    prober: Prober,
    payload: Payload,
    context: JoinContext,
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each left row (for ``how="inner"``, for each that matches): its columns, then the aggregates.

    Parameters
    ----------
    join, left, prober, payload, context
        As for `juncture.local.output.batches.stream`; the payload holds the aggregated columns.

    Raises
    ------
    DataError
        If a sum does not fit its type.

    Notes
    -----
    Spans are folded in O(log n) each. Where matches are no span, pairs are made a task at a time, folded and forgotten.
    """
    folds = folds_of(join.aggregates, prober.right, payload, context)
    # Folds hold the columns in their own order.
    payload.release()
    context.threads.release_unused()
    counter = fold_of(Aggregate("", None, "count", pa.int64()), None, context)
    shown = [column.source for column in join.output]
    columns = list(dict.fromkeys([*shown, *prober.columns])) or join.left_schema.names[:1]

    def folded(_first: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        states = [fold.start(batch.num_rows) for fold in (counter, *folds)]
        _add((counter, *folds), states, batch, prober)
        rows = np.arange(batch.num_rows, dtype=np.int32)
        if join.how == "inner":
            rows = np.flatnonzero(states[0] > 0).astype(np.int32)
        results = [fold.finish(state, rows) for state, fold in zip(states[1:], folds, strict=True)]
        table = pa.table([*taken(batch, shown, rows), *results], schema=join.output_schema)
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    for batches in read_through(left, folded, context, "left", columns=columns, coded=prober.coded):
        yield from batches


def folds_of(aggregates: tuple[Aggregate, ...], right: BuildSide, payload: Payload, context: JoinContext) -> list[Fold]:
    """Return what folds each column, in the order of the positions."""
    values: dict[str | None, Values | None] = {None: None}
    for each in aggregates:
        if each.column is not None and each.column not in values:
            [column] = payload.take([each.column], right.rows_at(np.arange(len(right), dtype=np.int32)))
            chunks = [plain(chunk) for chunk in column.chunks] or [plain(nulls(0, column.type))]
            values[each.column] = Values(chunks[0] if len(chunks) == 1 else concatenated(chunks))
    return [fold_of(each, values[each.column], context) for each in aggregates]


def _add(folds: tuple[Fold, ...], states: list[Any], batch: pa.RecordBatch, prober: Prober) -> None:
    """Add the matches of a batch to the states of its rows."""
    match_spans = prober.find(batch)
    if match_spans.thresholds is None and match_spans.check is None and match_spans.rows is None:
        for state, fold in zip(states, folds, strict=True):
            fold.add_spans(state, match_spans.first, match_spans.end)
        return
    for task in cut(spans_of(batch, match_spans, prober.right), keep=False):
        rows, positions = pairs_of(task, prober.right, keep=False)
        if match_spans.check is not None:
            good = match_spans.check(rows, positions)
            rows, positions = rows[good], positions[good]
        for state, fold in zip(states, folds, strict=True):
            fold.add_pairs(state, rows, positions)
