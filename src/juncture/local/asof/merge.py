"""The algorithm `merge`: sort both sides, and walk through them together.

It is for a right side that fits in memory by its keys and ``on``, or is sorted already.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from juncture.errors import PlanError
from juncture.kernels import merge as kernels
from juncture.kernels.array_types import Ints, Rows
from juncture.kernels.asof import NOWHERE
from juncture.kernels.hash_table import EMPTY
from juncture.kernels.sort import mark_runs
from juncture.local.asof.probe import Direction, RightRows
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ROWS_MOST, Slots, order_of, sort_slots
from juncture.runtime.tie_keys import tie_keys


def merge(
    slots: Slots, right: RightRows, directions: Sequence[Direction], places: int, context: JoinContext
) -> tuple[list[Ints], npt.NDArray[np.bool_]]:
    """Return each slot's best right rows in each direction, and which keys the right side has: as `probe`.

    Raises
    ------
    PlanError
        If there are too many right rows to be sorted at once.

    Notes
    -----
    Holds 12 bytes of each right row, 40 while it sorts them; time O(R log R) at most, and one linear pass.
    """
    if right.rows > ROWS_MOST:
        raise PlanError(
            f"algorithm='merge' sorts the right side in memory, but {right.rows:,} rows are too many. Pass "
            "algorithm='probe', which streams it.",
            name="JN-ROWS-LIMIT",
        )
    keys, on, _, _ = load(right, right.parts, context)
    rows = np.flatnonzero(keys != EMPTY).astype(np.int32)
    ordered = sort_slots(keys, on, rows, slots.key_count, context)
    del keys, on
    ends = np.empty(len(ordered), np.int32)
    repeated = mark_runs(ordered.on[: len(ordered)], ordered.starts, ends)
    sorted_pointers = pointers_of(right, right.parts)[ordered.rows]
    if repeated and right.ties != "ignore":
        order_ties(sorted_pointers, ends, right, context)
    elif repeated and right.first:
        sorted_pointers = turned(sorted_pointers, ends)
    work = partial(_merge_range, slots, ordered, sorted_pointers, ends)
    best = []
    for direction in directions:
        found = np.full((len(slots), places, 2), NOWHERE, np.int64)
        context.threads.run(partial(work, direction, found), slots.ranges(context))
        best.append(found)
    return best, np.diff(ordered.starts) > 0


def load(right: RightRows, parts: Sequence[int], context: JoinContext) -> tuple[Rows, Ints, Ints, Rows]:
    """Return key code, ``on`` code, and known code if that matters, of the rows of some parts.

    Rows that are never known have no key; their keys are returned last.
    """
    sizes = [right.source.part_rows[part] for part in parts]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    total = int(starts[-1])
    keys, on = np.empty(total, np.int32), np.empty(total, np.int64)
    known = np.empty(total * (right.available_at is not None), np.int64)
    unavailable = [np.zeros(0, np.int32)]

    def load_part(number: int) -> int:
        part, first = parts[number], int(starts[number])
        for batch in right.batches(part):
            rows = slice(first, first + batch.num_rows)
            right.encode(batch, keys[rows], on[rows])
            if right.available_at is not None:
                unavailable.append(right.encode_known(batch, keys[rows], known[rows]))
            first = rows.stop
        return sizes[number]

    advance, done = context.progress.of("right"), 0
    for rows in context.threads.map(load_part, range(len(sizes))):
        done += rows
        advance(done, total)
    return keys, on, known, np.concatenate(unavailable)


def pointers_of(right: RightRows, parts: Sequence[int]) -> Ints:
    """Return the numbers of the rows of some parts."""
    bounds = right.source.bounds
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(bounds[part], bounds[part + 1]) for part in parts)])


def order_ties(pointers: Ints, ends: Rows, right: RightRows, context: JoinContext) -> None:
    """Order the rows within each run of equal key and ``on``, the winner last."""
    inside = np.ones(len(ends), np.bool_)
    inside[1:] = ends[1:] == ends[:-1]
    inside[:-1] |= inside[1:]
    inside[:1] = ends[:1] > 1
    places = np.flatnonzero(inside)
    tied = pointers[places]
    keys = tie_keys(right.source, right.tie_columns, tied, context)
    keys = [~key for key in keys] if right.first else keys
    pointers[places] = tied[order_of([ends[places].astype(np.int64), *keys], context)]


def turned(pointers: Ints, ends: Rows) -> Ints:
    """Return the rows with each run of equal key and ``on`` turned round, so that the first of the table wins."""
    places = np.arange(len(ends))
    starts = np.maximum.accumulate(np.where(np.diff(ends, prepend=-1) != 0, places, 0))
    turned: Ints = pointers[starts + ends - 1 - places]
    return turned


def _merge_range(
    slots: Slots,
    right: Slots,
    pointers: Ints,
    ends: Rows,
    direction: Direction,
    best: Ints,
    part: tuple[int, int, int],
) -> None:
    kernels.merge(
        slots.on,
        slots.starts,
        *part,
        right.on,
        right.starts,
        pointers,
        ends,
        direction.forward,
        direction.strict,
        best,
    )
