"""A join's condition in codes: what the right side is sorted by, and what the rows of the left side ask of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import both, floats, plain, value_text
from juncture.columnar.key_table import KeyCodes
from juncture.errors import DataError
from juncture.kernels.array_types import Floats, Ints, Mask
from juncture.local.inequality.index import BuildKeys, ProbeKeys
from juncture.local.keys import equal_columns, equal_types
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, LimitEnd, Offset
from juncture.ordered.domain import Domain, RankCoder
from juncture.predicate.evaluate.evaluate import evaluate, matches
from juncture.predicate.language.nodes import columns
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spec.condition import BoundedValue, JoinCondition, Limit, OwnInterval, ResolvedInequality, Value
from juncture.spec.schema import Side


@dataclass(frozen=True)
class CodedValue:
    """A bounded right value in codes."""

    value: BoundedValue
    coder: Domain | RankCoder

    @classmethod
    def of(cls, value: BoundedValue | None) -> CodedValue | None:
        """Return a value in codes of 64 bits."""
        return None if value is None else cls(value, value.domain)

    def encode(self, batch: pa.RecordBatch) -> tuple[Ints, Mask | None]:
        """Return the codes of right rows, and which rows have one. Raise `TooWideError` if one does not fit."""
        return self.coder.encode(self.right_values(batch))

    def rough(self, batch: pa.RecordBatch) -> Ints:
        """Return codes in the order of right rows that need not fit; different values may have the same."""
        values = plain(self.right_values(batch))
        return self.value.domain.rough([values.type]).codes(values)[0]

    def right_values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of right rows."""
        return self._values(self.value.right, batch, "right")

    def ends(self, batch: pa.RecordBatch) -> tuple[Ints | None, Ints | None, Mask | None]:
        """Return the least and the greatest code that left rows limit right ones to, and which rows any may satisfy."""
        ends: dict[bool, Ints] = {}
        possible: Mask | None = None
        for limit in self.value.limits:
            end = LimitEnd(limit.upper, limit.strict and self.value.exact)
            values = self._values(limit.value, batch, "left")
            codes, here = self.coder.ends(values, _offset(limit, batch), end)
            if not self.value.exact:
                codes = _loosened(codes, upper=limit.upper)
            possible = both(possible, here)
            if limit.upper in ends:
                codes = (np.minimum if limit.upper else np.maximum)(codes, ends[limit.upper])
            ends[limit.upper] = codes
        return ends.get(False), ends.get(True), both(possible, self.right_way_round(batch))

    def _values(self, value: Value, batch: pa.RecordBatch, side: Side) -> pa.Array:
        if isinstance(value, str):
            return batch.column(value)
        array = plain(evaluate(value, left=batch) if side == "left" else evaluate(value, right=batch))
        return array if self.value.type is None else array.cast(self.value.type, safe=False)

    def right_way_round(self, batch: pa.RecordBatch) -> Mask | None:
        """Return a mask of rows whose ends are in order, even if adding them to a large float makes them equal."""
        limits = {limit.upper: limit for limit in self.value.limits}
        is_rounded = self.value.domain.floating and self.value.exact
        if not is_rounded or len(limits) < 2 or not any(limit.is_moved for limit in limits.values()):
            return None
        least, most = (_floats(_offset(limits[upper], batch), batch.num_rows) for upper in (False, True))
        good: Mask = ~(least > most)
        return good


