"""The kinds of ordered values."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import key_kind, plain_type
from juncture.ordered.decimals import Decimals
from juncture.ordered.domain import Domain
from juncture.ordered.floats import Floats
from juncture.ordered.integers import Integers
from juncture.ordered.texts import Binaries, Texts
from juncture.ordered.times import Dates, Durations, TimesOfDay, Timestamps
from juncture.ordered.tuples import Tuples

_TYPES = 256
"""Types whose domains are remembered, since every join compares some of them."""


@lru_cache(maxsize=_TYPES)
def domain_of(*types: pa.DataType) -> Domain | None:
    """Return the domain in which columns of some types, in any encoding, are compared exactly; None if there is none.

    Examples
    --------
    >>> domain_of(pa.dictionary(pa.int8(), pa.timestamp("us")))
    Timestamps(unit='us')
    >>> domain_of(pa.decimal128(5, 2), pa.decimal128(9, 0))
    Decimals(scale=2)
    """
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
