"""Codes of rows where each is a column's value and a constant, an addition away: what most joins compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values
from juncture.columnar.order_encoding import StepCoder
from juncture.kernels.array_types import Ints
from juncture.kernels.symmetric import write_codes
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

    def write(self, values: Ints, codes: Ints) -> bool:
        """Write the codes of some values, and tell whether none is so large that a sum might not fit."""
        return write_codes(values, _FAR, self.added, -1 if self.inverted else 0, codes)


@dataclass(frozen=True)
class PlainLines:
    """The lines of codes of one side."""

    lines: tuple[PlainLine, ...]

    def codes(self, batch: pa.RecordBatch) -> Table | None:
        """Return the codes of rows; None where a value is null, or so large that a sum might not fit."""
        if not batch.num_rows:
            return None
        codes = np.empty((len(self.lines), batch.num_rows), np.int64)
        for line, out in zip(self.lines, codes, strict=True):
            column = batch.column(line.name)
            if column.null_count or not line.write(raw_values(column, np.int64), out):
                return None
        return codes


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
    own = _plain_column(limit.value if side == "left" else value.right, schema, value.domain)
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


def _plain_column(value: Value, schema: pa.Schema, domain: Domain) -> str | None:
    """Return the name of a column whose values are steps of 64 bits; None for any other value."""
    if isinstance(value, Column):
        value = value.name
    if not isinstance(value, str):
        return None
    data_type = schema.field(value).type
    is_time = pat.is_timestamp(data_type) and domain.kind == "timestamp" and data_type.unit == domain.unit
    return value if is_time or (pat.is_int64(data_type) and domain.kind == "integer") else None
