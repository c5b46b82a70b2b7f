"""Overlap joins in-process: right intervals sorted by their start, with a tree of their ends.

Those that overlap a left interval start before it ends, which makes them a span, and end after it starts, which the
tree tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain, validity
from juncture.columnar.order_encoding import StepCoder, TooWideError, steps_of
from juncture.columnar.shown import shown
from juncture.errors import DataError
from juncture.kernels.array_types import Ints
from juncture.local.inequality.aggregate import aggregate_columns, stream_aggregates, tie_orderer
from juncture.local.inequality.external_merge import stream_merged
from juncture.local.inequality.index import Coded, read_ordered
from juncture.local.inequality.key_ranges import Places
from juncture.local.inequality.limits import Axis, End, both, floats
from juncture.local.inequality.probe import InequalityFinder, Prepare, Sought, key_codes, run
from juncture.local.output.payload import Holder, Payload
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.overlap import Interval, ResolvedOverlap
from juncture.spec.schema import Side, plain_type

__all__ = ["OverlapAlgorithm", "axis_of", "check_left", "coded", "execute", "prepared", "sought"]

OverlapAlgorithm = Literal["tree", "nested", "external_merge"]


def execute(
    join: ResolvedOverlap, left: Source, right: Source, algorithm: OverlapAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an overlap join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right, context
        As for a range join (`juncture.local.inequality.range.execute`).
    algorithm
        ``"tree"`` searches the sorted right intervals; ``"nested"`` compares all pairs, to compare with;
        ``"external_merge"`` sorts both sides on disk, and holds the right one block by block.

    Raises
    ------
    DataError
        If an interval starts after its end, or a file cannot be read.
    PlanError, StateError
        As for a range join.

    Notes
    -----
    Time O((L + R) log R) and the output, however long the intervals are. Holds 21 bytes of each right row (57 while it
    sorts them) and the right columns that the output shows. The interval columns of the left side are read twice, so
    that wrong ones are found before anything is yielded. On disk as a range join does.
    """
    if algorithm == "external_merge":
        return stream_merged(join, left, right, _places, partial(_in_memory, algorithm="tree"), context)
    return _in_memory(join, left, right, context.streaming(UNDER_WAY_SHARE), algorithm=algorithm)


