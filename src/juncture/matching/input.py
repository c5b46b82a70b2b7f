"""Validates the columns of rows that callers pass to joins of streams and of changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from juncture.errors import DataError, SchemaError, did_you_mean


def arrow_batches(table: Any) -> Iterable[pa.RecordBatch] | None:
    """Return the batches of a batch or a table with the Arrow PyCapsule interface; None for any other value."""
    if isinstance(table, pa.RecordBatch):
        return [table]
    if isinstance(table, pa.Table):
        return list(table.to_batches())
    if hasattr(table, "__arrow_c_array__"):
        return [pa.record_batch(table)]
    return pa.RecordBatchReader.from_stream(table) if hasattr(table, "__arrow_c_stream__") else None


def in_schema(batch: pa.RecordBatch, schema: pa.Schema, side: str, what: str, remedy: str = "") -> pa.RecordBatch:
    """Return a batch with the columns of a schema, in its order. ``what`` names the batch in messages."""
    if batch.schema.equals(schema):
        return batch
    types = {field.name: field.type for field in batch.schema}
    for field in schema:
        if field.name not in types:
            raise SchemaError(
                f"Column {field.name!r} ({field.type}) is missing from {what}. {did_you_mean(field.name, types)}",
                name="JN-COLUMN-MISSING",
            )
        if types[field.name] != field.type:
            raise SchemaError(
                f"Column {field.name!r} of {what} has type {types[field.name]}, but the {side} schema has "
                f"{field.type}. Cast the column to {field.type}.",
                name="JN-SCHEMA-DIFFERENT",
            )
    if len(batch.schema) != len(schema):
        names = batch.schema.names
        more = [name for name in names if name not in schema.names] or names
        raise SchemaError(
            f"Columns of {what} are not in the {side} schema: {', '.join(map(repr, more))}. Drop them.{remedy}",
            name="JN-SCHEMA-DIFFERENT",
        )
    for field in schema:
        if not field.nullable and batch.column(field.name).null_count:
            raise DataError(
                f"Column {field.name!r} of {what} has nulls, but the {side} schema declares it as not null. Drop such "
                "rows, or declare the field as nullable.",
                name="JN-NULL-VALUE",
            )
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
