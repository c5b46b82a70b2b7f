"""Where the rows of a predicate join lie, by the values of expressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain, raw_values, validity
from juncture.columnar.order_encoding import float_codes
from juncture.kernels.array_types import Floats, Ints
from juncture.local.inequality.conditions import equal_columns, equal_types
from juncture.predicate.decompose.match_interval import MatchInterval
from juncture.predicate.decompose.shape import End
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.nodes import Node
from juncture.predicate.language.types import DAY_S, TIME_STEPS, arrow_type
from juncture.spark.tasks.inequality.placement import moved, numbers
from juncture.spark.tasks.key_range import HIGHEST, LOWEST, KeyRanges
from juncture.spark.tasks.placement import Coding, one_chunk
from juncture.spec.condition import EqualValues
from juncture.spec.schema import Side

__all__ = ["PredicatePlacement"]

_ROUNDING = 2.0**-50
"""How much of itself a float may be off after a few operations."""


@dataclass(frozen=True)
class PredicatePlacement:
    """Rows of one side of a predicate join.

    Attributes
    ----------
    side
        Which one.
    by, by_types
        Its key columns, and the types of each pair of them.
    equalities
        Expressions that are equal in every match.
    interval
        Between which values the rows lie; None if that is not limited.
    decisive
        The columns that decide what a row matches.
    """

    side: Side
    by: tuple[str, ...]
    by_types: tuple[tuple[pa.DataType, pa.DataType], ...]
    equalities: tuple[EqualValues, ...]
    interval: MatchInterval | None
    decisive: tuple[str, ...]

    def place(self, table: pa.Table) -> KeyRanges:
        """Return where some rows lie."""
        hashes, valid = self._hashes(table)
        if self.interval is None:
            nowhere = np.zeros(table.num_rows, np.int64)
            return KeyRanges(hashes, nowhere, nowhere, valid)
        ends = []
        for end, upper in zip(
            self.interval.left if self.side == "left" else self.interval.right, (False, True), strict=True
        ):
            if end is None:
                ends.append(np.full(table.num_rows, HIGHEST if upper else LOWEST))
                continue
            codes, known = self._codes(table, self.interval, end, upper=upper)
            ends.append(codes)
            valid = valid if known is None else valid & known
        first, last = ends
        if self.interval.may_swap:
            return KeyRanges(hashes, np.minimum(first, last), np.maximum(first, last), valid)
        return KeyRanges(hashes, first, last, valid & (first <= last))

    def _hashes(self, table: pa.Table) -> tuple[npt.NDArray[np.uint64], Mask]:
        columns, types = [one_chunk(table[name]) for name in self.by], list(self.by_types)
        for equality in self.equalities:
            node = equality.left if self.side == "left" else equality.right
            columns += equal_columns(equality, self._values(table, node))
            types += zip(equal_types(equality, "left"), equal_types(equality, "right"), strict=True)
        if not columns:
            return np.zeros(table.num_rows, np.uint64), np.ones(table.num_rows, np.bool_)
        return Coding(tuple(types), ()).hashes(columns)

    def _values(self, table: pa.Table, node: Node) -> pa.Array:
        return evaluate(node, table) if self.side == "left" else evaluate(node, None, table)

    def _codes(self, table: pa.Table, interval: MatchInterval, end: End, *, upper: bool) -> tuple[Ints, Mask | None]:
        """Return the codes of an end, and where there is one."""
        values = plain(self._values(table, end.expression))
        valid = validity(values)
        if interval.is_whole:
            if pat.is_date(values.type):
                values = values.cast(pa.date32()).cast(pa.int32())
            elif not pat.is_integer(values.type):
                values = values.cast(pa.int64())
            codes = np.asarray(raw_values(values.cast(pa.int64()), np.int64))
            return moved(codes, interval.steps(end, upper=upper, unit=end.expression.type.unit or "us")), valid
        floats = _numbers(values, end)
        offset = float(end.amount)
        if offset:
            slack = (np.abs(floats) + abs(offset)) * _ROUNDING
            with np.errstate(invalid="ignore", over="ignore"):
                floats = floats + offset + slack if upper else floats + offset - slack
        # NaN is above all other numbers.
        codes = np.where(
            np.isnan(floats), HIGHEST, float_codes(np.nan_to_num(floats, nan=0.0, posinf=np.inf, neginf=-np.inf))
        )
        return codes, valid


def _numbers(values: pa.Array, end: End) -> Floats:
    """Return values as floats: seconds where they are times."""
    data_type = end.expression.type
    if data_type.kind == "date":
        return numbers(values.cast(pa.date32()).cast(pa.int32())) * float(DAY_S)
    if data_type.kind in ("timestamp", "duration"):
        return numbers(values.cast(pa.int64())) / TIME_STEPS[data_type.unit]
    return numbers(values.cast(arrow_type(data_type)))
