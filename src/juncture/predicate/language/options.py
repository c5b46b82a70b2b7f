"""The values of IN, in the forms in which they are looked up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from juncture.predicate.language.types import Type, Value, as_vector


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
    def has_nan(self) -> bool:
        """Whether NaN is among the values."""
        return any(value != value for value in self.values)

    @cached_property
    def ordered(self) -> list[Any]:
        """The values that have an order, sorted."""
        ordered: list[Any] = [value for value in self.values if value is not None and value == value]
        return sorted(ordered)
