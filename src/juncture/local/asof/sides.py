"""Both sides of an as-of join as codes: read for the algorithms that pass over them, sorted for those that search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import both
from juncture.kernels import asof as kernels
from juncture.kernels.array_types import Codes, Ints, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.local.keys import Keys, left_keys_of
from juncture.ordered.domain import Coder, RankCoder
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots, order_of, rows_with_key, sort_slots
from juncture.runtime.sources import Source, TableSource
from juncture.spec.asof import ResolvedAsof

Part = TypeVar("Part")

_NO_TIMES = np.zeros(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a join: its columns, and what codes them."""

    source: Source
    on: str
    by: tuple[str, ...]
    coder: Coder  # the coder of ``on``
    keys: Keys  # what assigns the key codes
    time: str | None = None  # when a right row becomes available, or up to when a left row sees them; None for always
    time_coder: Coder | None = None


@dataclass(frozen=True, kw_only=True)
class RightRows(Side):
    """The right side of a join, as the algorithms read it."""

    parts: Sequence[int]  # the parts that may have matches
    tie_columns: tuple[str, ...] = ()  # the columns that break ties
    # With "order", only tied rows are sorted if there is room for all of them.
    ties: Literal["break", "order", "ignore"] = "break"
    code_columns: tuple[str, ...] = ()  # the first of these, whose codes are stored with the candidates
    decided: bool = False  # whether these codes break all ties
    may_flood: bool = False  # whether to give up if millions of rows tie and their codes are not stored
    first: bool = False  # whether the least of tied rows wins, and the first of equal ones

    @property
    def rows(self) -> int:
        """How many rows the parts hold."""
        return sum(self.source.part_rows[part] for part in self.parts)

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a part that `encode` and tie-breaking codes need."""
        yield from self.source.read(part, list(dict.fromkeys((self.on, *self.by, *self.code_columns))), self.by)

    def encode(self, batch: pa.RecordBatch, keys: Codes, on: Ints) -> None:
        """Write the codes of a batch's rows: key `EMPTY` where ``on`` is null or NaN, or no left row has the key."""
        on[:], valid = self.coder.encode(batch.column(self.on))
        if self.by:
            self.keys.find([batch.column(name) for name in self.by], keys)
        else:
            keys[:] = 0
        if valid is not None:
            keys[~valid] = EMPTY


@dataclass(frozen=True)
class SideCodes:
    """Rows of some parts of a side as codes, in the order of reading."""

    parts: Sequence[int]
    keys: Codes  # key code of each row, `EMPTY` if it cannot match; empty if all rows can and have one key
    on: Ints  # ``on`` code of each row
    times: Ints  # code of each row's time; empty if rows have none
    order: int | None = None  # what `juncture.kernels.merge.order_of_values` returns for `on`, if that is known

    def with_keys(self) -> SideCodes:
        """Return the same with a key code for each row."""
        return self if len(self.keys) == len(self.on) else replace(self, keys=np.zeros(len(self.on), np.int32))


def read_codes(
    side: Side,
    parts: Sequence[int],
    code_keys: Callable[[list[pa.Array], Codes], None],
    phase: str,
    context: JoinContext,
    *,
    limit: tuple[str, Callable[[pa.Array, slice], None]] | None = None,
) -> SideCodes:
    """Read some parts of a side as codes. Rows without a value or a time have no key.

    `code_keys` adds keys, or looks them up. `limit` is a further column, and what receives its values with the numbers
    of their rows. A column in memory whose values are the codes is not copied.
    """
    source, sizes = side.source, [side.source.part_rows[part] for part in parts]
    total = sum(sizes)
    advance, done = context.progress.of(phase), 0
    buffered_codes, order = _whole_codes(side) if total == source.num_rows else None, None
    if buffered_codes is not None and isinstance(source, TableSource):
        order = source.orders.get(side.on)
        if not side.by and side.time is None and limit is None:
            advance(total, total)
            valid = buffered_codes[1]
            keys = np.zeros(0, np.int32) if valid is None else np.where(valid, np.int32(0), np.int32(EMPTY))
            return SideCodes(parts, keys, buffered_codes[0], _NO_TIMES, order)
    starts = [0, *accumulate(sizes)]
    # Without keys, all rows have the code 0.
    keys = np.empty(total, np.int32) if side.by else np.zeros(total, np.int32)
    on = np.empty(total, np.int64) if buffered_codes is None else buffered_codes[0]
    times = np.empty(total * (side.time is not None), np.int64)
    further = (side.on if buffered_codes is None else None, side.time, None if limit is None else limit[0])
    columns = list(dict.fromkeys([*side.by, *(name for name in further if name is not None)]))

    def read(number: int) -> bool:
        """Code the rows of a part, and return whether all of them can match."""
        first, are_complete = starts[number], True
        for arrays in source.arrays(parts[number], columns, side.by):
            named = dict(zip(columns, arrays, strict=True))
            rows = slice(first, first + len(arrays[0]))
            if buffered_codes is None:
                on[rows], valid = side.coder.encode(named[side.on])
            else:
                valid = None if buffered_codes[1] is None else buffered_codes[1][rows]
            if side.by:
                code_keys([named[name] for name in side.by], keys[rows])
            if side.time is not None and side.time_coder is not None:
                times[rows], here = side.time_coder.encode(named[side.time])
                valid = both(valid, here)
            if valid is not None:
                keys[rows][~valid] = EMPTY
                are_complete = False
            if limit is not None:
                limit[1](named[limit[0]], rows)
            first = rows.stop
        return are_complete

    has_one_key = not side.by
    for size, are_complete in zip(sizes, context.threads.map(read, range(len(sizes))), strict=True):
        has_one_key = has_one_key and are_complete
        done += size
        advance(done, total)
    return SideCodes(parts, keys[:0] if has_one_key else keys, on, times, order)


