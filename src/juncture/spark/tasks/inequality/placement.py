"""Where the rows of a range, overlap or predicate join lie, as numbers that place them.

A row has the hash of its key, and the codes of the first and the last value that a match can have in common with it: a
window, an interval, or a single point. As for all placing, they only decide where a row goes: rows that match have
equal hashes, and their codes meet; rows that do not may seem to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain, raw_values, validity
from juncture.columnar.order_encoding import float_codes
from juncture.errors import DataError
from juncture.kernels.array_types import Floats, Ints, Words
from juncture.spark.tasks.placement import Coding, decimal_shift, one_chunk
from juncture.spec.range import Bound
from juncture.spec.schema import TIME_UNITS, Domain, plain_type

__all__ = ["HIGHEST", "LOWEST", "Intervals", "Placed", "Places", "Windows", "moved"]


# One above the code that stands for a cut in front of a hash.
LOWEST, HIGHEST = -(2**63) + 1, 2**63 - 1

_ROUNDING = 2.0**-50
"""How much of itself a float may be off after a few operations."""


@dataclass(frozen=True)
class Placed:
    """Rows with their places.

    Attributes
    ----------
    hashes
        Of their keys.
    first, last
        The codes between which they lie, both included.
    valid
        Which rows can match at all: the places of others mean nothing.
    """

    hashes: Words
    first: Ints
    last: Ints
    valid: Mask


class Places(Protocol):
    """Finds the places of the rows of one side."""

    @property
    def decisive(self) -> tuple[str, ...]:
        """The columns that decide what a row matches: rows that agree in them share their fate."""
        ...

    def place(self, table: pa.Table) -> Placed:
        """Return the places of some rows."""
        ...


@dataclass(frozen=True)
class Windows:
    """Left rows with windows around their ``on``.

    Attributes
    ----------
    by, on
        Columns that place a row.
    coding
        Of the keys and ``on``.
    domain
        Of the bounds.
    lower, upper
        The ends of the windows; None where they are open.
    """

    by: tuple[str, ...]
    on: str
    coding: Coding
    domain: Domain
    lower: Bound | None
    upper: Bound | None

    @property
    def decisive(self) -> tuple[str, ...]:
        """Key, ``on``, and the columns that hold bounds."""
        bounds = [bound.column for bound in (self.lower, self.upper) if bound is not None and bound.column is not None]
        return tuple(dict.fromkeys((*self.by, self.on, *bounds)))

    def place(self, table: pa.Table) -> Placed:
        """Return the places of some rows. Windows that are empty are left out."""
        hashes, valid = self.coding.keyed(table, self.by)
        on = one_chunk(table[self.on])
        codes, present = self.coding.codes(on)
        valid = valid if present is None else valid & present
        ends = []
        for bound, upper in ((self.lower, False), (self.upper, True)):
            if bound is None:
                ends.append(np.full(len(codes), HIGHEST if upper else LOWEST))
                continue
            end, known = self._end(table, on, codes, bound, upper=upper)
            valid = valid & known
            ends.append(end)
        return Placed(hashes, ends[0], ends[1], valid & (ends[0] <= ends[1]))

    def _end(self, table: pa.Table, on: pa.Array, codes: Ints, bound: Bound, *, upper: bool) -> tuple[Ints, Mask]:
        """Return the codes of an end, and where there is one."""
        every = np.ones(len(codes), np.bool_)
        column = None if bound.column is None else plain(one_chunk(table[bound.column]))
        known = every if column is None or column.null_count == 0 else validity(column)
        assert known is not None
        if self.domain.kind == "float":
            added: float | Floats = float(bound.constant or 0) if column is None else numbers(column)
            with np.errstate(invalid="ignore", over="ignore"):
                values = numbers(plain(on)) + added
            return float_codes(values), known & ~np.isnan(values)
        per_code = steps_per_code(self.domain, self.coding.on)
        if column is None:
            assert bound.constant is not None
            steps = math.floor(Fraction(int(bound.constant)) / per_code)
            return moved(codes, steps + (upper and per_code > 1)), known
        distance = numbers(column) * float(_steps_of_one(column.type, self.domain) / per_code)
        slack = np.abs(distance) * _ROUNDING + 1
        known = known & ~np.isnan(distance)
        return moved(codes, np.where(known, distance + slack if upper else distance - slack, 0)), known


@dataclass(frozen=True)
class Intervals:
    """Rows with intervals, or at points where both ends are one.

    Attributes
    ----------
    side
        What an error calls the table.
    by, start, end
        Columns that place a row; no start or end where the intervals are unbounded.
    coding
        Of the keys, and of all ends of both sides.
    """

    side: str
    by: tuple[str, ...]
    start: str | None
    end: str | None
    coding: Coding

    @property
    def decisive(self) -> tuple[str, ...]:
        """Key and interval."""
        return tuple(dict.fromkeys((*self.by, *(name for name in (self.start, self.end) if name is not None))))

    def place(self, table: pa.Table) -> Placed:
        """Return the places of some rows.

        Raises
        ------
        DataError
            If an interval starts after its end.
        """
        hashes, valid = self.coding.keyed(table, self.by)
        ends = []
        for name, beyond in ((self.start, LOWEST), (self.end, HIGHEST)):
            if name is None:
                ends.append(np.full(table.num_rows, beyond))
                continue
            codes, present = self.coding.codes(one_chunk(table[name]))
            valid = valid if present is None else valid & present
            ends.append(codes)
        if self.start is not None and self.end is not None and self.start != self.end:
            self._check(table)
        return Placed(hashes, np.maximum(ends[0], LOWEST), np.maximum(ends[1], LOWEST), valid)

    def _check(self, table: pa.Table) -> None:
        assert self.start is not None
        assert self.end is not None
        start, end = (plain(one_chunk(table[name])) for name in (self.start, self.end))
        backward = pc.greater(start, end)
        if pat.is_floating(start.type) and pat.is_floating(end.type):
            backward = pc.and_(backward, pc.invert(pc.or_(pc.is_nan(start), pc.is_nan(end))))
        rows = np.flatnonzero(np.asarray(pc.fill_null(backward, False)))
        if len(rows):
            shown = " and ".join(f"{name}={table[name][int(rows[0])]}" for name in (self.start, self.end))
            raise DataError(
                f"A {self.side} interval starts after its end: {shown}. Swap the two columns of {self.side}_interval= "
                "if that is so throughout, or repair or drop such rows first."
            )


def moved(codes: Ints, steps: int | Ints | Floats) -> Ints:
    """Return codes moved by some steps, and no further than codes go."""
    added: Any
    if isinstance(steps, int):
        added = np.int64(max(LOWEST, min(HIGHEST, steps)))
    else:
        # The greatest float below 2⁶³ is 1024 less.
        added = np.clip(steps, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
        added = np.where(np.asarray(steps) >= 2.0**63 - 1024, HIGHEST, added)
    total = codes + added
    wrapped = ((codes ^ total) & (added ^ total)) < 0
    return np.asarray(np.maximum(np.where(wrapped, np.where(added < 0, LOWEST, HIGHEST), total), LOWEST), np.int64)


def numbers(column: pa.Array) -> Floats:
    """Return numbers and durations as floats, rounded where they have to be; those of nulls are anything."""
    if pat.is_duration(column.type):
        column = column.view(pa.int64())
    if pat.is_decimal(column.type) or pat.is_floating(column.type):
        floats: Floats = raw_values(column.cast(pa.float64()), np.float64)
        return floats
    kind = "u" if pat.is_unsigned_integer(column.type) else "i"
    integers: Floats = raw_values(column, f"{kind}{column.type.bit_width // 8}").astype(np.float64)
    return integers


def steps_per_code(domain: Domain, types: tuple[pa.DataType, ...]) -> Fraction:
    """Return how many steps of the domain one code stands for."""
    plain_types = [plain_type(data_type) for data_type in types]
    if domain.kind == "decimal":
        return Fraction(2 ** decimal_shift(plain_types))
    if domain.kind == "timestamp":
        units = [TIME_UNITS.index(data_type.unit) for data_type in plain_types]
        return Fraction(1_000 ** (max(units) - min(units)))
    return Fraction(2 if any(map(pat.is_uint64, plain_types)) else 1)


def _steps_of_one(data_type: pa.DataType, domain: Domain) -> Fraction:
    """Return how many steps one unit of a bound's column is."""
    if pat.is_duration(data_type):
        return Fraction(1_000 ** (3 - TIME_UNITS.index(data_type.unit)), domain.step_ns)
    return domain.steps_in_one
