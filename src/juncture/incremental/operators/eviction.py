"""Stored rows that no future change can need, from bounds on the values of future changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import true_rows
from juncture.incremental.expressions.expression import Expression, evaluate, shown
from juncture.kernels.array_types import Mask

Frontiers = Mapping[str, pa.Array]
"""For each source with an order, the least value of its future changes, as an array of one value."""


@dataclass(frozen=True)
class Bound:
    """A limit of future changes: ``value`` is at least ``least``, or null. ``least`` is over the frontier."""

    value: Expression
    least: Expression


@dataclass(frozen=True)
class FutureChanges:
    """The changes of rows that future changes of one source cause. All of them satisfy all bounds."""

    source: str
    bounds: tuple[Bound, ...] = ()


Future = tuple[FutureChanges, ...]
"""All changes of some rows that are possible. A row is final if it violates a bound of each."""


def final_rows(future: Future, batch: pa.RecordBatch, *, frontiers: Frontiers) -> Mask:
    """Return which rows are final."""
    final = np.ones(batch.num_rows, np.bool_)
    for changes in future:
        excluded = np.zeros(batch.num_rows, np.bool_)
        for bound in changes.bounds if changes.source in frontiers else ():
            try:
                least = evaluate(bound.least, [frontiers[changes.source]], 1)[0]
                values = evaluate(bound.value, batch.columns, batch.num_rows)
            except pa.ArrowException:
                # The limit is outside the range of its type.
                continue
            if least.is_valid:
                excluded[true_rows(pc.less(values, least))] = True
        final &= excluded
    return final


def retention(future: Future, names: Sequence[str]) -> str:
    """Return when rows are forgotten, as text."""
    unbounded = list(dict.fromkeys(changes.source for changes in future if not changes.bounds))
    if unbounded:
        return f"grows: any row can be needed by future changes of {', '.join(unbounded)}"
    texts = [
        " or ".join(f"{shown(each.value, names)} < {shown(each.least, [f'frontier of {changes.source}'])}"
                    for each in changes.bounds)
        for changes in future
    ]  # fmt: skip
    return f"forgets rows when {' and '.join(dict.fromkeys(texts))}"
