"""The rows of an as-of join whose matches do not fit in memory: an equality join by row numbers, on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, plain
from juncture.kernels.array_types import Ints
from juncture.local.asof.assemble import pairs_of
from juncture.runtime.context import JoinContext
from juncture.runtime.row_ids import NumberedSource, number_column
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpilledSource
from juncture.runtime.take import nulls, take
from juncture.spec.asof import ResolvedAsof
from juncture.spec.equi import Equi, ResolvedEqui
from juncture.spec.resolved import ROW_NUMBERS
from juncture.spec.schema import OutputColumn

Execute = Callable[[ResolvedEqui, Source, Source, JoinContext], Iterator[pa.RecordBatch]]
"""Yields the rows of an equality join."""


def fetch(
    join: ResolvedAsof,
    found: Iterable[tuple[Source, Ints]],
    right: Source,
    by_number: Execute,
    context: JoinContext,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose matches are known, in the order of the left rows.

    Parameters
    ----------
    join
        The join.
    found
        The left rows, piece by piece, with the right row numbers of their matches, best first; -1 where there are no
        more.
    right
        The right side.
    by_number
        Does the work: an equality join by the numbers of the right rows.
    context
        What the join may use.
    """
    row, left_row = ROW_NUMBERS["right"], ROW_NUMBERS["left"]
    # Neither side keeps its dictionaries on disk: the caller converts the rows to the types of the output.
    ours, theirs = (
        _plain(pa.schema([*(schema.field(name) for name in needed), *((name, pa.int64()) for name in numbers)]))
        for schema, needed, numbers in (
            (join.left_schema, join.needed("left"), (left_row, row) if join.numbered else (row,)),
            (join.right_schema, join.needed("right"), (row,)),
        )
    )
    pointed = SpilledSource(ours, context.spill, 0)
    for left, pointers in found:
        for batch in _pointed(left, pointers, pointed.schema):
            pointed.write(batch)
    pointed.finish()
    equality = ResolvedEqui(
        spec=Equi(on=row, how=join.how),
        how=join.how,
        left_schema=ours,
        right_schema=theirs,
        left_by=(row,),
        right_by=(row,),
        output=(*join.output, *(OutputColumn(ROW_NUMBERS[side], side, ROW_NUMBERS[side]) for side in join.numbered)),
        predicate=None,
        nulls_equal=False,
    )
    numbered = NumberedSource(right, theirs, 0)
    yield from by_number(equality, pointed, numbered, context)


def _pointed(left: Source, pointers: Ints, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield left rows, each once for each of its matches or once without any, with the number of the right row."""
    names = [name for name in schema.names if name not in ROW_NUMBERS.values()]
    has_number = ROW_NUMBERS["left"] in schema.names
    for part in range(len(left.part_rows)):
        start = int(left.bounds[part])
        for batch in left.read(part, names):
            here = pointers[start : start + batch.num_rows]
            numbers = left.row_numbers(np.arange(start, start + batch.num_rows))
            start += batch.num_rows
            columns = [*map(plain, batch.columns), *([number_column(numbers)] if has_number else [])]
            rows, kept = pairs_of(here, keep_unmatched=True)
            if rows is not None:
                index = array_of(rows, pa.int64())
                columns = [take(column, index) for column in columns]
            columns.append(number_column(here[:, 0] if kept is None else here[kept]))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the types that `plain` makes of a schema's."""
    return pa.schema([(field.name, plain(nulls(0, field.type)).type) for field in schema])
