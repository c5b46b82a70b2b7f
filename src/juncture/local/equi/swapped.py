"""Joins that hold the left side and stream the right one past it, for a left side that is the smaller one by far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, concatenated
from juncture.local.equi.in_memory import hashed, stream_held
from juncture.local.output.numbered import NumberedJoin
from juncture.runtime.context import JoinContext
from juncture.runtime.progress import Progress
from juncture.runtime.sources import Source
from juncture.runtime.take import take
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import How, OutputColumn, Side

_TURNED: dict[How, How] = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
_OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


def can_swap(join: ResolvedEqui) -> bool:
    """Return whether the sides of a join can be swapped.

    A predicate says which side is which, and semi-joins need it not.
    """
    return join.how in _TURNED and join.predicate is None


def stream_unordered(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that `can_swap`, in the order of the right ones. The left rows are buffered."""
    streaming = _with_streaming_keys(join)
    if any(column.filled_from is not None for column in streaming.output if column.side == "left"):
        numbered = NumberedJoin.of(join, left, right)
        for batch in stream_swapped(numbered.join, numbered.left, numbered.right, context):
            yield from numbered.finished(batch)
    else:
        yield from _stream(streaming, left, right, context)


def stream_swapped(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join that `can_swap`, those of a left row in right order, with others between them.

    The left rows are buffered.
    """
    filled = [place for place, column in enumerate(join.output) if column.filled_from is not None]
    number = join.output[-1].name
    filling = tuple(OutputColumn(f"{number} {place}", "right", str(join.output[place].filled_from)) for place in filled)
    shown = tuple(replace(column, filled_from=None) for column in join.output)
    for batch in _stream(replace(join, output=(*shown, *filling)), left, right, context):
        columns = batch.columns[: len(shown)]
        alone = columns[-1].is_null().to_numpy(zero_copy_only=False)
        if filled and alone.any():
            rows = np.arange(batch.num_rows)
            index = array_of(np.where(alone, rows + batch.num_rows, rows), pa.int64())
            for place, values in zip(filled, batch.columns[len(shown) :], strict=True):
                # Arrow chooses by a mask among decimals of all lengths but the greatest.
                columns[place] = take(concatenated([columns[place], values]), index)
        yield pa.RecordBatch.from_arrays(columns, schema=join.output_schema)


def _stream(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right columns may be filled from left ones, in the order of the right rows."""

    def report(phase: str, done: int, total: int) -> None:
        context.progress.of("right" if phase == "left" else "left")(done, total)

    other = replace(
        join,
        how=_TURNED[join.how],
        left_schema=join.right_schema,
        right_schema=join.left_schema,
        left_computed=join.right_computed,
        right_computed=join.left_computed,
        left_by=join.right_by,
        right_by=join.left_by,
        output=tuple(replace(column, side=_OTHER[column.side]) for column in join.output),
        numbered=tuple(_OTHER[side] for side in join.numbered),
    )
    return stream_held(other, right, left, hashed, replace(context, progress=Progress(report)))


def _with_streaming_keys(join: ResolvedEqui) -> ResolvedEqui:
    """Return a join that shows right keys, filled from left ones, in place of left keys that look the same.

    The right rows go by in order, and the left ones would be looked up here and there.
    """
    pairs = dict(zip(join.left_by, join.right_by, strict=True))

    def turned(column: OutputColumn) -> OutputColumn:
        if column.side == "right" or column.source not in pairs or not _looks_the_same(join, column.source, pairs):
            return column
        if join.how in ("right", "full") and column.filled_from is None:
            # A row without a left match shows a null.
            return column
        filled_from = column.source if join.how in ("left", "full") else None
        return OutputColumn(column.name, "right", pairs[column.source], filled_from)

    return replace(join, output=tuple(map(turned, join.output)))


def _looks_the_same(join: ResolvedEqui, name: str, pairs: dict[str, str]) -> bool:
    """Return whether equal values of a pair of keys are the same values, which -0.0 and 0.0, say, are not."""
    data_type = join.left_schema.field(name).type
    return bool(data_type == join.right_schema.field(pairs[name]).type) and (
        pat.is_integer(data_type)
        or pat.is_boolean(data_type)
        or pat.is_date(data_type)
        or pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
    )
