"""The spine of several joins: coded once for each list of keys, and sorted once for each list and order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.kernels.array_types import Ints
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof.left import Left
from juncture.local.reasons import CodedKeys
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import Slots, sort_slots
from juncture.runtime.sources import Source
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class SpineOrder:
    """The rows of the spine that can match, in the order of a list of keys and a column."""

    coded: CodedKeys
    slots: Slots


class Spine:
    """What several joins know of their left side. Not for several threads at once."""

    def __init__(self, rows: int, context: JoinContext) -> None:
        self.rows = rows
        self._context = context
        self._keys: dict[Any, CodedKeys] = {}
        self._orders: dict[Any, SpineOrder] = {}

    def keys(self, join: Resolved, left: Source) -> CodedKeys:
        """Return the keys of a join in codes; `left` is the spine in the working types of the join."""
        name = _name_of_keys(join)
        if name not in self._keys:
            self._keys[name] = CodedKeys.of(join, left, self._context)
        return self._keys[name]

    def order(self, join: Any, left: Source) -> SpineOrder:
        """Return the spine in the order of a join's keys and its left ``on``.

        Raises `TooWideError` if a value has no code.
        """
        name = (_name_of_keys(join), join.left_on, join.domain)
        if name not in self._orders:
            coded = self.keys(join, left)
            on, valid = np.empty(self.rows, np.int64), np.ones(self.rows, np.bool_)

            def code(batch: pa.RecordBatch, rows: slice) -> None:
                on[rows], here = join.domain.encode(batch.column(0))
                if here is not None:
                    valid[rows] = here

            self._read(left, [join.left_on], code)
            codes = coded.codes if valid.all() else np.where(valid, coded.codes, EMPTY)
            rows = np.flatnonzero(codes != EMPTY).astype(np.int32)
            slots = sort_slots(codes, on, rows, max(coded.keys.count, 1), self._context)
            self._orders[name] = SpineOrder(coded, slots)
        return self._orders[name]

    def asof_left(self, join: Any, left: Source) -> Left:
        """Return the spine as the left side of as-of joins whose right rows are all known.

        Raises `TooWideError` if a value has no code.
        """
        order = self.order(join, left)
        return Left(
            slots=order.slots,
            keys=order.coded.keys,
            limits=join.domain.limit(join.tolerance),
            barred=None,
            seen=np.empty(0, np.int64),
        )

    def _read(self, left: Source, columns: list[str], take: Callable[[pa.RecordBatch, slice], None]) -> None:
        """Read columns, and hand on their batches with the numbers of their rows."""

        def read(part: int) -> None:
            start = int(left.bounds[part])
            for batch in left.read(part, columns, columns):
                take(batch, slice(start, start + batch.num_rows))
                start += batch.num_rows

        self._context.threads.run(read, range(len(left.part_rows)))


def positions_of(rows: Ints, total: int) -> Ints:
    """Return the inverse of a permutation of rows."""
    places = np.empty(total, np.int64)
    places[rows] = np.arange(total)
    return places


def _name_of_keys(join: Resolved) -> Any:
    """Return the identity of a key coding: the columns, and the types on both sides."""
    sides = (join.left_schema, join.left_by), (join.right_schema, join.right_by)
    types = tuple(str(plain_type(schema.field(column).type)) for schema, by in sides for column in by)
    return join.left_by, types, join.nulls_equal