@dataclass(frozen=True)
class CodedCondition:
    """A join's condition in codes."""

    join: ResolvedInequality
    condition: JoinCondition  # the condition, or as much of it as an algorithm uses
    first: CodedValue | None  # the first bounded value
    second: CodedValue | None  # the second bounded value

    @classmethod
    def of(cls, join: ResolvedInequality, condition: JoinCondition | None = None) -> CodedCondition:
        """Return a join's condition, or some of it, in codes of 64 bits."""
        condition = condition or join.condition
        return cls(join, condition, CodedValue.of(condition.first), CodedValue.of(condition.second))

    def by_rank(self, right: Source) -> CodedCondition:
        """Return the condition with right values that need not fit 64 bits coded by rank: they are read."""
        first, second = (self._ranked(value, right) for value in (self.first, self.second))
        return replace(self, first=first, second=second)

    def in_window(self, name: str) -> CodedCondition:
        """Return the condition of one of several windows, in the same codes."""
        assert self.first is not None
        join = self.join.in_window(name)
        value = join.condition.first
        assert value is not None
        return replace(self, join=join, condition=join.condition, first=replace(self.first, value=value))

    @property
    def has_keys(self) -> bool:
        """Whether anything has to be equal."""
        return bool(self.join.left_by or self.condition.equalities)

    @property
    def key_types(self) -> tuple[list[pa.DataType], list[pa.DataType]]:
        """The types of the right and of the left key columns."""
        left, right = self.join.key_types
        equalities = self.condition.equalities
        return right + equal_types(equalities, "right"), left + equal_types(equalities, "left")

    def key_codes(self) -> KeyCodes:
        """Return an empty table of keys, which the right side fills and the left one looks up."""
        return KeyCodes(*self.key_types, nulls_equal=self.join.nulls_equal)

    def keys(self, batch: pa.RecordBatch, side: Side) -> list[pa.Array]:
        """Return the key columns of a side's rows."""
        by = self.join.left_by if side == "left" else self.join.right_by
        columns, equalities = [batch.column(name) for name in by], self.condition.equalities
        return columns + equal_columns(equalities, side, batch) if equalities else columns

    def coded(self, batch: pa.RecordBatch, first_row: int) -> BuildKeys:
        """Return what the join compares of right rows; raise DataError if an interval starts after its end."""
        valid, on, leaves = self._passed(batch, "right", first_row), None, None
        if self.first is not None:
            on, here = self.first.encode(batch)
            valid = both(valid, here) if self.first.value.limits else valid
        if self.second is not None:
            leaves, here = self.second.encode(batch)
            valid = both(valid, here)
            # Limits from above are limits from below of the complement.
            leaves = ~leaves if self.second.value.limits[0].upper else leaves
        return BuildKeys(self.keys(batch, "right"), on, leaves, valid)

    def probe_keys(self, batch: pa.RecordBatch) -> ProbeKeys:
        """Return what left rows seek."""
        possible, low, high, thresholds = self._passed(batch, "left"), None, None, None
        if self.first is not None:
            low, high, here = self.first.ends(batch)
            possible = both(possible, here)
        if self.second is not None:
            least, most, here = self.second.ends(batch)
            thresholds = least if most is None else ~most
            possible = both(possible, here)
        return ProbeKeys(self.keys(batch, "left"), low, high, thresholds, possible)

    def _passed(self, batch: pa.RecordBatch, side: Side, first_row: int | None = None) -> Mask | None:
        """Return which rows of a side can match by what they are themselves; None for all."""
        condition = self.condition
        node = condition.left_filter if side == "left" else condition.right_filter
        passed = None if node is None else matches(node, **{side: batch}).to_numpy(zero_copy_only=False)
        interval = condition.left_interval if side == "left" else condition.right_interval
        return passed if interval is None else both(passed, points_of(interval, batch, side, first_row))

    def _ranked(self, coded: CodedValue | None, right: Source) -> CodedValue | None:
        if coded is None or coded.value.domain.floating:
            return coded
        value = coded.value.right
        names = [value] if isinstance(value, str) else [each.name for each in columns(value)]
        values = (coded.right_values(batch) for _, batch in right.scan(names))
        return replace(coded, coder=RankCoder.of(coded.value.domain, values))


def _offset(limit: Limit, batch: pa.RecordBatch) -> Offset:
    return limit.offset if limit.column is None else batch.column(limit.column)


def _floats(offset: Offset, rows: int) -> Floats:
    return floats(plain(offset)) if isinstance(offset, pa.Array) else np.full(rows, offset, np.float64)


def _loosened(codes: Ints, *, upper: bool) -> Ints:
    """Return limits of floats one further out: what was rounded may be one off."""
    if upper:
        return np.where(codes < MAX_CODE, codes + 1, codes)
    return np.where(codes > MIN_CODE, codes - 1, codes)


def check_intervals(interval: OwnInterval, source: Source, side: Side, context: JoinContext) -> bool:
    """Read the intervals of a side, refuse those that start after they end, and return whether all contain a point."""
    names = list(dict.fromkeys(interval.names))
    if len(interval.names) < 2:
        return False

    def check(part: int) -> bool:
        good = True
        for row, batch in source.numbered(part, names):
            points = points_of(interval, batch, side, row)
            good = good and (points is None or bool(points.all()))
        return good

    return all(list(context.threads.map(check, range(len(source.part_rows)))))


def points_of(interval: OwnInterval, batch: pa.RecordBatch, side: Side, first_row: int | None = None) -> Mask | None:
    """Return a mask of the rows whose intervals contain a point, None for all; raise DataError for a reversed one."""
    first, *others = interval.names
    last = others[0] if others else first
    before, after, present = interval.domain.compared(batch.column(first), batch.column(last))
    wrong = after if present is None else after & present
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        ends = " and ".join(
            f"{label}={value_text(batch.column(name), row)}"
            for label, name in zip(interval.labels, interval.names, strict=True)
        )
        which = f"A {side} interval" if first_row is None else f"The {side} interval in row {first_row + row:,}"
        raise DataError(
            f"{which} starts after its end: {ends}. Swap the two columns "
            f"of {side}_interval= if all rows are reversed, or correct or drop such rows.",
            name="JN-INTERVAL-REVERSED",
        )
    return present if interval.may_be_empty or first == last else both(present, before)
