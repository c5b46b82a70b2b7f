"""Validation of the columns of an Arrow schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SchemaError, did_you_mean

LEFT_OUT = b"juncture.left_out"
"""Schema metadata: the names of index levels that are not columns, as a JSON array."""

_TYPES = 256  # types that are remembered, since every join validates some of them


def check_columns(schema: pa.Schema, names: Sequence[str], *, argument: str, side: str) -> None:
    """Raise SchemaError if the schema repeats a name, or lacks one of the names."""
    columns = schema.names
    if len(set(columns)) < len(columns):
        repeated = next(name for name in columns if columns.count(name) > 1)
        raise SchemaError(
            f"The {side} table has {columns.count(repeated)} columns named {repeated!r}. Rename or drop all but one of "
            "them.",
            name="JN-COLUMN-DUPLICATE",
        )
    for name in names:
        if name not in columns:
            raise SchemaError(
                f"{argument}={name!r} is not a column of the {side} table. {hint(name, schema)}",
                name="JN-COLUMN-MISSING",
            )


def hint(name: str, *schemas: pa.Schema) -> str:
    """Return advice for a column that schemas do not have."""
    if any(name in json.loads((schema.metadata or {}).get(LEFT_OUT, b"[]")) for schema in schemas):
        return "It is an index level. Make it a column with .reset_index() first."
    return did_you_mean(name, dict.fromkeys(column for schema in schemas for column in schema.names))


def check_order(field: pa.Field, *, purpose: str, side: str) -> None:
    """Raise SchemaError if a column contains ordered categories. ``purpose`` is what needs the order, in messages."""
    if _has_ordered_categories(field.type):
        raise SchemaError(
            f"{purpose} needs an order, but the {side} column {field.name!r} is of ordered categories ({field.type}). "
            "Their order can differ between tables. Cast the column to its values (for example to string), or to the "
            "numbers of the categories (.cat.codes in pandas, .to_physical() in Polars).",
            name="JN-ORDERED-CATEGORIES",
        )


@lru_cache(maxsize=_TYPES)
def _has_ordered_categories(data_type: pa.DataType) -> bool:
    return any(pat.is_dictionary(each) and each.ordered for each in _types_in(data_type))


def check_ties(right: pa.Schema, tie_columns: Sequence[str], *, remedy: str = "") -> None:
    """Raise SchemaError if a tie column contains unions, which have no order. ``remedy`` extends the advice."""
    for name in tie_columns:
        data_type = right.field(name).type
        if _has_union(data_type):
            raise SchemaError(
                f"The right column {name!r} is of type {data_type}, and unions have no order, but all right columns "
                f"break ties. Drop it or cast it to a type with an order{remedy}.",
                name="JN-TIES-TYPE",
            )


@lru_cache(maxsize=_TYPES)
def _has_union(data_type: pa.DataType) -> bool:
    return any(map(pat.is_union, _types_in(data_type)))


def _types_in(data_type: pa.DataType) -> Iterator[pa.DataType]:
    yield data_type
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _types_in(data_type.storage_type)
    elif pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        yield from _types_in(data_type.value_type)
    else:
        for index in range(data_type.num_fields):
            yield from _types_in(data_type.field(index).type)
