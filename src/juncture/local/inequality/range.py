"""Range joins in-process: the right side sorted, and the window of each left row found as a span of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import Mask, plain
from juncture.columnar.order_encoding import StepCoder
from juncture.kernels.array_types import Ints
from juncture.local.inequality.aggregate import aggregate_columns, stream_aggregates, tie_orderer
from juncture.local.inequality.external_merge import stream_merged
from juncture.local.inequality.index import Coded, read_ordered
from juncture.local.inequality.key_ranges import Places
from juncture.local.inequality.limits import Axis, End, Offset, both, floats
from juncture.local.inequality.probe import InequalityFinder, Sought, key_codes, run
from juncture.local.inequality.prune import within_reach
from juncture.local.output.payload import Holder, Payload
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import UNDER_WAY_SHARE
from juncture.runtime.sources import Source
from juncture.spec.range import Bound, ResolvedRange
from juncture.spec.schema import plain_type

__all__ = ["RangeAlgorithm", "axis_of", "coded", "execute", "sought"]

RangeAlgorithm = Literal["sorted", "nested", "external_merge"]


def execute(
    join: ResolvedRange, left: Source, right: Source, algorithm: RangeAlgorithm, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range join, batch by batch, in the order of the left rows.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right
        The two sides.
    algorithm
        ``"sorted"`` searches the sorted right side; ``"nested"`` compares all pairs, to compare with;
        ``"external_merge"`` sorts both sides on disk, and holds the right one block by block.
    context
        What the join may use. All but ``"external_merge"`` hold the right side, whatever it takes.

    Raises
    ------
    DataError
        If a file cannot be read.
    PlanError
        If the right side has too many rows, or ``"external_merge"`` cannot hold those that one left row aggregates.
    StateError
        If there is no room to spill.

    Notes
    -----
    Time O((L + R) log R) and the output. Holds 12 bytes of each right row (48 while it sorts them) and the right
    columns that the output shows, beside a few batches. Row groups of the right side that no window of constant ends
    reaches are not read. On disk both sides are written once, and those left rows again that reach several blocks; the
    output is put in the order of the left rows there.
    """
    right = within_reach(join, left, right, context)
    if algorithm == "external_merge":
        return stream_merged(join, left, right, _places, partial(_in_memory, algorithm="sorted"), context)
    return _in_memory(join, left, right, context.streaming(UNDER_WAY_SHARE), algorithm=algorithm)


def _in_memory(
    join: ResolvedRange, left: Source, right: Source, context: JoinContext, *, algorithm: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join whose right side is held."""

    def prepare(ranked: bool, holder: Holder, context: JoinContext) -> Callable[[Payload], InequalityFinder]:
        axis = axis_of(join, right if ranked else None)
        ordered = read_ordered(
            right, join.compared("right"), join.right_by, partial(coded, join, axis), key_codes(join), context,
            order_ties=tie_orderer(join, right, context), holder=holder,
        )  # fmt: skip
        return lambda _payload: InequalityFinder(
            ordered,
            join.compared("left"),
            join.left_by,
            partial(sought, join, axis),
            nested=algorithm == "nested",
        )

    return run(
        join, left, right, prepare, context,
        checked=aggregate_columns(join), emit=partial(stream_aggregates, join) if join.aggregates else None,
    )  # fmt: skip


def _places(join: ResolvedRange) -> Places:
    """Return where rows lie: right ones by their ``on``."""
    axis = axis_of(join)
    return Places(
        partial(coded, join, axis),
        partial(sought, join, axis),
        rough=lambda batch: axis.rough(batch.column(join.right_on)),
    )


def axis_of(join: ResolvedRange, ranked: Source | None = None) -> Axis:
    """Return the axis of the ``on`` columns; by the rank of those of a right side, which are read."""
    fields = join.left_schema.field(join.left_on), join.right_schema.field(join.right_on)
    unsigned = all(pat.is_unsigned_integer(plain_type(field.type)) for field in fields)
    axis = Axis(StepCoder(join.domain, unsigned))
    if ranked is None:
        return axis
    parts = range(len(ranked.part_rows))
    return axis.by_rank(batch.column(0) for part in parts for batch in ranked.read(part, [join.right_on]))


def coded(join: ResolvedRange, axis: Axis, batch: pa.RecordBatch, _first_row: int) -> Coded:
    """Return what the join sees in right rows."""
    on, valid = axis.encode(batch.column(join.right_on))
    return Coded([batch.column(name) for name in join.right_by], on, valid=valid)


def sought(join: ResolvedRange, axis: Axis, batch: pa.RecordBatch) -> Sought:
    """Return what left rows seek."""
    on = batch.column(join.left_on)
    ends: list[Ints | None] = []
    possible: Mask | None = None
    for bound, upper in ((join.lower, False), (join.upper, True)):
        if bound is None:
            ends.append(None)
            continue
        codes, satisfiable = axis.limits(on, _offset(bound, batch), End(upper, strict=not bound.closed))
        possible = both(possible, satisfiable)
        ends.append(codes)
    if join.lower is not None and join.upper is not None and join.domain.kind == "float":
        # Two ends that are the wrong way round may be one once they are added to a large value.
        least, most = (_floats(_offset(bound, batch), batch.num_rows) for bound in (join.lower, join.upper))
        possible = both(possible, ~(least > most))
    return Sought([batch.column(name) for name in join.left_by], ends[0], ends[1], possible=possible)


def _floats(offset: Offset, rows: int) -> npt.NDArray[np.float64]:
    return floats(plain(offset)) if isinstance(offset, pa.Array) else np.full(rows, offset, np.float64)


def _offset(bound: Bound, batch: pa.RecordBatch) -> Offset:
    if bound.column is not None:
        return batch.column(bound.column)
    assert bound.constant is not None
    return bound.constant
