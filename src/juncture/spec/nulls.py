"""Columns of Arrow's null type, which have no value except null, such as those of an empty pandas table.

In a resolved join, a compared or aggregated column of the null type has the type of what it is compared with. Engines
convert their inputs to the schemas of the resolved join. In the output, the column has the null type again, unless rows
of the other side fill it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from juncture.columnar.types import is_null_type


def typed(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema in which columns of the null type have the given types."""
    for name, data_type in types.items():
        position = schema.get_field_index(name)
        if position >= 0 and is_null_type(schema.field(position).type):
            schema = schema.set(position, schema.field(position).with_type(data_type))
    return schema


def first_type(fields: Iterable[pa.Field], default: pa.DataType | None = None) -> pa.DataType:
    """Return the first type that is not null, or the default (integers)."""
    types = (field.type for field in fields)
    return next((each for each in types if not is_null_type(each)), default or pa.int64())
