"""Integers of any width, each its own step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, raw_values, validity
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import signed_integers
from juncture.ordered.domain import Domain, Rough

_SHIFT = 2**63


@dataclass(frozen=True)
class Integers(Domain):
    """Integers. If all columns are ``unsigned``, codes are shifted by half the range."""

    kind: ClassVar[str] = "integer"
    has_regular_steps: ClassVar[bool] = True
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (pat.is_integer,)
    distance_noun: ClassVar[str] = "an integer"

    unsigned: bool = False

    def common(self, other: Domain) -> Domain | None:
        """Return the domain of both, exactly; of integers and floats, that of floats."""
        if isinstance(other, Integers):
            return Integers(self.unsigned and other.unsigned)
        return other.common(self) if other.floating else None

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the integers, shifted if they are unsigned."""
        array = plain(array)
        valid = validity(array)
        if self.unsigned:
            wide = raw_values(array.cast(pa.uint64()), np.uint64)
            return (wide ^ np.uint64(_SHIFT)).view(np.int64), valid
        return signed_integers(array, valid), valid

    def restores(self, data_type: pa.DataType, /) -> bool:
        """Return whether codes of a type determine its values."""
        return bool(pat.is_integer(data_type))

    def restore(self, codes: Ints, valid: Mask | None, data_type: pa.DataType) -> pa.Array:
        """Return the integers of codes."""
        return super().restore(codes ^ np.int64(-_SHIFT) if self.unsigned else codes, valid, data_type)

    def code_of(self, step: Any) -> int:
        """Return the code of an integer, of any size."""
        return int(step) - _SHIFT if self.unsigned else int(step)

    def step_of(self, code: int) -> int:
        """Return the integer of a code."""
        return code + _SHIFT if self.unsigned else code

    @property
    def unshifted(self) -> Integers:
        """The same domain with codes that are steps."""
        return Integers()

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the integers, halved if any column is of unsigned 64-bit integers, so that both signs fit."""
        if any(map(pat.is_uint64, types)):
            return Rough(lambda array: (_half(array), validity(array)), steps=2)
        bits = max(int(each.bit_width) + int(pat.is_unsigned_integer(each)) for each in types)
        return Rough(lambda array: (signed_integers(array, None), validity(array)), min(64, bits))


def _half(array: pa.Array) -> Ints:
    if not pat.is_uint64(array.type):
        return signed_integers(array, None) >> 1
    halves: Ints = (raw_values(array, np.uint64) >> np.uint64(1)).astype(np.int64)
    return halves
