"""Tables whose matches are aggregated for each row of the spine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.local.kinds import execute
from juncture.local.many.spine import Spine
from juncture.ordered.arithmetic import TooWideError
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.take import gather
from juncture.spec.aggregate import Aggregate
from juncture.spec.condition import ResolvedInequality

Aggregated = tuple[Mask | None, pa.Table]
"""Which rows of the spine have a match, if requested, and the aggregates of each."""

_MATCHES = Aggregate("matches", None, "count", pa.int64())


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
    rows: Ints | None = None
    # Successive rows search and fold neighbouring memory in this order; in another one each misses the cache.
    if algorithm == "binary_search" and _has_own_order(join):
        with suppress(TooWideError):
            left, rows = spine.in_order(join, left)
    table = pa.Table.from_batches(list(execute(join, left, right, algorithm, context)), join.output_schema)
    if rows is not None:
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows))
        columns = gather(TableSource(table.combine_chunks()), table.column_names, places, context)
        table = pa.table(columns, schema=table.schema)
    return _split(table, len(counts))


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
