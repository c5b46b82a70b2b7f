"""Tables whose matches are aggregated for each row of the spine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Codes, Mask
from juncture.kernels.asof import NOWHERE
from juncture.kernels.hash_table import EMPTY
from juncture.local.inequality import join as inequality
from juncture.local.keys import Keys
from juncture.local.kinds import execute
from juncture.local.many.spine import Spine
from juncture.local.many.window_sums import can_stream, streamed_sums
from juncture.ordered.arithmetic import TooWideError
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.take import gather
from juncture.spec.aggregate import Aggregate
from juncture.spec.condition import ResolvedInequality
from juncture.spec.range import ResolvedRange

_CODES = "\0key codes"
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
    table: pa.Table | None = None
    if algorithm == "binary_search" and isinstance(join, ResolvedRange) and join.condition.predicate is None:
        with suppress(TooWideError):
            table = _in_order(join, spine, left, right, context)
    if table is None:
        table = pa.Table.from_batches(list(execute(join, left, right, algorithm, context)), join.output_schema)
    if not counts:
        return None, table
    count = table.num_columns - len(counts)
    matched = np.logical_or.reduce([table.column(index).to_numpy() > 0 for index in range(count, table.num_columns)])
    return matched, table.select(range(count))


class _SpineKeys:
    """The keys of a spine, which right rows look up, while rows of the spine have their codes in place of keys."""

    def __init__(self, keys: Keys) -> None:
        self.count = keys.count
        self.add = keys.find

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        codes[:] = columns[0]


def _in_order(join: ResolvedRange, spine: Spine, left: Source, right: Source, context: JoinContext) -> pa.Table:
    """Return the aggregates of each row of the spine, found in the order of keys and time.

    Successive rows search and fold neighbouring memory in this order; in another one each misses the cache.
    """
    spine_keys, slots = spine.order(join, left)
    if can_stream(join):
        sums = streamed_sums(join, spine_keys, slots, left, right, context)
        if sums is not None:
            return pa.table(sums, schema=join.output_schema)
    coded = replace(join, left_by=(_CODES,))
    names = [name for name in coded.compared("left") if name != _CODES]
    # The last row is that of all rows without a key or a time.
    rows = np.append(slots.rows, NOWHERE).astype(np.int64)
    codes = pa.array(np.append(spine_keys.codes, np.int32(EMPTY))[rows])
    ordered = TableSource(pa.table([*gather(left, names, rows, context), codes], names=[*names, _CODES]))
    method = replace(inequality.BINARY_SEARCH, keys=_SpineKeys(spine_keys.keys))
    batches = inequality.execute(coded, ordered, right, context, method=method)
    table = pa.Table.from_batches(list(batches), join.output_schema).combine_chunks()
    positions = np.full(left.num_rows, len(slots), np.int64)
    positions[slots.rows] = np.arange(len(slots))
    return pa.table(gather(TableSource(table), table.column_names, positions, context), schema=table.schema)
