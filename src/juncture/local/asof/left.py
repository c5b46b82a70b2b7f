"""The left side of an as-of join, read into codes, and sorted by key and ``on`` for algorithms that search it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.kernels.array_types import Codes, Ints, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof.right import codes_of_one_key, whole_codes
from juncture.local.keys import Keys, keys_of
from juncture.ordered.domain import Coder, RankCoder
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots, order_of, sort_slots
from juncture.runtime.sources import Source
from juncture.spec.asof import ResolvedAsof


@dataclass(frozen=True)
class LeftCodes:
    """Left rows as codes, in their order.

    `limits` are the greatest distances as the kernels compare them: one, or one for each row. If codes are ranks, they
    are a list of Python's numbers instead, in steps of the domain.
    """

    codes: Codes  # key code of each row, `EMPTY` if it cannot match; empty if all rows can and have one key
    on: Ints  # ``on`` code of each row
    keys: Keys  # what assigns the key codes
    limits: Words | list[Any]
    barred: npt.NDArray[np.bool_] | None  # rows whose own tolerance is null or negative; None if there are none
    seen: Ints  # the code of the time up to which each row sees right rows; empty if it sees all


@dataclass(frozen=True)
class Left:
    """Left rows that can match, in the order of key and ``on``. Fields as in `LeftCodes`."""

    slots: Slots
    keys: Keys
    limits: Words | list[Any]
    barred: npt.NDArray[np.bool_] | None
    seen: Ints  # as in `LeftCodes`, for each slot


def read_codes(
    join: ResolvedAsof,
    source: Source,
    parts: range,
    coder: Coder,
    context: JoinContext,
    *,
    seen_coder: Coder | None = None,
) -> LeftCodes:
    """Read some parts of the left side as codes.

    `seen_coder` codes the times up to which right rows are known; None if all are.
    """
    first = int(source.bounds[parts.start])
    total = int(source.bounds[parts.stop]) - first
    types = (
        [join.left_schema.field(name).type for name in join.left_by],
        [join.right_schema.field(name).type for name in join.right_by],
    )
    keys = keys_of(source, join.left_by, types, nulls_equal=join.nulls_equal)
    reading = _Reading(join, source, coder, keys, first, total, seen_coder)
    advance, done = context.progress.of("left"), 0
    if reading.whole is not None and not join.left_by and reading.tolerance is None and seen_coder is None:
        advance(total, total)
        codes = codes_of_one_key(reading.whole[1])
        return LeftCodes(codes, reading.on, keys, limits=reading.all_limits(), barred=None, seen=reading.seen)
    for read in context.threads.map(reading.read, parts):
        done += read
        advance(done, total)
    has_one_key = not join.left_by and not reading.some_lack
    return LeftCodes(
        codes=reading.codes[:0] if has_one_key else reading.codes,
        on=reading.on,
        keys=keys,
        limits=reading.all_limits(),
        barred=reading.barred if reading.barred.any() else None,
        seen=reading.seen,
    )


def sorted_left(left: LeftCodes, context: JoinContext) -> Left:
    """Return left rows in the order of key, ``on``, and the time up to which they see right rows.

    The peak is 48 bytes a row.
    """
    codes = left.codes if len(left.codes) else np.zeros(len(left.on), np.int32)
    rows = _present(codes)
    if len(left.seen):
        rows = rows[order_of([left.seen[rows]], context)]
    slots = sort_slots(codes, left.on, rows, max(left.keys.count, 1), context)
    return Left(
        slots=slots,
        keys=left.keys,
        limits=left.limits,
        barred=left.barred,
        seen=left.seen[slots.rows] if len(left.seen) else left.seen,
    )


def _present(codes: Codes) -> Codes:
    """Return the rows that have a key. Mostly all do, and then none has to be looked for."""
    if (codes != EMPTY).all():
        return np.arange(len(codes), dtype=np.int32)
    return np.flatnonzero(codes != EMPTY).astype(np.int32)


class _Reading:
    """What the threads that read the left side write to."""

    def __init__(
        self,
        join: ResolvedAsof,
        source: Source,
        coder: Coder,
        keys: Keys,
        first: int,
        total: int,
        seen_coder: Coder | None,
    ) -> None:
        self.join = join
        self.source = source
        self.coder = coder
        self.keys = keys
        self.first = first
        # Without keys, all rows have the code 0.
        self.codes = np.empty(total, np.int32) if join.left_by else np.zeros(total, np.int32)
        self.whole = whole_codes(source, join.left_on, coder) if total == source.num_rows else None
        self.on = np.empty(total, np.int64) if self.whole is None else self.whole[0]
        self.seen_coder = seen_coder
        self.seen = np.empty(total * (seen_coder is not None), np.int64)
        self.tolerance = None if join.tolerance is None else join.tolerance.column
        own = self.tolerance is not None
        self.limits: Words | list[Any] = (
            [0] * (total * own) if isinstance(coder, RankCoder) else np.empty(total * own, np.uint64)
        )
        self.barred = np.zeros(total * own, np.bool_)
        self.some_lack = False

    def read(self, part: int) -> int:
        """Code the rows of a part."""
        join = self.join
        names = join.compared("left")
        start = int(self.source.bounds[part]) - self.first
        for batch in self.source.read(part, list(names), join.left_by):
            rows = slice(start, start + batch.num_rows)
            self._code(batch, rows)
            if self.tolerance:
                self._limit(batch.column(self.tolerance), rows)
            start = rows.stop
        return self.source.part_rows[part]

    def _code(self, batch: pa.RecordBatch, rows: slice) -> None:
        columns = [batch.column(name) for name in self.join.left_by]
        codes = self.codes[rows]
        if columns:
            self.keys.add(columns, codes)
        valid = self._code_on(batch, rows)
        if valid is not None:
            codes[~valid] = EMPTY
            self.some_lack = True
        if self.seen_coder is not None:
            assert self.join.available_at is not None
            self.seen[rows], sees = self.seen_coder.encode(batch.column(self.join.available_at.left))
            if sees is not None:
                codes[~sees] = EMPTY
                self.some_lack = True

    def _code_on(self, batch: pa.RecordBatch, rows: slice) -> Mask | None:
        """Code the ``on`` values of a batch, and return which are usable, None for all."""
        if self.whole is not None:
            _, valid = self.whole
            return None if valid is None else valid[rows]
        self.on[rows], valid = self.coder.encode(batch.column(self.join.left_on))
        return valid

    def _limit(self, array: pa.Array, rows: slice) -> None:
        self.limits[rows], valid = self.coder.limits(array)
        if valid is not None:
            self.barred[rows] = ~valid

    def all_limits(self) -> Words | list[Any]:
        """Return one limit for all rows, or one for each."""
        if self.tolerance:
            return self.limits
        return self.coder.limit(self.join.tolerance)
