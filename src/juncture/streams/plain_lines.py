"""Codes of rows where each is a column's value and a constant, an addition away: what most joins compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values
from juncture.columnar.order_encoding import StepCoder
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Ints
from juncture.local.inequality.conditions import CodedValue
from juncture.local.inequality.limits import LimitEnd, inward
from juncture.predicate.language.nodes import Column
from juncture.spec.condition import Value
from juncture.spec.schema import Domain, Side

Table = npt.NDArray[np.int64]

_FAR = 1 << 60
"""Values from which on a sum might leave 64 bits."""


@dataclass(frozen=True)
class PlainLine:
    """One line of codes.

    Attributes
    ----------
    name
        The column.
    added
        What is added to its values.
    inverted
        Whether codes are the complements of the sums.
    """

    name: str
    added: int
    inverted: bool


@dataclass(frozen=True)
class PlainCodes:
    """The codes of rows.

    Attributes
    ----------
    table
        Their lines.
    rising
        Which of the first two lines rises from row to row while the other falls; None if that is not known.
    """

    table: Table
    rising: int | None


class PlainLines:
    """The lines of codes of one side."""

    def __init__(self, lines: Sequence[PlainLine]) -> None:
        self._count = len(lines)
        self._of_one_column: list[tuple[str, int, Ints, Ints]] = []
        first = 0
        for name, group in groupby(lines, key=lambda line: line.name):
            together = list(group)
            added = np.array([line.added for line in together], np.int64)
            self._of_one_column.append((name, first, added, np.array([-line.inverted for line in together], np.int64)))
            first += len(together)
        self._inverted = [line.inverted for line in lines[:2]]
        self._is_band = sorted(self._inverted) == [False, True] and len(self._of_one_column[0][2]) > 1

    def codes(self, batch: pa.RecordBatch) -> PlainCodes | None:
        """Return the codes of rows; None where a value is null, or so large that a sum might not fit."""
        if not batch.num_rows:
            return None
        table = np.empty((self._count, batch.num_rows), np.int64)
        told = 0
        for name, first, added, flipped in self._of_one_column:
            column = batch.column(name)
            if column.null_count:
                return None
            out = table[first : first + len(added)]
            found = kernels.write_codes(raw_values(column, np.int64), _FAR, added, flipped, out)
            if found == kernels.FAR:
                return None
            told = found if first == 0 else told
        return PlainCodes(table, self._rising(told))

    def _rising(self, told: int) -> int | None:
        """Return which line rises, given what the values do that the first two lines are made of."""
        if not self._is_band or not told:
            return None
        return self._inverted.index(not told & kernels.RISES)


def plain_lines(
    values: Sequence[CodedValue], side: Side, schema: pa.Schema, guarded: Mapping[str, int]
) -> PlainLines | None:
    """Return the lines of codes of a side; None where any is not plain.

    Parameters
    ----------
    values
        Right values, each with one limit.
    side, schema
        The side, and its columns.
    guarded
        Columns, and the least value of each for which rows would have to be looked at by themselves.
    """
    lines = [_line(coded, side, schema) for coded in values]
    found = tuple(line for line in lines if line is not None)
    names = {line.name for line in found}
    if not lines or len(found) < len(lines) or any(name not in names or guarded[name] < _FAR for name in guarded):
        return None
    return PlainLines(found)


def _line(coded: CodedValue, side: Side, schema: pa.Schema) -> PlainLine | None:
    value, coder = coded.value, coded.encoding.coder
    limit = value.limits[0]
    own = plain_column(limit.value if side == "left" else value.right, schema, value.domain)
    if own is None or not isinstance(coder, StepCoder) or coder.unsigned or not value.exact:
        return None
    if value.type is not None and value.type != schema.field(own).type:
        return None
    if side == "right":
        return PlainLine(own, 0, inverted=limit.upper)
    added = 0 if limit.column is not None else inward(Fraction(limit.offset), LimitEnd(limit.upper, limit.strict))
    # The code of a left row is the greatest right value that it allows, or the complement of the least.
    is_far = limit.column is not None or not -_FAR < added < _FAR
    return None if is_far else PlainLine(own, added, inverted=not limit.upper)


def plain_column(value: Value, schema: pa.Schema, domain: Domain) -> str | None:
    """Return the name of a column whose values are steps of 64 bits; None for any other value."""
    if isinstance(value, Column):
        value = value.name
    if not isinstance(value, str):
        return None
    data_type = schema.field(value).type
    is_time = pat.is_timestamp(data_type) and domain.kind == "timestamp" and data_type.unit == domain.unit
    return value if is_time or (pat.is_int64(data_type) and domain.kind == "integer") else None
