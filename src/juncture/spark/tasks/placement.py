"""The partitions of one side's rows, by a hash of the key and the interval that contains a common value of each match.

Hashes and codes decide only where a row goes, never whether it matches. Different keys may share a hash, neighbouring
values may share a code, and distances may be rounded outward. But equal values must have equal codes and greater values
never smaller ones, whatever the types of the two sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import both, float_codes, plain, validity
from juncture.columnar.key_encoding import KeyHashes
from juncture.columnar.key_table import KeyCodes
from juncture.kernels.array_types import Floats, Ints, Mask, Words
from juncture.local.inequality.conditions import points_of
from juncture.local.keys import equal_columns, equal_types
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import RoughCoder, domain_of
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.spark.tasks.cuts import HIGHEST, LOWEST, KeyRanges
from juncture.spec.asof import ResolvedAsof
from juncture.spec.condition import EqualValues, Limit, MatchInterval, OwnInterval, ResolvedInequality, Value
from juncture.spec.predicate_condition import type_of_value
from juncture.spec.schema import Side


@dataclass(frozen=True)
class Coding:
    """How the rows of both sides are converted to numbers."""

    by: tuple[tuple[pa.DataType, pa.DataType], ...]  # the types of each pair of key columns
    on: tuple[pa.DataType, ...]  # the types of the ``on`` columns
    hash_bits: int = 64  # tests reduce it to make keys collide
    nulls_equal: bool = False

    @classmethod
    def of(cls, join: ResolvedAsof) -> Coding:
        """Return the coding of a join."""
        left, right = join.left_schema, join.right_schema
        on = left.field(join.left_on).type, right.field(join.right_on).type
        return cls(tuple(zip(*join.key_types, strict=True)), on, nulls_equal=join.nulls_equal)

    def hashes(self, columns: Sequence[pa.Array], rows: int) -> tuple[Words, Mask]:
        """Return the key hashes (zero without keys), and which rows have one that the other side may have too."""
        if not self.by:
            return np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
        hashes, usable = KeyHashes(*zip(*self.by, strict=True), nulls_equal=self.nulls_equal).of(columns)
        valid = np.ones(rows, np.bool_) if usable is None else usable
        dropped = np.uint64(64 - self.hash_bits)
        return (hashes >> dropped << dropped if dropped else hashes), valid

    @cached_property
    def order(self) -> RoughCoder:
        """The encoding of ``on``."""
        return RoughCoder(self.on)


def dense_keys(table: pa.Table, by: tuple[str, ...], *, nulls_equal: bool = False) -> Ints:
    """Return a small integer per row, equal exactly for equal keys. Keys must have no null unless nulls are equal."""
    columns = [one_chunk(table[name]) for name in by]
    types = [column.type for column in columns]
    codes = np.zeros(table.num_rows, np.int32)
    KeyCodes(types, types, nulls_equal=nulls_equal).add(columns, codes)
    return codes.astype(np.int64)


def row_codes(table: pa.Table) -> Ints:
    """Return an integer per row, equal exactly for rows that agree in all columns, nulls included."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in table.column_names:
        column = np.empty(table.num_rows, np.int32)
        array = one_chunk(table[name])
        KeyCodes([array.type], [array.type]).add([array], column)
        _, codes = np.unique((codes << 32) | column.astype(np.uint32), return_inverse=True)
    return codes.astype(np.int64)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    column = column.combine_chunks()
    return column if isinstance(column, pa.Array) else column.chunk(0)


_ROUNDING = 2.0**-50  # relative error of a float after a few operations


