"""Columns of Arrow's null type, such as an empty table made in pandas or Polars has: any type, nothing but nulls.

Where a join compares or folds such a column it takes the type of what it is compared with, so that engines see values
of one kind, all of them null: they bring their inputs to the schemas of the resolved join. In the output the column is
of the null type again, unless rows of the other side fill it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from juncture.spec.schema import is_null_type


def typed(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema in which some of its columns have these types if they are of the null type."""
    for name, data_type in types.items():
        position = schema.get_field_index(name)
        if position >= 0 and is_null_type(schema.field(position).type):
            schema = schema.set(position, schema.field(position).with_type(data_type))
    return schema


def typed_pairs(
    left: pa.Schema, right: pa.Schema, pairs: Sequence[tuple[str, str]], *, default: pa.DataType | None = None
) -> tuple[pa.Schema, pa.Schema]:
    """Return both schemas with each column of the null type as its partner is.

    Parameters
    ----------
    left, right
        The schemas of the tables.
    pairs
        Pairs of a left and a right column that are compared.
    default
        The type of two columns of which neither has one; by default that of integers.

    Examples
    --------
    >>> left, right = pa.schema([("k", pa.null())]), pa.schema([("id", pa.string())])
    >>> typed_pairs(left, right, [("k", "id")])[0].field("k").type
    DataType(string)
    """
    for one, other in pairs:
        data_type = first_type([left.field(one), right.field(other)], default)
        left, right = typed(left, {one: data_type}), typed(right, {other: data_type})
    return left, right


def first_type(fields: Iterable[pa.Field], default: pa.DataType | None = None) -> pa.DataType:
    """Return the type of the first column that has one other than the null type; by default that of integers."""
    types = (field.type for field in fields)
    return next((each for each in types if not is_null_type(each)), default or pa.int64())
