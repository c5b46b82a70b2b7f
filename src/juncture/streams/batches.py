"""Validates pushed rows and returns them as record batches of the stream's schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from juncture.columnar.arrays import joined_batches, memory_pool
from juncture.errors import SpecError
from juncture.matching.input import in_schema
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
    return [in_schema(batch, schema, side, f"a {side} batch") for batch in batches]


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