def _in_memory(
    join: ResolvedOverlap, left: Source, right: Source, context: JoinContext, *, algorithm: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side is held."""
    return run(
        join, left, right, prepared(join, left, right, nested=algorithm == "nested"), context,
        checked=aggregate_columns(join), emit=partial(stream_aggregates, join) if join.aggregates else None,
    )  # fmt: skip


def prepared(join: ResolvedOverlap, left: Source, right: Source, *, nested: bool) -> Prepare:
    """Return what checks the intervals and reads the right side."""

    def prepare(ranked: bool, holder: Holder, context: JoinContext) -> Callable[[Payload], InequalityFinder]:
        axis = axis_of(join, right if ranked else None)
        _check_left(join, axis, left, context)

        ordered = read_ordered(
            right, join.compared("right"), join.right_by, partial(coded, join, axis), key_codes(join), context,
            has_tree=join.right_interval[1] is not None, order_ties=tie_orderer(join, right, context), holder=holder,
        )  # fmt: skip
        return lambda _payload: InequalityFinder(
            ordered,
            join.compared("left"),
            join.left_by,
            partial(sought, join, axis),
            nested=nested,
        )

    return prepare


def _places(join: ResolvedOverlap) -> Places:
    """Return where rows lie: right ones by their start."""
    axis, start = axis_of(join), join.right_interval[0]
    return Places(
        partial(coded, join, axis),
        partial(sought, join, axis),
        rough=None if start is None else lambda batch: axis.rough(batch.column(start)),
        check=partial(check_left, join, axis),
    )


def axis_of(join: ResolvedOverlap, ranked: Source | None = None) -> Axis:
    """Return the axis of all starts and ends; by the rank of those of a right side, which are read."""
    names = [name for name in join.right_interval if name is not None]
    types = [join.right_schema.field(name).type for name in names]
    types += [join.left_schema.field(name).type for name in join.left_interval if name is not None]
    axis = Axis(StepCoder(join.domain, all(pat.is_unsigned_integer(plain_type(each)) for each in types)))
    if ranked is None:
        return axis
    batches = (batch for part in range(len(ranked.part_rows)) for batch in ranked.read(part, names))
    return axis.by_rank(column for batch in batches for column in batch.columns)


def coded(join: ResolvedOverlap, axis: Axis, batch: pa.RecordBatch, first_row: int) -> Coded:
    """Return what the join sees in right rows, and refuse those that end before they start."""
    keys = [batch.column(name) for name in join.right_by]
    starts, ends, valid = _coded(axis, join.right_interval, batch)
    _refuse_backward(join, "right", starts, ends, valid, batch, first_row)
    if starts is not None and ends is not None and join.closed != "both":
        valid = both(valid, starts < ends)
    return Coded(keys, starts, ends, valid)


def _coded(axis: Axis, interval: Interval, batch: pa.RecordBatch) -> tuple[Ints | None, Ints | None, Mask | None]:
    """Return codes of starts and ends, and which rows have all that is named."""
    codes: list[Ints | None] = []
    valid: Mask | None = None
    for name in interval:
        if name is None:
            codes.append(None)
            continue
        values, here = axis.encode(batch.column(name))
        codes.append(values)
        valid = both(valid, here)
    return codes[0], codes[1], valid


def sought(join: ResolvedOverlap, axis: Axis, batch: pa.RecordBatch) -> Sought:
    """Return what left intervals seek: right ones that start before their end, and end after their start."""
    start, end = join.left_interval
    strict = join.closed != "both"
    possible: Mask | None = None
    limits: list[Ints | None] = []
    for name, other, upper in ((end, join.right_interval[0], True), (start, join.right_interval[1], False)):
        codes: Ints | None = None
        if name is not None:
            array = batch.column(name)
            satisfiable = _present(plain(array))
            if other is not None:
                codes, satisfiable = axis.limits(array, 0, End(upper, strict))
            possible = both(possible, satisfiable)
        limits.append(codes)
    if start is not None and end is not None and strict:
        possible = both(possible, _is_before(axis, batch.column(start), batch.column(end)))
    keys = [batch.column(name) for name in join.left_by]
    return Sought(keys, high=limits[0], thresholds=limits[1], possible=possible)


def _is_before(axis: Axis, starts: pa.Array, ends: pa.Array, *, or_equal: bool = False) -> Mask:
    """Tell which left intervals start before they end; of nulls, anything."""
    coder = axis.coder
    try:
        (one, _), (other, _) = coder.encode(starts), coder.encode(ends)
        result: Mask = one <= other if or_equal else one < other
        return result
    except TooWideError:
        pairs = zip(*(steps_of(plain(each), coder.domain) for each in (starts, ends)), strict=True)
        compared = [a is None or b is None or a < b or (or_equal and a == b) for a, b in pairs]
        return np.array(compared, np.bool_)


def _present(array: pa.Array) -> Mask | None:
    """Tell which values are neither null nor NaN."""
    present = validity(array)
    return both(present, ~np.isnan(floats(array))) if pat.is_floating(array.type) else present


def _check_left(join: ResolvedOverlap, axis: Axis, left: Source, context: JoinContext) -> None:
    """Refuse left intervals that start after they end."""
    names = [name for name in join.left_interval if name is not None]
    if len(names) < 2:
        return

    def check(part: int) -> None:
        row = int(left.bounds[part])
        for batch in left.read(part, list(dict.fromkeys(names))):
            check_left(join, axis, batch, row)
            row += batch.num_rows

    context.threads.run(check, range(len(left.part_rows)))


def check_left(join: ResolvedOverlap, axis: Axis, batch: pa.RecordBatch, first_row: int) -> None:
    """Refuse left intervals of a batch that start after they end."""
    columns = [batch.column(name) for name in join.left_interval if name is not None]
    if len(columns) < 2:
        return
    good = _is_before(axis, columns[0], columns[1], or_equal=True)
    if not good.all():
        known = both(*(_present(plain(column)) for column in columns))
        _refuse(join, "left", both(~good, known), batch, first_row)


def _refuse_backward(
    join: ResolvedOverlap,
    side: Side,
    starts: Ints | None,
    ends: Ints | None,
    valid: Mask | None,
    batch: pa.RecordBatch,
    first_row: int,
) -> None:
    if starts is not None and ends is not None:
        backward = starts > ends
        if backward.any():
            _refuse(join, side, both(backward, valid), batch, first_row)


def _refuse(join: ResolvedOverlap, side: Side, wrong: Mask | None, batch: pa.RecordBatch, first_row: int) -> None:
    """Refuse a batch in which rows are wrong.

    Raises
    ------
    DataError
        If there are any.
    """
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows) == 0:
        return
    interval = join.left_interval if side == "left" else join.right_interval
    ends = " and ".join(f"{name}={shown(batch.column(name), int(rows[0]))}" for name in interval if name)
    raise DataError(
        f"The {side} interval in row {first_row + int(rows[0]):,} starts after its end: {ends}. Swap the two columns "
        f"of {side}_interval= if that is so throughout, or repair or drop such rows first."
    )
