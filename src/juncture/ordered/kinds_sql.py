"""The twins of domains in Spark's SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.ordered.domain import Domain
from juncture.ordered.domain_sql import SqlDomain
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.numbers_sql import SqlDecimals, SqlFloats, SqlIntegers
from juncture.ordered.times import Dates, Durations, Timestamps
from juncture.ordered.times_sql import SqlDates, SqlDurations, SqlTimestamps

TWINS: Mapping[type[Domain], type[SqlDomain]] = {
    Integers: SqlIntegers,
    Floats: SqlFloats,
    Decimals: SqlDecimals,
    Dates: SqlDates,
    Timestamps: SqlTimestamps,
    Durations: SqlDurations,
}
"""The twin of each domain that SQL compares and measures."""


def sql_domain(domain: Domain, types: Iterable[pa.DataType]) -> SqlDomain:
    """Return the twin of a domain, for columns of some types."""
    return TWINS.get(type(domain), SqlDomain)(domain, tuple(map(plain_type, types)))
