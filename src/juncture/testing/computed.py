"""The computed columns of a join, for the definition by brute force."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import plain_type
from juncture.errors import DataError
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.spec.compared import Conversion, Expression
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.testing.output import encoded
from juncture.testing.rows import cell, values


def with_computed(join: Resolved, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return both tables with all columns that a join compares."""
    return _with_computed(join, left, "left"), _with_computed(join, right, "right")


def _with_computed(join: Resolved, table: pa.Table, side: Side) -> pa.Table:
    for value in join.computed(side):
        field = join.schema(side).field(value.name)
        if isinstance(value, Expression):
            column = pa.chunked_array([evaluate(value.node, **{side: table})], field.type)
        elif isinstance(value, Conversion):
            column = pa.chunked_array([_values(table, value.of[0].name, field.type)])
        else:
            parts = zip(value.parts, field.type, strict=True)
            arrays = [_values(table, part.name, each.type) for part, each in parts]
            column = pa.chunked_array([pa.StructArray.from_arrays(arrays, fields=list(field.type))])
        table = table.append_column(field, column)
    return table


def _values(table: pa.Table, name: str, data_type: pa.DataType) -> pa.Array:
    column = table[name]
    try:
        if pat.is_date64(plain_type(column.type)) and pat.is_date32(data_type):
            # 64-bit dates may have a time of day, which Arrow does not cast.
            return pa.array(values(column), pa.int32()).cast(data_type)
        cells = [encoded(cell(column, row), data_type) for row in range(len(column))]
    except pa.ArrowInvalid as error:
        raise DataError(
            f"Column {name!r} ({column.type}) has a value that does not fit in {data_type}: {error}. Cast it to a type "
            "that has all values.",
            name="JN-VALUE-RANGE",
        ) from error
    return pa.concat_arrays([pa.nulls(0, data_type), *cells])
