"""The right side of an equality join, its rows brought together by key, and the prober that looks keys up in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.errors import PlanError
from juncture.kernels import hash as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.keys import Keys, PartitionedKeys
from juncture.local.output.pairs import BuildSide
from juncture.local.output.payload import Holder, Payload, read_all
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import FixedColumn, SelectedSource, worth_coding

KeySpans = Callable[[list[pa.Array], Codes, Codes], None]
"""Writes where the right rows of each left key start and end, given the key columns."""

_Share = list[tuple[int, Codes]]  # pieces of the codes of some rows, each with the number of its first row

_ROWS_MOST = (1 << 31) - 2


class HashIndex(BuildSide):
    """Right rows, those of one key side by side in their order.

    `starts` are the place where each key's rows start, and the number of places at the end. If no key has two rows,
    `row_of` replaces `starts` and `rows`: the row of each key code, `EMPTY` without one.
    """

    def __init__(self, starts: Ints, rows: Codes | None, total: int, row_of: Codes | None = None) -> None:
        super().__init__(rows, total)
        self.starts, self.row_of = starts, row_of

    @cached_property
    def has_each_key_once(self) -> bool:
        """Whether no key has two rows: the place of a key's row is in `row_of`, or else its code."""
        if self.row_of is not None:
            return True
        return len(self.starts) == len(self) + 1 and bool((self.starts[1:] - self.starts[:-1] == 1).all())


def spans_by_code(right: HashIndex, keys: Keys) -> KeySpans:
    """Return what looks left keys up in a table of keys."""

    def spans(columns: list[pa.Array], first: Codes, end: Codes) -> None:
        codes = np.empty(len(first), np.int32)
        keys.find(columns, codes)
        if right.row_of is not None:
            kernels.spans_of_rows(codes, right.row_of, first, end)
        elif right.has_each_key_once:
            # Codes are places then, which spares a look at two of them for each row.
            np.maximum(codes, 0, out=first)
            np.add(codes, 1, out=end)
        else:
            kernels.spans_of_codes(codes, right.starts, first, end)

    return spans


def read_right(
    source: Source, names: Sequence[str], keys: Keys, context: JoinContext, *, holder: Holder | None = None
) -> HashIndex:
    """Read the right side, assign codes to its keys, and bring its rows together.

    The first side of the empty `keys` is the right one. `holder` receives its columns on the way, so that they need not
    be read again. The result has 4 bytes a row and 8 a key, beside the keys themselves; building it takes 8 more a row.
    """
    codes = add_all(source, names, keys, context, holder=holder, phase="right")
    return _grouped([codes], keys.count, context)


def read_left_keys(
    left: tuple[Source, Sequence[str]],
    right: tuple[Source, Sequence[str]],
    keys: Keys,
    context: JoinContext,
    *,
    all_rows: bool = False,
    presence: bool = False,
) -> tuple[HashIndex, Source]:
    """Assign codes to the keys of the left side, and find the right rows that have one, numbered in their order.

    `left` and `right` are each side and its key columns; the first side of the empty `keys` is the left one. With
    `all_rows`, right rows of other keys are kept, too. With `presence`, only the keys of the right side matter, and no
    row is kept.
    """
    add_all(*left, keys, context)
    source, _ = right
    is_present = np.zeros(keys.count if presence else 0, np.bool_)
    parts = list(_matching(*right, keys, context, all_rows=all_rows, is_present=is_present if presence else None))
    if presence:
        starts = np.concatenate([[0], np.cumsum(is_present)]).astype(np.int64)
        return HashIndex(starts, np.zeros(0, np.int32), 0), SelectedSource(source, np.zeros(0, np.int32))
    groups = _grouped([codes for _, codes in parts], keys.count, context)
    if sum(len(rows) for rows, _ in parts) == source.num_rows:
        return groups, source
    firsts = source.bounds[:-1].astype(np.int32)
    selected = np.concatenate([rows + first for (rows, _), first in zip(parts, firsts, strict=True)])
    return groups, SelectedSource(source, selected)


def read_clustered(
    left: tuple[Source, Sequence[str]],
    right: tuple[Source, Sequence[str]],
    columns: Sequence[str],
    keys: Keys,
    context: JoinContext,
) -> tuple[HashIndex, Payload]:
    """Assign codes to the keys of the left side, and buffer the right rows that have one of them, by code.

    Where left rows have different keys, the output has the right rows in just this order: they are scattered once as
    they are read, and what would have to be gathered from everywhere, and copied, is a view. All buffered `columns`
    have a fixed width. Right rows are numbered by their places; other parameters are as for `read_left_keys`.

    Reads the right keys first, and then the columns of parts that have a row to buffer. Takes 8 bytes for each such row
    until it is done, beside the columns.
    """
    add_all(*left, keys, context)
    source, _ = right
    parts = list(_matching(*right, keys, context))
    starts = _place_rows([codes for _, codes in parts], keys.count, context)
    total = int(starts[-1])
    types = {name: source.schema.field(name).type for name in columns}
    targets = {name: FixedColumn(data_type, total) for name, data_type in types.items()}

    def read(part: int) -> None:
        rows, positions = parts[part]
        start = first = 0
        for batch in source.read(part, columns):
            end = int(np.searchsorted(rows, np.int32(start + batch.num_rows)))
            for name, column in targets.items():
                column.scatter(plain(batch.column(name)), rows[first:end] - np.int32(start), positions[first:end])
            start, first = start + batch.num_rows, end

    if targets:
        context.threads.run(read, [part for part, (rows, _) in enumerate(parts) if len(rows)])
    # Where memory is short, rows under way must not keep all that is held.
    shares = not context.threads.is_frugal
    finished: dict[str, pa.Array | pa.ChunkedArray] = {name: column.finish() for name, column in targets.items()}
    return HashIndex(starts, None, total), Payload(finished, types, shares=shares)