def _whole_codes(side: Side) -> tuple[Ints, Mask | None] | None:
    """Return the codes of a column that lies in memory in one piece; without a copy where its values are the codes."""
    source = side.source
    array = source.column(side.on) if isinstance(source, TableSource) and side.on in source.schema.names else None
    return None if array is None else side.coder.encode(array)


@dataclass(frozen=True)
class LeftCodes:
    """Left rows as codes, in their order."""

    codes: SideCodes
    keys: Keys  # what assigns the key codes
    # The greatest distances, one or one for each row; of ranks, Python's numbers in steps of the domain.
    limits: Words | list[Any]
    barred: Mask | None  # rows whose own tolerance is null or negative; None if there are none


@dataclass(frozen=True)
class Left:
    """Left rows that can match, in the order of key and ``on``. Fields as in `LeftCodes`."""

    slots: Slots
    keys: Keys
    limits: Words | list[Any]
    barred: Mask | None
    asof_codes: Ints  # the code of the time up to which each slot sees right rows; empty if it sees all


def read_left(
    join: ResolvedAsof, source: Source, parts: range, coder: Coder, context: JoinContext, time_coder: Coder | None
) -> LeftCodes:
    """Read some parts of the left side as codes. `time_coder` is None if left rows see all right rows."""
    keys = left_keys_of(join, source)
    time = None if join.available_at is None or time_coder is None else join.available_at.left
    side = Side(
        source=source, on=join.left_on, by=join.left_by, coder=coder, keys=keys, time=time, time_coder=time_coder
    )
    column = None if join.tolerance is None else join.tolerance.column
    if column is None:
        codes = read_codes(side, parts, keys.add, "left", context)
        return LeftCodes(codes, keys, coder.limit(join.tolerance), None)
    total = int(source.bounds[parts.stop] - source.bounds[parts.start])
    limits: Words | list[Any] = [0] * total if isinstance(coder, RankCoder) else np.empty(total, np.uint64)
    barred = np.zeros(total, np.bool_)

    def take(array: pa.Array, rows: slice) -> None:
        limits[rows], valid = coder.limits(array)
        if valid is not None:
            barred[rows] = ~valid

    codes = read_codes(side, parts, keys.add, "left", context, limit=(column, take))
    return LeftCodes(codes, keys, limits, barred if barred.any() else None)


def sorted_left(left: LeftCodes, context: JoinContext) -> Left:
    """Return left rows in the order of key, ``on``, and the time up to which they see right rows; 48 bytes a row."""
    codes = left.codes.with_keys()
    rows = rows_with_key(codes.keys)
    if len(codes.times):
        rows = rows[order_of([codes.times[rows]], context)]
    slots = sort_slots(codes.keys, codes.on, rows, max(left.keys.count, 1), context)
    return Left(
        slots, left.keys, left.limits, left.barred, codes.times[slots.rows] if len(codes.times) else codes.times
    )


def pointers_of(right: RightRows, parts: Sequence[int]) -> Ints:
    """Return the numbers of the rows of some parts."""
    bounds = right.source.bounds
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(bounds[part], bounds[part + 1]) for part in parts)])


def count_matches(choose: Callable[[Part, Ints], None], parts: Iterable[Part], context: JoinContext) -> Ints:
    """Return the counters of `juncture.kernels.asof` over all parts, to which `choose` adds those of one."""

    def count(part: Part) -> Ints:
        counts = no_matches()
        choose(part, counts)
        return counts

    total = no_matches()
    for counts in context.threads.map(count, parts):
        firsts = [int(each[kernels.FIRST_TIED]) for each in (total, counts)]
        total += counts
        total[kernels.FIRST_TIED] = min((first for first in firsts if first >= 0), default=-1)
    return total


def no_matches() -> Ints:
    """Return the counters of no rows."""
    counters = np.zeros(kernels.COUNTERS, np.int64)
    counters[kernels.FIRST_TIED] = -1
    return counters
