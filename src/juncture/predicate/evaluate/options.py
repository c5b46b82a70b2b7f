"""The values of IN, in the forms in which they are looked up."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from juncture.predicate.evaluate.vectors import as_vector
from juncture.predicate.intervals.interval import Interval, intersect, interval, nothing, truth
from juncture.predicate.language.types import Type, Value, from_steps, in_steps


@dataclass(frozen=True)
class Options:
    """Different values of one type, in whole steps of it. None is NULL. Zero is 0.0, never -0.0."""

    type: Type
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.type.kind == "float":
            # A single NaN object equals itself in tuples.
            values = tuple(math.nan if value != value else value for value in self.values)
            object.__setattr__(self, "values", values)

    @property
    def has_null(self) -> bool:
        """Whether NULL is among the values."""
        return None in self.values

    @cached_property
    def vector(self) -> pa.Array:
        """The values as an Arrow array, without null."""
        values = [value for value in self.values if value is not None]
        zeros = [-0.0] if self.type.kind == "float" and 0.0 in values else []
        return as_vector([*values, *zeros], self.type)

    @cached_property
    def _has_nan(self) -> bool:
        return any(value != value for value in self.values)

    @cached_property
    def _ordered(self) -> list[Any]:
        """The values that have an order, sorted."""
        ordered: list[Any] = [value for value in self.values if value is not None and value == value]
        return sorted(ordered)

    def _listed(self, operand: Interval) -> list[Any]:
        """Return the first and the last value within an interval; empty if there are none."""
        if operand.empty:
            return []
        values = self._ordered
        below = bisect_right if operand.lower_open else bisect_left
        above = bisect_left if operand.upper_open else bisect_right
        first = 0 if operand.lower is None else below(values, in_steps(operand.lower, self.type))
        end = len(values) if operand.upper is None else above(values, in_steps(operand.upper, self.type))
        return [from_steps(value, self.type) for value in (values[first], values[end - 1])] if first < end else []

    def hold(self, operand: Interval) -> Interval:
        """Return whether an operand can be one of the values, and can be another value."""
        listed = self._listed(operand)
        is_nan = operand.may_be_nan and self._has_nan
        is_point = operand.lower is not None and operand.lower == operand.upper
        is_other = (not operand.empty and not (listed and is_point)) or (operand.may_be_nan and not self._has_nan)
        null = operand.may_be_null or (is_other and self.has_null)
        return truth(true=bool(listed) or is_nan, false=is_other and not self.has_null, null=null)

    def narrow(self, operand: Interval) -> Interval:
        """Return the possible values of an operand that is one of the options."""
        listed, nan = self._listed(operand), operand.may_be_nan and self._has_nan
        if not listed:
            return nothing(operand.type, nan=nan)
        return intersect(operand, interval(operand.type, *listed, nan=nan))
