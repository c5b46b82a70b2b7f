"""Tables that give each row of the spine one of their rows: as-of and equality joins, as right row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.errors import DataError
from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.hash import row_of_codes
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof import join as asof
from juncture.local.keys import Keys
from juncture.local.kinds import Runner
from juncture.local.many.spine import Spine
from juncture.local.reasons import CodedKeys, row_text
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST, order_of
from juncture.runtime.sources import Source
from juncture.runtime.take import tie_keys
from juncture.spec.asof import ResolvedAsof
from juncture.spec.equi import ResolvedEqui
from juncture.spec.many import ResolvedTable

NOWHERE = -1
"""The right row of a row of the spine without a match."""


def asof_pointers(
    join: ResolvedAsof,
    _table: ResolvedTable,
    spine: Spine,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    merges: bool,
) -> Ints:
    """Return the right row of each row of the spine in an as-of join. Arguments as for `asof.join.find`."""
    has_own_limits = join.tolerance is not None and join.tolerance.column is not None
    prepared = None if has_own_limits else lambda: spine.asof_left(join, left)
    pointers: Ints = asof.find(join, left, right, context, merges=merges, prepared=prepared).pointers[:, 0]
    return pointers


def lookup_pointers(
    join: ResolvedEqui, table: ResolvedTable, spine: Spine, left: Source, right: Source, context: JoinContext
) -> Ints:
    """Return the right row whose key each row of the spine has, for an equality join without a further condition.

    Takes 12 bytes for each distinct key of the spine. The right side is read once, again if keys repeat, and not held.
    """
    coded = spine.keys(join, left)
    row_of = np.full(max(coded.keys.count, 1), NOWHERE, np.int32)
    is_unique = right.num_rows <= ROWS_MOST
    for first, codes in _codes(join, coded.keys, right, context):
        is_unique = is_unique and row_of_codes(codes, first, row_of)
    row_of_code = row_of.astype(np.int64) if is_unique else _row_of_keys(join, table, coded, left, right, context)
    # The last is for rows whose key is null, whose code is -1.
    pointers: Ints = np.append(row_of_code, NOWHERE).take(coded.codes, mode="wrap")
    return pointers


def _row_of_keys(
    join: ResolvedEqui, table: ResolvedTable, coded: CodedKeys, left: Source, right: Source, context: JoinContext
) -> Ints:
    """Return the right row of each key, where keys repeat: the greatest one, or an error if the spine has the key."""
    count = max(coded.keys.count, 1)
    row_of, times = np.full(count, NOWHERE, np.int64), np.zeros(count, np.int64)
    # Codes may be of no row of the spine: that of null, and those of values that only the right side has.
    spine_has = np.bincount(coded.codes[coded.codes != EMPTY], minlength=count) > 0
    parts = []
    for first, codes in _codes(join, coded.keys, right, context):
        here = np.flatnonzero(codes != EMPTY)
        rows, owners = here + first, codes[here].astype(np.int64)
        row_of[owners] = rows
        times += np.bincount(owners, minlength=count)
        parts.append((rows, owners))
    repeated = (times > 1) & spine_has
    if repeated.any():
        if table.duplicates == "error":
            row = int(np.flatnonzero((coded.codes != EMPTY) & repeated[coded.codes])[0])
            raise _repeated_key_error(join, left, row, context)
        rows, owners = (np.concatenate(each) for each in zip(*parts, strict=True))
        rows, owners = _greatest(rows[repeated[owners]], owners[repeated[owners]], join, right, context)
        row_of[owners] = rows
    return row_of


def _codes(join: ResolvedEqui, keys: Keys, right: Source, context: JoinContext) -> Iterator[tuple[int, Codes]]:
    """Yield the key codes of right rows, `EMPTY` for keys that the spine lacks, with the number of the first row."""
    names = list(dict.fromkeys(join.right_by))

    def read(part: int) -> list[tuple[int, Codes]]:
        parts = []
        for start, batch in right.numbered(part, names, names):
            codes = np.empty(batch.num_rows, np.int32)
            keys.find([batch.column(name) for name in join.right_by], codes)
            parts.append((start, codes))
        return parts

    for parts in context.threads.map(read, range(len(right.part_rows))):
        yield from parts


def equal_pointers(
    join: ResolvedEqui,
    table: ResolvedTable,
    _spine: Spine,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    run: Runner,
) -> Ints:
    """Return the right row that matches each row of the spine, in an equality join that has a further condition."""
    pairs = replace(join, how="inner").row_pairs()
    rows = pa.Table.from_batches(list(run(pairs, left, right, context)), pairs.output_schema)
    left_rows, right_rows = rows.column(0).to_numpy(), rows.column(1).to_numpy()
    times = np.bincount(left_rows, minlength=left.num_rows)
    repeated = times > 1
    pointers = np.full(left.num_rows, NOWHERE, np.int64)
    pointers[left_rows] = right_rows
    if repeated.any():
        if table.duplicates == "error":
            raise _repeated_key_error(join, left, int(np.flatnonzero(repeated)[0]), context)
        here = repeated[left_rows]
        greatest, owners = _greatest(right_rows[here], left_rows[here], join, right, context)
        pointers[owners] = greatest
    return pointers


def _greatest(rows: Ints, owners: Ints, join: ResolvedEqui, right: Source, context: JoinContext) -> tuple[Ints, Ints]:
    """Return for each owner the greatest of its right rows, by their columns in schema order but for the key."""
    columns = tuple(name for name in join.right_schema.names if name not in join.right_by)
    order = order_of([owners, *tie_keys(right, columns, rows, context)], context)
    last = order[np.append(np.diff(owners[order]) != 0, True)]
    return rows[last], owners[last]


def _repeated_key_error(join: ResolvedEqui, left: Source, row: int, context: JoinContext) -> DataError:
    cells = row_text(left, join, (name for name, _ in join.spec.on_pairs()), row, context)
    return DataError(
        f"Several rows match the row of the spine with {cells} (row {row:,}), but at most one is allowed. Remove the "
        "duplicates, or pass duplicates='greatest' for the row that is greatest by its columns in schema order.",
        name="JN-DUPLICATE-MATCHES",
    )
