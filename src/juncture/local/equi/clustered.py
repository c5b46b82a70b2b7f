"""The right rows that have a left key, put side by side by key as they are read, for the output to copy as they are.

Where left rows have different keys, the output has the right rows in just this order: they are scattered once, and
what would have to be gathered from everywhere, and copied, is a view.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.kernels.array_types import Codes
from juncture.kernels.hash_table import EMPTY
from juncture.local.equi.hash_index import HashIndex, add_all, check_rows, place_rows
from juncture.local.keys import Keys
from juncture.local.output.payload import FixedColumn, Payload
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import worth_coding


def read_clustered(
    left: tuple[Source, Sequence[str]],
    right: tuple[Source, Sequence[str]],
    columns: Sequence[str],
    keys: Keys,
    context: JoinContext,
) -> tuple[HashIndex, Payload]:
    """Assign codes to the keys of the left side, and buffer the right rows that have one of them, by code.

    `left` and `right` are each side and its key columns; the first side of the empty `keys` is the left one. All
    buffered `columns` have a fixed width. Right rows are numbered by their places.

    Reads the right keys first, and then the columns of parts that have a row to buffer. Takes 8 bytes for each such row
    until it is done, beside the columns.
    """
    add_all(*left, keys, context)
    source, names = right
    check_rows(source.num_rows)
    matching = _matching_rows(source, names, keys, context)
    starts = place_rows([codes for _, codes in matching], keys.count, context)
    total = int(starts[-1])
    types = {name: source.schema.field(name).type for name in columns}
    held = {name: FixedColumn(data_type, total) for name, data_type in types.items()}

    def read(part: int) -> None:
        rows, places = matching[part]
        start = first = 0
        for batch in source.read(part, columns):
            end = int(np.searchsorted(rows, np.int32(start + batch.num_rows)))
            for name, column in held.items():
                column.scatter(plain(batch.column(name)), rows[first:end] - np.int32(start), places[first:end])
            start, first = start + batch.num_rows, end

    if held:
        context.threads.run(read, [part for part, (rows, _) in enumerate(matching) if len(rows)])
    # Where memory is short, rows under way must not keep all that is held.
    shares = not context.threads.is_frugal
    finished: dict[str, pa.Array | pa.ChunkedArray] = {name: column.finish() for name, column in held.items()}
    return HashIndex(starts, None, total), Payload(finished, types, shares=shares)


def _matching_rows(source: Source, names: Sequence[str], keys: Keys, context: JoinContext) -> list[tuple[Codes, Codes]]:
    """Return for each part which of its rows have a key that is known, and the codes of these."""
    coded = worth_coding(source, names)

    def read(part: int) -> tuple[Codes, Codes]:
        rows, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        start = 0
        for batch in source.read(part, names, coded):
            found = np.empty(batch.num_rows, np.int32)
            keys.find(batch.columns, found)
            here = np.flatnonzero(found != EMPTY)
            rows.append((here + start).astype(np.int32))
            codes.append(found[here])
            start += batch.num_rows
        return np.concatenate(rows), np.concatenate(codes)

    advance = context.progress.of("right")
    matching = []
    for part, each in enumerate(context.threads.map(read, range(len(source.part_rows)))):
        matching.append(each)
        advance(int(source.bounds[part + 1]), source.num_rows)
    return matching
