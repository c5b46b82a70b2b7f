"""Intervals that the rows of one side are: which hold a point, and which start after their end and are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import both, plain, validity
from juncture.columnar.floats import floats
from juncture.columnar.shown import shown
from juncture.errors import DataError
from juncture.kernels.array_types import Mask
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spec.condition import OwnInterval
from juncture.spec.schema import Side


def check_intervals(interval: OwnInterval | None, source: Source, side: Side, context: JoinContext) -> None:
    """Read the intervals of a side, and refuse those that start after they end."""
    if interval is None or len(interval.names) < 2:
        return

    def check(part: int) -> None:
        row = int(source.bounds[part])
        for batch in source.read(part, list(dict.fromkeys(interval.names))):
            check_interval(interval, batch, side, row)
            row += batch.num_rows

    context.threads.run(check, range(len(source.part_rows)))


def check_interval(interval: OwnInterval, batch: pa.RecordBatch, side: Side, first_row: int | None = None) -> None:
    """Refuse a batch in which an interval starts after it ends. `first_row` is None if rows have no numbers."""
    if len(interval.names) == 2:
        _refuse(interval, batch, side, first_row, _is_before(interval, batch, or_equal=True))


def points_of(interval: OwnInterval, batch: pa.RecordBatch) -> Mask | None:
    """Return a mask of the rows whose intervals contain a point; None for all."""
    present = _present(interval, batch)
    if interval.may_be_empty or len(interval.names) < 2:
        return present
    return both(present, _is_before(interval, batch, or_equal=False))


def _refuse(interval: OwnInterval, batch: pa.RecordBatch, side: Side, first_row: int | None, good: Mask) -> None:
    """Refuse a batch unless all its intervals that have both ends are good."""
    if good.all():
        return
    rows = np.flatnonzero(np.asarray(both(~good, _present(interval, batch))))
    if len(rows) == 0:
        return
    ends = " and ".join(
        f"{label}={shown(batch.column(name), int(rows[0]))}"
        for label, name in zip(interval.labels, interval.names, strict=True)
    )
    which = f"A {side} interval" if first_row is None else f"The {side} interval in row {first_row + int(rows[0]):,}"
    raise DataError(
        f"{which} starts after its end: {ends}. Swap the two columns "
        f"of {side}_interval= if all rows are reversed, or correct or drop such rows.",
        name="JN-INTERVAL-REVERSED",
    )


def _is_before(interval: OwnInterval, batch: pa.RecordBatch, *, or_equal: bool) -> Mask:
    """Return a mask of the intervals that start before they end; false for nulls."""
    starts, ends = (batch.column(name) for name in interval.names)
    return interval.domain.precedes(starts, ends, or_equal=or_equal)


def _present(interval: OwnInterval, batch: pa.RecordBatch) -> Mask | None:
    """Return a mask of the rows whose named ends are neither null nor NaN; None for all."""
    present: Mask | None = None
    for name in interval.names:
        array = plain(batch.column(name))
        present = both(present, validity(array))
        if pat.is_floating(array.type):
            present = both(present, ~np.isnan(floats(array)))
    return present
