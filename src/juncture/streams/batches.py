"""Rows that are pushed, as record batches of the columns that the stream has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from juncture.columnar.arrays import joined_batches
from juncture.errors import SchemaError, SpecError, did_you_mean
from juncture.spec.schema import Side

__all__ = ["batches_of", "gathered"]


def batches_of(table: Any, side: Side, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return what was pushed as record batches.

    Raises
    ------
    SpecError
        If it is no table.
    SchemaError
        If its columns are others than those of the schema.
    """
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
            f"push({side}=…) was given a {type(table).__name__}. Expected a record batch, or a table that speaks Arrow."
        )
    for batch in batches:
        _check_schema(batch.schema, schema, side)
    return batches


def _check_schema(given: pa.Schema, wanted: pa.Schema, side: Side) -> None:
    if given.equals(wanted):
        return
    types = {field.name: field.type for field in given}
    for field in wanted:
        if field.name not in types:
            raise SchemaError(
                f"A {side} batch lacks the column {field.name!r} ({field.type}) that the stream has. "
                f"{did_you_mean(field.name, types)}"
            )
        if types[field.name] != field.type:
            raise SchemaError(
                f"The column {field.name!r} of a {side} batch is of type {types[field.name]}, and that of the stream "
                f"is {field.type}: a stream keeps its schema. Cast the batch first."
            )
    if len(given) != len(wanted):
        more = [name for name in given.names if name not in wanted.names]
        raise SchemaError(
            f"A {side} batch has columns that the stream does not have: {', '.join(map(repr, more or given.names))}. "
            "A stream keeps its schema: select its columns first."
        )


def gathered(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches as one, if their types allow."""
    try:
        return [joined_batches(batches)] if batches else []
    except pa.ArrowException:
        return batches
