"""The right side of a join by inequalities: its keys and values as codes, sorted, with what finds spans in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.errors import PlanError
from juncture.kernels import band, search
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.keys import Keys
from juncture.local.output.pairs import BuildSide, Check, MatchSpans, MaxTree
from juncture.local.output.payload import Holder, read_all
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST, Slots, rows_with_key, sort_slots
from juncture.runtime.sources import Source

_ROWS_PER_BUCKET = 4


@dataclass(frozen=True)
class BuildKeys:
    """What a join by inequalities compares of some right rows."""

    keys: list[pa.Array]  # the columns that have to be equal to left ones
    on: Ints | None = None  # codes of the value to sort by; None if there is none
    leaves: Ints | None = None  # codes of the second value; greater ones match. None if there is none
    valid: Mask | None = None  # which rows can match at all; None for all


@dataclass(frozen=True)
class ProbeKeys:
    """What left rows seek: right rows of an equal key, with a value within limits, and a second from a threshold."""

    keys: Sequence[pa.Array]  # the columns that have to be equal to right ones
    low: Ints | None = None  # least code of the right value, inclusive; None without a limit
    high: Ints | None = None  # greatest code of the right value, inclusive; None without a limit
    thresholds: Ints | None = None  # the least code of the second right value; None if there is none
    possible: Mask | None = None  # which rows can match at all; None for all


class SortedIndex(BuildSide):
    """Right rows in the order of (key, value), as the `tree` of second values, and the spans that left rows match."""

    def __init__(self, slots: Slots, keys: Keys, tree: MaxTree | None, total: int, context: JoinContext) -> None:
        super().__init__(slots.rows, total, tree)
        self.slots = slots
        self.keys = keys
        self._groups = np.zeros((slots.key_count, search.GROUP_COLUMNS), np.int64)
        entries = search.plan_index(slots.on, slots.starts, _ROWS_PER_BUCKET, self._groups)
        self._index = np.zeros(entries + 1, np.int32)
        context.threads.run(
            lambda part: search.fill_index(slots.on, slots.starts, self._groups, *part, self._index),
            slots.ranges(context),
        )

    def find(self, probe_keys: ProbeKeys, rows: int, check: Check | None, *, nested: bool = False) -> MatchSpans:
        """Return the spans that left rows match (with `nested`, all), of candidates if there is a further check."""
        keys = np.empty(rows, np.int32)
        self.keys.find(list(probe_keys.keys), keys)
        if probe_keys.possible is not None:
            keys[~probe_keys.possible] = EMPTY
        low = np.full(rows, MIN_CODE) if probe_keys.low is None else probe_keys.low
        high = np.full(rows, MAX_CODE) if probe_keys.high is None else probe_keys.high
        if nested:
            span_ends, compared = np.full(rows, len(self), np.int32), self._compared(keys, low, high, probe_keys, check)
            return MatchSpans(np.zeros(rows, np.int32), span_ends, check=compared)
        return MatchSpans(*self.spans(keys, low, high), thresholds=probe_keys.thresholds, check=check)

    def spans(self, keys: Codes, low: Ints, high: Ints) -> tuple[Codes, Codes]:
        """Return first position and end of the span of each row with this key and these limits."""
        first, end = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
        band.find_spans(
            keys, low, high, self.slots.on, self.slots.starts, self._groups, self._index, first, end
        )  # fmt: skip
        return first, end

    def _compared(self, keys: Codes, low: Ints, high: Ints, probe_keys: ProbeKeys, check: Check | None) -> Check:
        """Return what compares pairs in full."""
        on, thresholds = self.slots.on[: len(self)], probe_keys.thresholds
        key_at = np.repeat(np.arange(self.slots.key_count, dtype=np.int32), np.diff(self.slots.starts))

        def compared(lefts: Codes, positions: Codes) -> Mask:
            values = on[positions]
            good: Mask = (key_at[positions] == keys[lefts]) & (low[lefts] <= values) & (values <= high[lefts])
            if thresholds is not None and self.tree is not None:
                good &= self.tree.values[positions] >= thresholds[lefts]
            if check is not None:
                good[good] = check(lefts[good], positions[good])
            return good

        return compared


def read_sorted_index(
    source: Source,
    columns: Sequence[str],
    coded: Sequence[str],
    code: Callable[[pa.RecordBatch, int], BuildKeys],
    keys: Keys,
    context: JoinContext,
    *,
    has_tree: bool = False,
    order_ties: Callable[[Slots], None] | None = None,
    holder: Holder | None = None,
) -> SortedIndex:
    """Read, code and sort the right side.

    `code` returns what the join compares of a batch, given the number of its first row, and is called by several
    threads at once; it reads `columns`, and those in `coded` may be dictionary-encoded. `keys` is empty, and its first
    side is the right one. `order_ties` sorts the rows of equal key and value. `holder` receives its columns on the way,
    so that they need not be read again.

    The result has 12 bytes a row, and 9 more with second values; sorting takes 36 more.
    """
    total = source.num_rows
    if total > ROWS_MOST:
        raise PlanError(
            f"The right side has {total:,} rows, but this join sorts at most {ROWS_MOST:,} rows in memory. Swap the "
            "sides if the left one is smaller, join on Spark, or join the right side in parts.",
            name="JN-ROWS-LIMIT",
        )
    codes, on = np.empty(total, np.int32), np.zeros(total, np.int64)
    leaves = np.empty(total * has_tree, np.int64)

    def take(batch: pa.RecordBatch, rows: slice) -> None:
        build = code(batch, rows.start)
        keys.add(build.keys, codes[rows])
        if build.on is not None:
            on[rows] = build.on
        if has_tree and build.leaves is not None:
            leaves[rows] = build.leaves
        if build.valid is not None:
            codes[rows][~build.valid] = EMPTY

    read_all(source, columns, take, context, coded=coded, phase="right", holder=holder)
    slots = sort_slots(codes, on, rows_with_key(codes), max(keys.count, 1), context)
    if order_ties is not None:
        order_ties(slots)
    tree = MaxTree(leaves[slots.rows], context) if has_tree else None
    return SortedIndex(slots, keys, tree, total, context)
