"""Fast path for codes: each is the value of a column plus a constant, as in most joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import raw_values
from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Ints, IntTable
from juncture.local.inequality.conditions import CodedValue
from juncture.ordered.arithmetic import LimitEnd, inward
from juncture.ordered.domain import Domain
from juncture.predicate.language.nodes import Column
from juncture.spec.condition import Value
from juncture.spec.schema import Side

_FAR = 1 << 60  # from this magnitude on, a sum may exceed 64 bits


@dataclass(frozen=True)
class PlainLine:
    """One code line: a column plus ``added``. ``inverted`` codes are complements of the sums."""

    name: str
    added: int
    inverted: bool


class PlainLines:
    """The code lines of one side."""

    def __init__(self, lines: Sequence[PlainLine]) -> None:
        self._count = len(lines)
        self._of_one_column: list[tuple[str, int, Ints, Ints]] = []
        first = 0
        for name, group in groupby(lines, key=lambda line: line.name):
            group_lines = list(group)
            added = np.array([line.added for line in group_lines], np.int64)
            self._of_one_column.append(
                (name, first, added, np.array([-line.inverted for line in group_lines], np.int64))
            )
            first += len(group_lines)
        self._inverted = [line.inverted for line in lines[:2]]
        self._is_band = sorted(self._inverted) == [False, True] and len(self._of_one_column[0][2]) > 1

    def codes(self, batch: pa.RecordBatch) -> tuple[IntTable, int | None] | None:
        """Return the codes of rows, and which of the first two lines rises while the other falls, None if unknown.

        Return None where a value is null, or so large that a sum might overflow.
        """
        if not batch.num_rows:
            return None
        table = np.empty((self._count, batch.num_rows), np.int64)
        direction = 0
        for name, first, added, flipped in self._of_one_column:
            column = batch.column(name)
            if column.null_count:
                return None
            out = table[first : first + len(added)]
            directions = kernels.write_codes(raw_values(column, np.int64), _FAR, added, flipped, out)
            if directions == kernels.FAR:
                return None
            direction = directions if first == 0 else direction
        return table, self._rising(direction)

    def _rising(self, direction: int) -> int | None:
        """Return which line rises, given the direction of the values of the first column."""
        if not self._is_band or not direction:
            return None
        return self._inverted.index(not direction & kernels.RISES)


def plain_lines(
    values: Sequence[CodedValue], side: Side, schema: pa.Schema, guarded: Mapping[str, int]
) -> PlainLines | None:
    """Return the code lines of a side; None where one is not plain. ``guarded`` has limits of columns with guards."""
    lines = [_line(coded, side, schema) for coded in values]
    plain = tuple(line for line in lines if line is not None)
    names = {line.name for line in plain}
    if not lines or len(plain) < len(lines) or any(name not in names or guarded[name] < _FAR for name in guarded):
        return None
    return PlainLines(plain)


def _line(coded: CodedValue, side: Side, schema: pa.Schema) -> PlainLine | None:
    value, coder = coded.value, coded.coder
    limit = value.limits[0]
    name = plain_column(limit.value if side == "left" else value.right, schema, value.domain)
    if name is None or not isinstance(coder, Domain) or not value.exact:
        return None
    if value.type is not None and value.type != schema.field(name).type:
        return None
    if side == "right":
        return PlainLine(name, 0, inverted=limit.upper)
    added = 0 if limit.column is not None else inward(Fraction(limit.offset), LimitEnd(limit.upper, limit.strict))
    # The code of a left row is the greatest right value that it allows, or the complement of the least.
    is_far = limit.column is not None or not -_FAR < added < _FAR
    return None if is_far else PlainLine(name, added, inverted=not limit.upper)


def plain_column(value: Value, schema: pa.Schema, domain: Domain) -> str | None:
    """Return the name of a column whose values are 64-bit steps; None for any other value."""
    if isinstance(value, Column):
        value = value.name
    if not isinstance(value, str):
        return None
    data_type = schema.field(value).type
    has_steps = domain.restores(data_type) and data_type.bit_width == 64 and not pat.is_uint64(data_type)
    return value if has_steps else None
