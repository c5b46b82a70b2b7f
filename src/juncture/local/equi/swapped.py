"""Joins that hold the left side and stream the right one past it, for a left side that is the smaller one by far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, concatenated
from juncture.local.equi.in_memory import stream_held
from juncture.runtime.context import JoinContext
from juncture.runtime.progress import Progress
from juncture.runtime.row_ids import NumberedJoin
from juncture.runtime.sources import Source
from juncture.runtime.take import take
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import How, OutputColumn, Side

_TURNED: dict[How, How] = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
_OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


def can_swap(numbered: NumberedJoin[ResolvedEqui]) -> bool:
    """Tell whether the sides of a join can be swapped.

    A predicate says which side is which, and semi-joins need it not.
    """
    return numbered.join.how in _TURNED and numbered.join.predicate is None


def stream_swapped(
    numbered: NumberedJoin[ResolvedEqui],
    left: Source,
    right: Source,
    context: JoinContext,
) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join, those of a left row in right order, though others come between them.

    Parameters
    ----------
    numbered
        The join, which `can_swap`.
    left, right
        Numbered rows of both sides. The left ones are held.
    context
        What the join may use.
    """

    def report(phase: str, done: int, total: int) -> None:
        context.progress.of("right" if phase == "left" else "left")(done, total)

    join = numbered.join
    swapped = tuple(replace(column, side=_OTHER[column.side], filled_from=None) for column in join.output)
    filled = [place for place, column in enumerate(join.output) if column.filled_from is not None]
    filling = tuple(
        OutputColumn(f"{numbered.number} {place}", "left", str(join.output[place].filled_from)) for place in filled
    )
    other = replace(
        join,
        how=_TURNED[join.how],
        left_schema=join.right_schema,
        right_schema=join.left_schema,
        left_by=join.right_by,
        right_by=join.left_by,
        output=(*swapped, *filling),
    )
    for batch in stream_held(other, right, left, "hash", replace(context, progress=Progress(report))):
        columns = batch.columns[: len(swapped)]
        alone = columns[-1].is_null().to_numpy(zero_copy_only=False)
        if filled and alone.any():
            rows = np.arange(batch.num_rows)
            index = array_of(np.where(alone, rows + batch.num_rows, rows), pa.int64())
            for place, values in zip(filled, batch.columns[len(swapped) :], strict=True):
                # Arrow chooses by a mask among decimals of all lengths but the greatest.
                columns[place] = take(concatenated([columns[place], values]), index)
        yield pa.RecordBatch.from_arrays(columns, schema=join.output_schema)