def _matching(
    source: Source,
    names: Sequence[str],
    keys: Keys,
    context: JoinContext,
    *,
    all_rows: bool = False,
    is_present: Mask | None = None,
) -> Iterator[tuple[Codes, Codes]]:
    """Yield for each part which of its rows have a key that is known (all with `all_rows`), and the codes of these.

    Where `is_present` is passed, the codes are marked there, and no row is yielded.
    """
    check_rows(source.num_rows)
    coded = worth_coding(source, names)

    def read(part: int) -> tuple[Codes, Codes]:
        rows, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        start = 0
        for batch in source.read(part, names, coded):
            part_codes = np.empty(batch.num_rows, np.int32)
            keys.find(batch.columns, part_codes)
            here = np.flatnonzero(part_codes != EMPTY)
            if is_present is not None:
                is_present[part_codes[here]] = True
            elif all_rows or len(here) == len(part_codes):
                rows.append(np.arange(start, start + len(part_codes), dtype=np.int32))
                codes.append(part_codes)
            else:
                rows.append((here + start).astype(np.int32))
                codes.append(part_codes[here])
            start += batch.num_rows
        return np.concatenate(rows), np.concatenate(codes)

    advance = context.progress.of("right")
    for part, each in enumerate(context.threads.map(read, range(len(source.part_rows)))):
        yield each
        advance(int(source.bounds[part + 1]), source.num_rows)


def add_all(
    source: Source,
    names: Sequence[str],
    keys: Keys,
    context: JoinContext,
    *,
    holder: Holder | None = None,
    phase: str | None = None,
) -> Codes:
    """Add the keys of all rows of a source, and return their codes."""
    check_rows(source.num_rows)
    codes = np.empty(source.num_rows, np.int32)

    def add(batch: pa.RecordBatch, rows: slice) -> None:
        keys.add([batch.column(name) for name in names], codes[rows])

    read_all(source, names, add, context, coded=worth_coding(source, names), phase=phase, holder=holder)
    if isinstance(keys, PartitionedKeys):
        keys.finish(context)
    return codes


def check_rows(rows: int) -> None:
    """Refuse more rows than can be numbered."""
    if rows > _ROWS_MOST:
        raise PlanError(
            f"A side has {rows:,} rows, but this algorithm supports at most {_ROWS_MOST:,}. Pass algorithm='grace', "
            "which joins partitions.",
            name="JN-ROWS-LIMIT",
        )


def _grouped(pieces: Sequence[Codes], count: int, context: JoinContext) -> HashIndex:
    """Bring rows together by their codes, which come in pieces; those with the code `EMPTY` are left out."""
    total = sum(map(len, pieces))
    if count > total // 2 and (row_of := _row_of(pieces, count)) is not None:
        return HashIndex(np.zeros(1, np.int64), None, total, row_of)
    work, starts, positions = _tallied(pieces, count, context)
    rows = np.empty(int(starts[-1]), np.int32)

    def order(share: int) -> None:
        for first, codes in work[share]:
            kernels.order_by_code(codes, first, positions[share], rows)

    context.threads.run(order, range(len(work)))
    return HashIndex(starts, rows, total)


def _row_of(pieces: Sequence[Codes], count: int) -> Codes | None:
    """Return the row of each code; None if a code has two rows."""
    row_of = np.full(count, EMPTY, np.int32)
    first = 0
    for codes in pieces:
        if not kernels.row_of_codes(codes, first, row_of):
            return None
        first += len(codes)
    return row_of


def _place_rows(pieces: Sequence[Codes], count: int, context: JoinContext) -> Ints:
    """Replace the code of each row by its position in the order of codes, none of them `EMPTY`.

    Returns the position where the rows of each of `count` codes start, and the number of rows at the end.
    """
    work, starts, positions = _tallied(pieces, count, context)

    def replace_codes(share: int) -> None:
        for _, codes in work[share]:
            kernels.place_by_code(codes, positions[share])

    context.threads.run(replace_codes, range(len(work)))
    return starts


def _tallied(
    pieces: Sequence[Codes], count: int, context: JoinContext
) -> tuple[list[_Share], Ints, npt.NDArray[np.int32]]:
    """Count the rows of each code, as a counting sort begins in which each thread has a share of the rows.

    Returns the shares, the place where the rows of each code start with the number of places at the end, and for each
    share the place of its first row of each code, after the rows of the shares before it.
    """
    total = sum(map(len, pieces))
    # Each share has to know the place of every code.
    shares = min(context.threads.count, max(1, total // (2 * max(count, context.threads.sizes.cache_rows))))
    work = _shared(pieces, shares)
    counts = np.zeros((shares, count), np.int32)

    def tally(share: int) -> None:
        for _, codes in work[share]:
            kernels.count_codes(codes, counts[share])

    context.threads.run(tally, range(shares))
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0, dtype=np.int64))])
    positions = np.cumsum(counts, axis=0, dtype=np.int32)
    positions -= counts
    positions += starts[:-1].astype(np.int32)
    return work, starts, positions


def _shared(pieces: Sequence[Codes], shares: int) -> list[_Share]:
    """Cut pieces into shares of about as many rows, each piece of one with the number of its first row."""
    firsts = np.cumsum([0, *map(len, pieces)]).tolist()
    edges = np.linspace(0, firsts[-1], shares + 1).astype(np.int64).tolist()
    work: list[_Share] = []
    for low, high in pairwise(edges):
        cut = [
            (max(first, low), codes[max(low - first, 0) : max(high - first, 0)])
            for first, codes in zip(firsts, pieces, strict=False)
        ]
        work.append([(first, codes) for first, codes in cut if len(codes)])
    return work