@dataclass(frozen=True)
class Placement:
    """Places the rows of one side."""

    side: Side
    by: tuple[str, ...]
    coding: Coding  # of keys, equal expressions, and the values of both sides
    interval: MatchInterval | None  # has a value that both rows of a match share
    decisive: tuple[str, ...]  # rows that agree in these columns match alike
    equalities: tuple[EqualValues, ...] = ()  # expressions that are equal in every match
    row_interval: OwnInterval | None = None  # the interval that the row itself is, or None

    @classmethod
    def of(cls, join: ResolvedInequality, side: Side) -> Placement | None:
        """Return the placement of a side; None if the condition limits neither keys nor values."""
        condition = join.condition
        interval, equalities = condition.interval, condition.equalities
        if interval is None and not equalities and not join.left_by:
            return None
        keys = tuple(zip(*join.key_types, strict=True))
        keys += tuple(zip(equal_types(equalities, "left"), equal_types(equalities, "right"), strict=True))
        limits = [] if interval is None else interval.limits
        values = tuple(type_of_value(join, index, limit.value) for index, limit in limits)
        coding = Coding(keys, values, nulls_equal=join.nulls_equal)
        by = join.left_by if side == "left" else join.right_by
        row_interval = condition.left_interval if side == "left" else condition.right_interval
        return cls(side, by, coding, interval, join.compared(side), equalities, row_interval)

    def ranges_of(self, table: pa.Table) -> KeyRanges:
        """Return the key ranges of some rows; rows with a reversed range match nothing.

        Raises `DataError` if the row's own interval starts after its end.
        """
        hashes, valid = self._hashes(table)
        if self.row_interval is not None:
            columns = [one_chunk(table[name]) for name in self.row_interval.names]
            points_of(self.row_interval, pa.record_batch(columns, names=self.row_interval.names), self.side)
        interval = self.interval
        if interval is None:
            nowhere = np.zeros(table.num_rows, np.int64)
            return KeyRanges(hashes, nowhere, nowhere, valid)
        first, has_end = self._end(table, interval, upper=False)
        valid = valid if has_end is None else valid & has_end
        if interval.is_point(self.side):
            return KeyRanges(hashes, first, first, valid)
        last, has_end = self._end(table, interval, upper=True)
        valid = valid if has_end is None else valid & has_end
        if interval.may_swap:
            return KeyRanges(hashes, np.minimum(first, last), np.maximum(first, last), valid)
        return KeyRanges(hashes, first, last, valid & (first <= last))

    def _hashes(self, table: pa.Table) -> tuple[Words, Mask]:
        """Return the key hashes, and which rows have one. Without keys, all hashes are zero."""
        columns = [one_chunk(table[name]) for name in self.by]
        columns += equal_columns(self.equalities, self.side, table)
        return self.coding.hashes(columns, table.num_rows)

    def _values(self, table: pa.Table, value: Value) -> pa.Array:
        if isinstance(value, str):
            return plain(one_chunk(table[value]))
        return plain(evaluate(value, **{self.side: table}))

    def _end(self, table: pa.Table, interval: MatchInterval, *, upper: bool) -> tuple[Ints, Mask | None]:
        """Return the codes of an end, and which rows have one; None if all have."""
        limit = interval.ends(self.side)[upper]
        if limit is None:
            return np.full(table.num_rows, HIGHEST if upper else LOWEST), None
        values = self._values(table, limit.value)
        added = None if limit.column is None else self._values(table, limit.column)
        if interval.domain.floating:
            codes, has_end = _float_codes(values, limit, added, exact=interval.exact)
        else:
            codes, has_end = self.coding.order.encode(values)
            if added is not None:
                codes, has_distance = _moved_by_row(codes, added, limit, interval.domain, self.coding.order)
                has_end = both(has_end, has_distance)
            elif limit.offset:
                in_code = self.coding.order.steps_in_code
                codes = _moved(codes, math.floor(Fraction(limit.offset) / in_code) + (upper and in_code > 1))
        return np.maximum(codes, LOWEST), has_end if added is None else both(has_end, validity(added))


def _float_codes(values: pa.Array, limit: Limit, added: pa.Array | None, *, exact: bool) -> tuple[Ints, Mask | None]:
    """Return the codes of an end among floats, and which rows have one."""
    ends, has_end = _numbers(values), validity(values)
    offset: float | Floats = float(limit.offset) if added is None else _numbers(added)
    if limit.is_moved:
        with np.errstate(invalid="ignore", over="ignore"):
            moved = ends + offset
            if not exact:
                slack = (np.abs(ends) + np.abs(offset)) * _ROUNDING
                moved = moved + slack if limit.upper else moved - slack
        ends = moved
    return float_codes(ends), both(has_end, ~np.isnan(ends)) if exact else has_end


def _moved_by_row(codes: Ints, added: pa.Array, limit: Limit, domain: Domain, order: RoughCoder) -> tuple[Ints, Mask]:
    """Return codes moved by a column of distances, and which rows have one."""
    distance = _numbers(added) / float(domain.step * order.steps_in_code)
    slack = np.abs(distance) * _ROUNDING + 1
    has_end = ~np.isnan(distance)
    return _moved(codes, np.where(has_end, distance + slack if limit.upper else distance - slack, 0)), has_end


def _moved(codes: Ints, steps: int | Floats) -> Ints:
    """Return codes moved by some steps, clipped to the range of codes."""
    added: Any
    if isinstance(steps, int):
        added = np.int64(max(LOWEST, min(HIGHEST, steps)))
    else:
        # The greatest float below 2⁶³ is 2⁶³ - 1024.
        added = np.clip(steps, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
        added = np.where(np.asarray(steps) >= 2.0**63 - 1024, HIGHEST, added)
    total = codes + added
    wrapped = ((codes ^ total) & (added ^ total)) < 0
    return np.asarray(np.where(wrapped, np.where(added < 0, LOWEST, HIGHEST), total), np.int64)


def _numbers(values: pa.Array) -> Floats:
    """Return values as floats, times in seconds."""
    domain = domain_of(values.type)
    assert domain is not None
    return domain.numbers(values)
