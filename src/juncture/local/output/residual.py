"""What of a predicate is left to check on pairs of rows, once something else has found them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from juncture.kernels.array_types import Codes, Mask
from juncture.local.output.pairs import Check
from juncture.local.output.payload import Payload
from juncture.local.output.show import taken
from juncture.predicate.evaluate.evaluate import matches
from juncture.predicate.language.nodes import Node, columns, sides
from juncture.spec.schema import Side


def columns_read(predicate: Node | None, side: Side) -> tuple[str, ...]:
    """Return the columns of a side that a predicate reads."""
    return () if predicate is None else tuple(each.name for each in columns(predicate) if each.side == side)


def checking(predicate: Node, payload: Payload, rows_at: Callable[[Codes], Codes]) -> Callable[[pa.RecordBatch], Check]:
    """Return what makes of a left batch a check of its pairs by a predicate.

    The payload has the right columns that the predicate reads, and `rows_at` returns its rows at some positions.
    """
    ours, theirs = list(columns_read(predicate, "left")), list(columns_read(predicate, "right"))

    def check(batch: pa.RecordBatch) -> Check:
        def holds(lefts: Codes, positions: Codes) -> Mask:
            lefts_taken = pa.table(taken(batch, ours, lefts), names=ours) if ours else None
            rights_taken = pa.table(payload.take(theirs, rows_at(positions)), names=theirs) if theirs else None
            if not sides(predicate):
                # A constant has no rows of its own.
                lefts_taken = pa.table({"row": pa.array(lefts)})
            result: Mask = matches(predicate, lefts_taken, rights_taken).to_numpy(zero_copy_only=False)
            return result

        return holds

    return check
