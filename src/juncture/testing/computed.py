"""The columns that a join makes of a table's own, for the definition by brute force."""

from __future__ import annotations

import pyarrow as pa

from juncture.predicate.evaluate.evaluate import evaluate
from juncture.spec.computed import computed_columns, expression_of, parsed, stands_for
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side
from juncture.testing.output import encoded
from juncture.testing.rows import cell


def with_computed(join: Resolved, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return both tables with all columns that a join compares."""
    return _with_computed(left, join.left_schema, "left"), _with_computed(right, join.right_schema, "right")


def _with_computed(table: pa.Table, schema: pa.Schema, side: Side) -> pa.Table:
    for field in computed_columns(schema):
        text, own = expression_of(field), stands_for(field)
        if text is not None:
            node = parsed(text, table.schema, side)
            column = pa.chunked_array([evaluate(node, **{side: table})], field.type)
        else:
            values = [encoded(cell(table[str(own)], row), field.type) for row in range(table.num_rows)]
            column = pa.chunked_array(values, field.type)
        table = table.append_column(field, column)
    return table
