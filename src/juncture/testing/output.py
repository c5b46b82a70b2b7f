"""The columns that a join compares, and its output rows, given the matching rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import plain_type
from juncture.errors import DataError
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.spec.compared import Conversion, Expression
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side
from juncture.testing.rows import cell, values

Pair = tuple[int | None, int | None]
Cell = tuple[pa.ChunkedArray, int]


def matched_rows(join: Resolved, left: pa.Table, right: pa.Table, matches: Iterable[list[int]]) -> pa.Table:
    """Return the output of a join, given the right rows that each left row matches, in order."""
    pairs: list[Pair] = []
    taken: set[int] = set()
    for row, others in enumerate(matches):
        taken.update(others)
        if join.how == "semi":
            pairs += [(row, None)] if others else []
        elif join.how == "anti" or not others:
            pairs += [(row, None)] if not others and join.how in ("anti", "left", "full") else []
        else:
            pairs += [(row, other) for other in others]
    if join.how in ("right", "full"):
        pairs += [(None, row) for row in range(right.num_rows) if row not in taken]
    numbers = [pa.array([pair[SIDES.index(side)] for pair in pairs], pa.int64()) for side in join.numbered]
    columns = [*assemble(join, left, right, pairs), *numbers]
    return pa.table(columns, schema=join.user_schema(left.schema, right.schema))


def assemble(join: Resolved, left: pa.Table, right: pa.Table, pairs: list[Pair]) -> list[pa.ChunkedArray]:
    """Return the output columns that are columns of the inputs."""
    schema = join.user_schema(left.schema, right.schema)
    arrays = []
    for column, field in zip(join.output, schema, strict=False):
        source = left[column.source] if column.side == "left" else right[column.source]
        cells: list[Cell | None] = []
        for left_row, right_row in pairs:
            row = left_row if column.side == "left" else right_row
            if row is not None:
                cells.append((source, row))
            elif column.filled_from is not None and right_row is not None:
                cells.append((right[column.filled_from], right_row))
            else:
                cells.append(None)
        arrays.append(gathered(cells, field.type))
    return arrays


def gathered(cells: list[Cell | None], data_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column of some values, one at a time, since Arrow's ``take`` does not support all types."""
    chunks = []
    for cell_position in cells:
        if cell_position is None:
            chunks.append(pa.nulls(1, data_type))
            continue
        column, row = cell_position
        same = column.type == data_type
        chunks += column.slice(row, 1).chunks if same else [encoded(cell(column, row), data_type)]
    return pa.chunked_array(chunks, data_type)


def encoded(value: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return an array of one value in a type with the same values."""
    if pat.is_run_end_encoded(data_type):
        ends = pa.array([1], data_type.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, encoded(value, data_type.value_type), data_type)
    if pat.is_dictionary(data_type):
        indices, items = pa.array([0], data_type.index_type), encoded(value, data_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, items, ordered=data_type.ordered)
    if isinstance(data_type, pa.BaseExtensionType):
        return data_type.wrap_array(encoded(value, data_type.storage_type))
    # Arrow does not cast null if a nested field is declared as not nullable.
    if value.null_count:
        return pa.nulls(1, data_type)
    if pat.is_struct(data_type):
        # Arrow does not cast a slice of structs in which all values of a field are null.
        parts = zip(value.flatten(), data_type, strict=True)
        return pa.StructArray.from_arrays([encoded(part, field.type) for part, field in parts], fields=list(data_type))
    # Arrow casts a slice of lists of nulls to its own type as an invalid array.
    return value if value.type == data_type else value.cast(data_type)


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
