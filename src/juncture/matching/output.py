"""Builds the result rows of stream joins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from juncture.columnar.arrays import joined_batches
from juncture.columnar.conversion import converted, with_types
from juncture.columnar.types import plain_type
from juncture.runtime.take import nulls
from juncture.runtime.working_types import restore_types, working_join, working_type
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


def stored_join(join: Resolved) -> Resolved:
    """Return a join in the types of stored rows: working types, without dictionaries or other encodings."""
    join = working_join(join)
    schemas = [
        with_types(schema, {field.name: working_type(plain_type(field.type)) for field in schema})
        for schema in (join.left_schema, join.right_schema)
    ]
    return replace(join, left_schema=schemas[0], right_schema=schemas[1])


def stored_schema(join: Resolved, side: Side) -> pa.Schema:
    """Return the stored columns of a side: at least one, to keep the number of rows."""
    schema = join.schema(side)
    needed = {*join.needed(side), *(join.tie_columns if join.spec.ranks_matches and side == "right" else ())}
    return pa.schema([field for field in schema if field.name in needed] or list(schema)[:1])


def project(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema names, in its types."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        array if array.type == field.type else converted(array, field.type)
        for field, array in ((field, batch.column(field.name)) for field in schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Output:
    """Builds result rows. ``join`` is in the types of stored rows, ``given`` is the schema that users get."""

    def __init__(self, join: Resolved, user_schema: pa.Schema) -> None:
        self._join = join
        self._user_schema = user_schema
        fields = zip(join.output, join.output_schema, strict=False)
        self._columns = [(column, field.type) for column, field in fields]
        self._schema = pa.schema([(column.name, data_type) for column, data_type in self._columns])
        self._is_user_schema = not join.aggregates and self._schema.types == user_schema.types
        if self._is_user_schema:
            self._schema = user_schema

    def output_columns(self, side: Side) -> list[str]:
        """Return the columns of a side that are in the result."""
        return list(dict.fromkeys(column.source for column, _ in self._columns if column.side == side))

    def pairs(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        """Return left rows beside right rows."""
        sides = {"left": left, "right": right}
        columns = [sides[column.side].column(column.source) for column, _ in self._columns]
        return self._batch(columns, left.num_rows)

    def alone(self, batch: pa.RecordBatch, side: Side) -> pa.RecordBatch:
        """Return unmatched rows of one side."""
        columns = []
        for column, data_type in self._columns:
            name = column.source if column.side == side else column.filled_from if side == "right" else None
            if name is None:
                columns.append(nulls(batch.num_rows, data_type))
            else:
                values = batch.column(name)
                columns.append(values if values.type == data_type else converted(values, data_type))
        return self._batch(columns, batch.num_rows)

    def _batch(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        assert columns or not rows
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def finished(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return rows in the types that users get, in few batches."""
        joined = _joined(batch for batch in batches if batch.num_rows)
        return list(joined if self._is_user_schema else restore_types(joined, self._user_schema))


_JOINED_ROWS = 1 << 16


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    small: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if small and rows + batch.num_rows > _JOINED_ROWS:
            yield from combined(small)
            small, rows = [], 0
        small.append(batch)
        rows += batch.num_rows
    yield from combined(small)


def combined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches of one schema as one batch, if their types allow it."""
    try:
        return [joined_batches(batches)] if batches else []
    except pa.ArrowException:
        return batches
