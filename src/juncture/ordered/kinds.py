"""The kinds of ordered values, those without a module of their own, and codes for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import plain, validity
from juncture.columnar.types import key_kind, plain_type
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Domain, Rough
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.times import Dates, Durations, TimesOfDay, Timestamps
from juncture.ordered.tuples import Tuples

_TYPES = 256  # types whose domains are remembered, since every join compares some of them


@dataclass(frozen=True)
class Texts(Domain):
    """Texts."""

    kind: ClassVar[str] = "text"
    phrase: ClassVar[str] = "text"
    has_distances: ClassVar[bool] = False

    def encode(self, _array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Raise `TooWideError`, as codes are ranks."""
        raise TooWideError

    def rough(self, _types: Sequence[pa.DataType], /) -> Rough:
        """Return the first bytes as integers in their order, halved, so that the sign bit stays free."""
        # Specs import this module, and must not take the time to import the encoding of keys.
        from juncture.columnar.key_encoding import first_bytes

        return Rough(lambda array: ((first_bytes(array) >> np.uint64(1)).view(np.int64), validity(array)))


@dataclass(frozen=True)
class Binaries(Texts):
    """Binary values."""

    kind: ClassVar[str] = "binary"
    phrase: ClassVar[str] = "binary"


@lru_cache(maxsize=_TYPES)
def domain_of(*types: pa.DataType) -> Domain | None:
    """Return the domain in which columns of types, in any encoding, are compared exactly; None if there is none."""
    first, *others = (_domain(plain_type(data_type)) for data_type in types)
    for other in others:
        first = None if first is None or other is None else first.common(other)
    return first


def _domain(data_type: pa.DataType) -> Domain | None:
    if pat.is_integer(data_type):
        return Integers(pat.is_unsigned_integer(data_type))
    if pat.is_floating(data_type):
        return Floats()
    if pat.is_decimal(data_type):
        return Decimals(data_type.scale)
    if pat.is_date(data_type):
        return Dates()
    if pat.is_timestamp(data_type):
        return Timestamps(data_type.unit)
    if pat.is_duration(data_type):
        return Durations(data_type.unit)
    if pat.is_time(data_type):
        return TimesOfDay(data_type.unit)
    return {"string": Texts(), "binary": Binaries()}.get(key_kind(data_type))


def tuples_of(*types: pa.StructType) -> Tuples:
    """Return the domain of tuples, given the structs of each side. All parts must compare."""
    parts = [domain_of(*(field.type for field in fields)) for fields in zip(*types, strict=True)]
    return Tuples(tuple(part for part in parts if part is not None))


@dataclass(frozen=True)
class RoughCoder:
    """Codes that neighbouring values may share; any value of `types`, which are of one kind, has one.

    Equal values of either side have equal codes, and greater ones never smaller codes.
    """

    types: tuple[pa.DataType, ...]

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one (neither null nor NaN); None if all have."""
        array = plain(array)
        if pat.is_null(array.type):
            return np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_)
        return self._rough.codes(array)

    @property
    def steps_in_code(self) -> int:
        """Steps of the domain per code, if values count steps."""
        return self._rough.steps

    @property
    def _rough(self) -> Rough:
        types = [plain_type(data_type) for data_type in self.types]
        domain = tuples_of(*types) if pat.is_struct(types[0]) else domain_of(*types)
        assert domain is not None
        return domain.rough(types)
