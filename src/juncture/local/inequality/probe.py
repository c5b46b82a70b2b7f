"""Joins by inequalities: what each left row looks for in the right side, and the prober that finds it.

A left row seeks right rows of an equal key whose value lies between two limits and, where there is a second value,
whose second value is at least a threshold. Range joins, overlaps, and the inequalities of a predicate all come to this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.inequality.index import SortedIndex
from juncture.local.output.pairs import Check, MatchSpans, Prober
from juncture.local.output.payload import Holder, Payload
from juncture.local.output.show import show
from juncture.ordered.arithmetic import GREATEST, LEAST, TooWideError
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class ProbeKeys:
    """The limits of the rows of a left batch."""

    keys: Sequence[pa.Array]  # the columns that have to be equal to right ones
    low: Ints | None = None  # least code of the right value, inclusive; None without a limit
    high: Ints | None = None  # greatest code of the right value, inclusive; None without a limit
    thresholds: Ints | None = None  # the least code of the second right value; None if there is none
    possible: Mask | None = None  # which rows can match at all; None for all


class InequalityProber:
    """Finds right rows between limits.

    `seek` returns the limits of the rows of a batch. It reads `columns`, and those in `coded` may be
    dictionary-encoded; `windows` has the limits in each of several windows, by name. With `by_row`, matches of a left
    row come in the order of the right rows, not of their values; with `nested`, each row is compared with all others.
    `check` returns for a left batch the check of its candidate pairs; None if all match.
    """

    def __init__(
        self,
        right: SortedIndex,
        columns: Sequence[str],
        coded: Sequence[str],
        seek: Callable[[pa.RecordBatch], ProbeKeys],
        *,
        by_row: bool = False,
        nested: bool = False,
        check: Callable[[pa.RecordBatch], Check] | None = None,
        windows: Mapping[str, Callable[[pa.RecordBatch], ProbeKeys]] = MappingProxyType({}),
    ) -> None:
        self.windows: Mapping[str, Prober] = {
            name: InequalityProber(right, columns, coded, each, by_row=by_row, nested=nested, check=check)
            for name, each in windows.items()
        }
        self.right = right
        self.columns = tuple(dict.fromkeys(columns))
        self.coded = tuple(coded)
        self._seek = seek
        self.by_row = by_row
        self._nested = nested
        self._check = check

    def find(self, batch: pa.RecordBatch) -> MatchSpans:
        """Return the queries of the rows of a batch."""
        probe_keys, rows = self._seek(batch), batch.num_rows
        keys = self.right.key_codes(probe_keys.keys, rows)
        if probe_keys.possible is not None:
            keys[~probe_keys.possible] = EMPTY
        low = np.full(rows, LEAST) if probe_keys.low is None else probe_keys.low
        high = np.full(rows, GREATEST) if probe_keys.high is None else probe_keys.high
        check = None if self._check is None else self._check(batch)
        if self._nested:
            whole = np.full(rows, len(self.right), np.int32)
            return MatchSpans(
                np.zeros(rows, np.int32),
                whole,
                check=_compared(self.right, keys, low, high, probe_keys.thresholds, check),
            )
        first, end = self.right.spans(keys, low, high)
        return MatchSpans(first, end, thresholds=probe_keys.thresholds, check=check)


def _compared(
    right: SortedIndex, keys: Codes, low: Ints, high: Ints, thresholds: Ints | None, check: Check | None
) -> Check:
    """Return what compares pairs in full."""
    on = right.slots.on[: len(right)]

    def compared(lefts: Codes, positions: Codes) -> Mask:
        values = on[positions]
        good: Mask = (right.key_at[positions] == keys[lefts]) & (low[lefts] <= values) & (values <= high[lefts])
        if thresholds is not None and right.tree is not None:
            good &= right.tree.values[positions] >= thresholds[lefts]
        if check is not None:
            good[good] = check(lefts[good], positions[good])
        return good

    return compared


Prepare = Callable[[bool, Holder, JoinContext], Callable[[Payload], Prober]]
"""Reads the right side, and returns what makes a prober of it once its columns are held.

Takes whether its values are coded by rank, what holds columns on the way, and what the join may use.
"""

Emit = Callable[[Source, Prober, Payload, JoinContext], Iterator[pa.RecordBatch]]


def run(
    join: Resolved,
    left: Source,
    right: Source,
    prepare: Prepare,
    context: JoinContext,
    *,
    checked: Sequence[str] = (),
    emit: Emit | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the output of a join, batch by batch.

    `prepare` reads the right side, with the `checked` columns beside those that the output shows. `emit` yields the
    output in place of `juncture.local.output.batches.stream`.
    """
    names = tuple(dict.fromkeys((*join.right_payload, *checked)))
    make, payload = _prepared(right, names, prepare, context)
    prober = make(payload)
    context.threads.release_unused()
    if emit is not None:
        yield from emit(left, prober, payload, context)
    else:
        yield from show(join, left, prober, payload, context)


def _prepared(
    right: Source, names: tuple[str, ...], prepare: Prepare, context: JoinContext
) -> tuple[Callable[[Payload], Prober], Payload]:
    """Read the right side, again by rank if its values do not fit 64 bits."""
    for ranked in (False, True):
        holder = Holder(right, names)
        try:
            make = prepare(ranked, holder, context)
        except TooWideError:
            if ranked:
                raise
            continue
        return make, holder.finish()
    raise AssertionError("ranks are never too wide")
