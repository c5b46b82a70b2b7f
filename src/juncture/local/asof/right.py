"""The right side of an as-of join, as the algorithms read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Codes, Ints, Mask, Rows
from juncture.kernels.hash_table import EMPTY
from juncture.local.keys import Keys
from juncture.ordered.domain import Coder
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source, TableSource


@dataclass(frozen=True)
class RightRows:
    """The right side of a join, as the algorithms read it.

    Ties are broken, or with ``"order"`` only tied rows are sorted if there is room for all of them, or they are
    ignored.
    """

    source: Source
    on: str
    by: tuple[str, ...]
    coder: Coder  # the coder of ``on``
    keys: Keys  # what assigns the key codes
    parts: Sequence[int]  # the parts that may have matches
    tie_columns: tuple[str, ...] = ()  # the columns that break ties
    ties: Literal["break", "order", "ignore"] = "break"
    code_columns: tuple[str, ...] = ()  # the first of these, whose codes are stored with the candidates
    decided: bool = False  # whether these codes break all ties
    may_flood: bool = False  # whether to give up if millions of rows tie and their codes are not stored
    available_at: str | None = None  # the column with the time of availability; None if rows are always available
    available_at_coder: Coder | None = None
    first: bool = False  # whether the least of tied rows wins, and the first of equal ones

    @property
    def rows(self) -> int:
        """How many rows the parts hold."""
        return sum(self.source.part_rows[part] for part in self.parts)

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a part that `encode` looks at."""
        available_at = () if self.available_at is None else (self.available_at,)
        columns = list(dict.fromkeys((self.on, *self.by, *available_at, *self.code_columns)))
        yield from self.source.read(part, columns, self.by)

    def encode(self, batch: pa.RecordBatch, keys: Codes, on: Ints) -> None:
        """Write the codes of a batch's rows.

        A row whose ``on`` is null or NaN, or whose key no left row has, gets the key `EMPTY`.
        """
        on[:], valid = self.coder.encode(batch.column(self.on))
        if not self.by:
            keys[:] = 0
        self.find_keys(batch, keys, valid)

    def find_keys(self, batch: pa.RecordBatch, keys: Codes, valid: Mask | None) -> None:
        """Write the key codes of rows, given which have an ``on``, None for all. Without keys, codes come as zeros."""
        if self.by:
            self.keys.find([batch.column(name) for name in self.by], keys)
        if valid is not None:
            keys[~valid] = EMPTY

    def encode_known(self, batch: pa.RecordBatch, keys: Codes, known: Ints) -> None:
        """Write codes of the times when rows become available; rows that never do get the key `EMPTY`."""
        assert self.available_at is not None
        assert self.available_at_coder is not None
        values, valid = self.available_at_coder.encode(batch.column(self.available_at))
        known[:] = values
        if valid is not None:
            keys[~valid] = EMPTY


def load(right: RightRows, parts: Sequence[int], context: JoinContext) -> tuple[Rows, Ints, Ints]:
    """Return key code, ``on`` code, and known code if that matters, of the rows of some parts.

    Rows that are never known have no key. No codes are returned if all rows have one key.
    """
    sizes = [right.source.part_rows[part] for part in parts]
    total = sum(sizes)
    advance, done = context.progress.of("right"), 0
    whole = whole_codes(right.source, right.on, right.coder) if total == right.source.num_rows else None
    if whole is not None and not right.by and right.available_at is None:
        advance(total, total)
        return codes_of_one_key(whole[1]), whole[0], np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    keys = np.empty(total, np.int32) if right.by else np.zeros(total, np.int32)
    on = np.empty(total, np.int64) if whole is None else whole[0]
    known = np.empty(total * (right.available_at is not None), np.int64)
    has_one_key = [not right.by and right.available_at is None] * len(parts)

    def load_part(number: int) -> int:
        part, first = parts[number], int(starts[number])
        for batch in right.batches(part):
            rows = slice(first, first + batch.num_rows)
            if whole is None:
                on[rows], valid = right.coder.encode(batch.column(right.on))
            else:
                valid = None if whole[1] is None else whole[1][rows]
            right.find_keys(batch, keys[rows], valid)
            has_one_key[number] = has_one_key[number] and valid is None
            if right.available_at is not None:
                right.encode_known(batch, keys[rows], known[rows])
            first = rows.stop
        return sizes[number]

    for rows in context.threads.map(load_part, range(len(sizes))):
        done += rows
        advance(done, total)
    return keys[:0] if all(has_one_key) else keys, on, known


def pointers_of(right: RightRows, parts: Sequence[int]) -> Ints:
    """Return the numbers of the rows of some parts."""
    bounds = right.source.bounds
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(bounds[part], bounds[part + 1]) for part in parts)])


def codes_of_one_key(valid: Mask | None) -> Codes:
    """Return the key codes of rows that have one key if they are valid; none if all are."""
    return np.zeros(0, np.int32) if valid is None else np.where(valid, np.int32(0), np.int32(EMPTY))


def whole_codes(source: Source, column: str, coder: Coder) -> tuple[Ints, Mask | None] | None:
    """Return the codes of a column that lies in memory in one piece; without a copy where its values are the codes."""
    array = source.column(column) if isinstance(source, TableSource) and column in source.schema.names else None
    return None if array is None else coder.encode(array)
