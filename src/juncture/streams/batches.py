"""Validates pushed rows and returns them as record batches of the stream's schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from juncture.columnar.arrays import joined_batches, memory_pool
from juncture.errors import DataError, SchemaError, SpecError, did_you_mean
from juncture.spec.schema import Side


def batches_of(table: Any, side: Side, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return pushed rows as record batches of the schema."""
    if isinstance(table, pa.RecordBatch):
        batches = [table]
    elif isinstance(table, pa.Table):
        batches = table.to_batches()
    elif hasattr(table, "__arrow_c_array__"):
        batches = [pa.record_batch(table)]
    elif hasattr(table, "__arrow_c_stream__"):
        batches = pa.table(table).to_batches()
    else:
        raise SpecError(
            f"push({side}=…) is of type {type(table).__name__}. Expected a pyarrow.RecordBatch, or a table with the "
            "Arrow PyCapsule interface.",
            name="JN-ARGUMENT-TYPE",
        )
    return [batch if batch.schema.equals(schema) else _to_schema(batch, schema, side) for batch in batches]


def _to_schema(batch: pa.RecordBatch, wanted: pa.Schema, side: Side) -> pa.RecordBatch:
    """Return a batch with the columns of the schema, in its order."""
    types = {field.name: field.type for field in batch.schema}
    for field in wanted:
        if field.name not in types:
            raise SchemaError(
                f"Column {field.name!r} ({field.type}) is missing from a {side} batch. "
                f"{did_you_mean(field.name, types)}",
                name="JN-COLUMN-MISSING",
            )
        if types[field.name] != field.type:
            raise SchemaError(
                f"Column {field.name!r} of a {side} batch has type {types[field.name]}, but the {side} schema has "
                f"{field.type}. Cast the column to {field.type}.",
                name="JN-SCHEMA-DIFFERENT",
            )
    if len(batch.schema) != len(wanted):
        names = batch.schema.names
        more = [name for name in names if name not in wanted.names]
        raise SchemaError(
            f"A {side} batch has columns that are not in the {side} schema: {', '.join(map(repr, more or names))}. "
            "Drop them.",
            name="JN-SCHEMA-DIFFERENT",
        )
    for field in wanted:
        if not field.nullable and batch.column(field.name).null_count:
            raise DataError(
                f"Column {field.name!r} of a {side} batch has nulls, but the {side} schema declares it as not null. "
                "Drop such rows, or declare the field as nullable.",
                name="JN-NULL-VALUE",
            )
    return pa.RecordBatch.from_arrays([batch.column(name) for name in wanted.names], schema=wanted)


def gathered(batches: list[pa.RecordBatch], side: Side, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return many small batches as one, if their types allow it. Validates like `batches_of`."""
    if len(batches) < 2:
        return [each for batch in batches for each in batches_of(batch, side, schema)]
    try:
        # Building a table compares the schemas at once, which is faster than one by one.
        table = pa.Table.from_batches(batches).combine_chunks(memory_pool())
    except pa.ArrowException:
        alike = [each for batch in batches for each in batches_of(batch, side, schema)]
        return combined(alike)
    return batches_of(table, side, schema)


def combined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches of one schema as one batch, if their types allow it."""
    if len(batches) < 2:
        return batches
    try:
        return [joined_batches(batches)]
    except pa.ArrowException:
        return batches
