"""Tables whose matches are aggregated for each row of the spine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.inequality.aggregate import aggregate_columns, folds_of, tie_orderer
from juncture.local.inequality.conditions import CodedCondition
from juncture.local.inequality.index import read_sorted_index
from juncture.local.kinds import execute
from juncture.local.many.spine import Spine, SpineOrder, positions_of
from juncture.local.output.payload import Holder, read_all
from juncture.local.prune import within_reach
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, TooWideError
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.runtime.threads import slices
from juncture.spec.aggregate import Aggregate
from juncture.spec.condition import ResolvedInequality

Aggregated = tuple[Mask | None, pa.Table]
"""Which rows of the spine have a match, if requested, and the aggregates of each."""

_MATCHES = Aggregate("matches", None, "count", pa.int64())
_SLICE_LEAST = 1 << 16


def aggregated(
    join: ResolvedInequality,
    spine: Spine,
    left: Source,
    right: Source,
    algorithm: str,
    context: JoinContext,
    *,
    marks_matches: bool,
) -> Aggregated:
    """Return aggregates of the matches of each row of the spine, and with `marks_matches` which rows have a match.

    The join keeps all rows of the spine, and its sides are in working types.
    """
    # A table without columns would have no rows either.
    windows = join.window_names or (None,)
    counts = tuple(replace(_MATCHES, name=f"{_MATCHES.name}{i}", window=name) for i, name in enumerate(windows))
    counts = counts if marks_matches or not join.aggregates else ()
    join = replace(join, output=(), aggregates=(*join.aggregates, *counts))
    # Spans are found faster in the order of keys and time than in that of the spine.
    if algorithm == "binary_search" and _has_own_order(join):
        with suppress(TooWideError):
            return _split(_in_order(join, spine, left, right, context.streaming(UNDER_WAY_SHARE)), len(counts))
    batches = list(execute(join, left, right, algorithm, context))
    return _split(pa.Table.from_batches(batches, join.output_schema), len(counts))


def _has_own_order(join: ResolvedInequality) -> bool:
    """Return whether rows of the spine query spans, which is fastest in the order of keys and time."""
    condition = join.condition
    others = condition.predicate, condition.second, condition.right_interval
    return others == (None, None, None) and not condition.equalities


def _split(table: pa.Table, counts: int) -> Aggregated:
    if not counts:
        return None, table
    kept = table.num_columns - counts
    matched = np.logical_or.reduce([table.column(place).to_numpy() > 0 for place in range(kept, table.num_columns)])
    return matched, table.select(range(kept))


def _in_order(join: Any, spine: Spine, left: Source, right: Source, context: JoinContext) -> pa.Table:
    """Return the aggregates of a range join, whose spans are computed in the order of the right rows.

    Successive rows then search and fold neighbouring memory; in the order of the table each row misses the cache
    several times. Raises `TooWideError` if a value has no code.
    """
    right = within_reach(join, left, right, context)
    coded = CodedCondition.of(join)
    order = spine.order(join, left)
    parts = {None: coded} | {name: coded.in_window(name) for name in join.window_names}
    used = {each.window for each in join.aggregates}
    limits = {name: _limits(part, left, context) for name, part in parts.items() if name in used}
    holder = Holder(right, aggregate_columns(join))
    index = read_sorted_index(
        right, join.compared("right"), join.right_by, coded.coded, order.coded.keys, context,
        order_ties=tie_orderer(join, right, context), holder=holder, are_known=True,
    )  # fmt: skip
    payload = holder.finish()
    folds = folds_of(join.aggregates, index, payload, context)
    payload.release()
    rows, codes = _rows_in_order(order, spine.rows), order.coded.codes

    def fold(part: tuple[int, int]) -> list[pa.Array | pa.ChunkedArray]:
        here = rows[slice(*part)]
        spans = {}
        for name, (low, high, possible) in limits.items():
            keys = codes[here] if possible is None else np.where(possible[here], codes[here], EMPTY)
            spans[name] = index.spans(keys, low[here], high[here])
        states = [each.start(len(here)) for each in folds]
        for each, aggregate, state in zip(folds, join.aggregates, states, strict=True):
            each.add_spans(state, *spans[aggregate.window])
        places = np.arange(len(here), dtype=np.int32)
        return [each.finish(state, places) for each, state in zip(folds, states, strict=True)]

    ranges = slices(spine.rows, 4 * context.threads.count, least=_SLICE_LEAST)
    return _in_order_of_rows(list(context.threads.map(fold, ranges)), rows, join.output_schema, context)


def _limits(coded: CodedCondition, left: Source, context: JoinContext) -> tuple[Ints, Ints, Mask | None]:
    """Return the bounds of each row of the spine as right codes, and a mask of the rows that have bounds."""
    assert coded.first is not None
    first, total = coded.first, left.num_rows
    low, high, possible = np.full(total, MIN_CODE), np.full(total, MAX_CODE), np.ones(total, np.bool_)

    def take(batch: pa.RecordBatch, rows: slice) -> None:
        least, most, here = first.ends(batch)
        if least is not None:
            low[rows] = least
        if most is not None:
            high[rows] = most
        if here is not None:
            possible[rows] = here

    read_all(left, coded.join.compared("left"), take, context)
    return low, high, None if possible.all() else possible


def _rows_in_order(order: SpineOrder, total: int) -> Ints:
    """Return all rows of the spine, those that can match first, in their order."""
    rows = order.slots.rows.astype(np.int64)
    if len(rows) == total:
        return rows
    others = np.ones(total, np.bool_)
    others[rows] = False
    return np.concatenate([rows, np.flatnonzero(others)])


def _in_order_of_rows(
    parts: list[list[pa.Array | pa.ChunkedArray]], rows: Ints, schema: pa.Schema, context: JoinContext
) -> pa.Table:
    """Return columns that come in another order of the rows in that of their numbers."""
    places = pa.array(positions_of(rows, len(rows)))

    def column(number: int) -> pa.ChunkedArray:
        chunks = [
            chunk
            for part in parts
            for chunk in (part[number].chunks if isinstance(part[number], pa.ChunkedArray) else [part[number]])
        ]
        return pa.chunked_array([pa.concat_arrays(chunks).take(places)], schema.field(number).type)

    return pa.Table.from_arrays(list(context.threads.map(column, range(len(schema)))), schema=schema)
