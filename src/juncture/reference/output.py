"""The rows of a join's output, once it is known which rows match."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.reference.rows import plain
from juncture.spec.resolved import Resolved

__all__ = ["assemble", "encoded", "matched_rows"]

Pair = tuple[int | None, int | None]


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
    return pa.table(assemble(join, left, right, pairs), schema=join.output_schema)


def assemble(join: Resolved, left: pa.Table, right: pa.Table, pairs: list[Pair]) -> list[pa.ChunkedArray]:
    """Return the output columns that are columns of the inputs."""
    left_rows = pa.array([pair[0] for pair in pairs], pa.int64())
    right_rows = pa.array([pair[1] for pair in pairs], pa.int64())
    either_rows = pa.array([ours if ours is not None else left.num_rows + theirs for ours, theirs in pairs], pa.int64())
    arrays = []
    for column in join.output:
        table, rows = (left, left_rows) if column.side == "left" else (right, right_rows)
        data_type = table.schema.field(column.source).type
        values = plain(table[column.source])
        if column.filled_from is not None:
            values = pa.chunked_array([*values.chunks, *plain(right[column.filled_from]).chunks], values.type)
            rows = either_rows
        arrays.append(encoded(values.take(rows), data_type))
    return arrays


def encoded(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Undo `plain`."""
    if pat.is_run_end_encoded(data_type):
        return pc.run_end_encode(values.combine_chunks(), run_end_type=data_type.run_end_type)
    return (values.dictionary_encode() if pat.is_dictionary(data_type) else values).cast(data_type)
