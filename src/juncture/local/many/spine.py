"""The spine of several joins: read once, coded once for each list of keys, sorted once for each list and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof.sides import Left, Side, read_codes
from juncture.local.reasons import CodedKeys
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sort import Slots, rows_with_key, sort_slots
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.take import select
from juncture.spec.resolved import Resolved

_HELD_SHARE = 1 / 8
"""The share of memory that a spine may take that is read once."""


def read_spine(left: Source, context: JoinContext) -> tuple[Source, JoinContext]:
    """Return a spine of files in memory if it fits, and the context with the rest of the memory.

    All joins read it, and the output has all of its columns.
    """
    names, total_bytes = left.schema.names, context.memory.total_bytes
    if not isinstance(left, ParquetSource) or (size := left.plain_bytes_of(names)) > total_bytes * _HELD_SHARE:
        return left, context
    rows = pa.table(select(left, names, None, context), schema=left.schema)
    return TableSource(rows.combine_chunks()), context.within(MemoryBudget(total_bytes - size))


class Spine:
    """What several joins know of their left side. Not for several threads at once."""

    def __init__(self, context: JoinContext) -> None:
        self._context = context
        self._keys: dict[Any, CodedKeys] = {}
        self._orders: dict[Any, tuple[CodedKeys, Slots]] = {}

    def keys(self, join: Resolved, left: Source) -> CodedKeys:
        """Return the keys of a join in codes; `left` is the spine in the working types of the join."""
        name = _name_of_keys(join)
        if name not in self._keys:
            self._keys[name] = CodedKeys.of(join, left, self._context)
        return self._keys[name]

    def order(self, join: Any, left: Source) -> tuple[CodedKeys, Slots]:
        """Return the keys, and the rows that can match in the order of keys and left ``on``.

        Raises `TooWideError` if a value has no code.
        """
        name = (_name_of_keys(join), join.left_on, join.domain)
        if name not in self._orders:
            coded = self.keys(join, left)
            side = Side(source=left, on=join.left_on, by=(), coder=join.domain, keys=coded.keys)
            here = read_codes(side, range(len(left.part_rows)), coded.keys.add, "left", self._context.quiet())
            codes = coded.codes if len(here.keys) == 0 else np.where(here.keys == EMPTY, here.keys, coded.codes)
            slots = sort_slots(codes, here.on, rows_with_key(codes), max(coded.keys.count, 1), self._context)
            self._orders[name] = coded, slots
        return self._orders[name]

    def asof_left(self, join: Any, left: Source) -> Left:
        """Return the spine as the left side of as-of joins whose right rows are all known; raises like `order`."""
        coded, slots = self.order(join, left)
        return Left(
            slots=slots,
            keys=coded.keys,
            limits=join.domain.limit(join.tolerance),
            barred=None,
            asof_codes=np.empty(0, np.int64),
        )


def _name_of_keys(join: Resolved) -> Any:
    """Return the identity of a key coding: the columns, and the types on both sides."""
    sides = (join.left_schema, join.left_by), (join.right_schema, join.right_by)
    types = tuple(str(plain_type(schema.field(column).type)) for schema, by in sides for column in by)
    return join.left_by, types, join.nulls_equal
