"""Where the left rows of a range join lie, by windows around their ``on``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain, raw_values, validity
from juncture.columnar.order_encoding import float_codes
from juncture.kernels.array_types import Floats, Ints
from juncture.spark.tasks.key_range import HIGHEST, LOWEST, KeyRanges
from juncture.spark.tasks.placement import Coding, decimal_shift, one_chunk
from juncture.spec.range import Bound
from juncture.spec.schema import TIME_UNITS, Domain, plain_type

__all__ = ["WindowPlacement", "moved", "numbers"]


_ROUNDING = 2.0**-50
"""How much of itself a float may be off after a few operations."""


@dataclass(frozen=True)
class WindowPlacement:
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

    def place(self, table: pa.Table) -> KeyRanges:
        """Return where some rows lie. Windows that are empty are left out."""
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
        return KeyRanges(hashes, ends[0], ends[1], valid & (ends[0] <= ends[1]))

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
