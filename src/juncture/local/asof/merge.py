"""The algorithm `merge`: pass over both sides once, in ascending order of ``on``.

A side that ascends is read as it is; otherwise its rows are sorted first. Ties are looked for only where equal ``on``
values follow each other, and only tied rows are read to break them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from juncture.columnar.tie_order import order_keys
from juncture.errors import PlanError
from juncture.kernels import merge as kernels
from juncture.kernels import ties
from juncture.kernels.array_types import Codes, Ints, IntTable, Rows
from juncture.kernels.asof import NOWHERE
from juncture.kernels.hash_table import EMPTY
from juncture.local.asof.sides import (
    LeftCodes,
    RightRows,
    SideCodes,
    count_matches,
    no_matches,
    pointers_of,
    read_codes,
)
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import pooled_array
from juncture.runtime.sort import ROWS_MOST, order_of, sorted_values
from juncture.runtime.take import gather, tie_keys
from juncture.spec.asof import Direction

_NO_ROWS = np.zeros(0, np.int32)
_NO_POSITIONS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)
_NO_LIMIT = 2**64 - 1


@dataclass(frozen=True)
class Ascending:
    """One side in ascending order of ``on``."""

    keys: Codes  # key code of each row; empty if all rows have one key
    on: Ints  # ``on`` code of each row
    rows: Rows  # the number of each row; empty if the side is in this order
    repeats: bool  # whether an ``on`` occurs more than once

    @classmethod
    def of(cls, codes: SideCodes, context: JoinContext, *, one_key: bool) -> Ascending:
        """Return rows in this order, given their codes. With one key, rows whose key is `EMPTY` are left out."""
        keys, on, rows = codes.keys, codes.on, _NO_ROWS
        order = _order_of(on, context) if codes.order is None else codes.order
        if len(keys) and (one_key or order & kernels.DISORDER):
            # Rows that match nothing may have no value, so that the others are in order without them.
            rows = np.flatnonzero(keys != EMPTY).astype(np.int32)
            if len(rows) < len(on):
                keys, on = keys[rows], on[rows]
                order = _order_of(on, context)
            keys = _NO_ROWS if one_key else keys
        if order & kernels.DISORDER:
            on, ascending = sorted_values(on, context)
            rows = rows[ascending] if len(rows) else ascending
            keys = keys[ascending] if len(keys) else keys
            order = _order_of(on, context)
        return cls(keys, on, rows, bool(order & kernels.REPEAT))


def merge(
    left: LeftCodes,
    right: RightRows,
    directions: Sequence[Direction],
    wanted: int,
    candidate_count: int,
    later: bool,
    pointers: Ints,
    context: JoinContext,
) -> Ints:
    """Write the right rows of each left row, best first, and return the counters of `juncture.kernels.asof` for ties.

    `candidate_count` are the candidates of each left row: one more than the matches `wanted` shows whether a tie has to
    be broken. `later` is whether of two rows at the same distance the later one comes first. Out: ``pointers[left row,
    match]``, -1 where a row has no more.

    Linear where both sides ascend; else a sort of about 20 ns a row. 8 bytes a row of
    either side, 16 more of the right side if rows repeat, and 40 while it is sorted.
    """
    if right.rows > ROWS_MOST:
        raise PlanError(
            f"algorithm='merge' sorts the right side in memory, but {right.rows:,} rows are too many. Pass "
            "algorithm='probe', which streams it.",
            name="JN-ROWS-LIMIT",
        )
    one_key, key_count = not right.by, max(left.keys.count, 1)
    ascending = Ascending.of(left.codes, context, one_key=one_key)
    codes = read_codes(right, right.parts, right.keys.find, "right", context)
    other = Ascending.of(codes, context, one_key=one_key)
    if len(directions) == candidate_count == 1 and left.barred is None:
        _match_once(ascending, other, left, right, directions[0], key_count, pointers[:, 0], context)
        return no_matches()
    linked = _Linked.of(other, right, directions, key_count, candidate_count, context)
    sides = {direction.forward: _nearest(ascending, other, direction, key_count, context) for direction in directions}
    barred = _NO_BYTES if left.barred is None else left.barred.view(np.uint8)
    floating = right.coder.floating
    limits = np.asarray(left.limits, np.uint64)
    pointers[:] = NOWHERE

    def choose(part: tuple[int, int], counts: Ints) -> None:
        kernels.choose_positions(
            ascending.keys, ascending.on, ascending.rows, barred, *part, sides.get(False, _NO_POSITIONS),
            sides.get(True, _NO_POSITIONS), other.on, linked.before, linked.after, linked.behind_rows,
            linked.ahead_rows, wanted, candidate_count, limits, floating, later, pointers, counts,
        )  # fmt: skip

    return count_matches(choose, context.threads.slices(len(ascending.on)), context)


def _match_once(
    rows: Ascending,
    other: Ascending,
    left: LeftCodes,
    right: RightRows,
    direction: Direction,
    key_count: int,
    pointers: Ints,
    context: JoinContext,
) -> None:
    """Write the one match of each left row in one direction."""
    if len(rows.on) < len(pointers):
        pointers[:] = NOWHERE
    is_in_order = len(rows.on) == len(pointers) and not len(rows.rows)
    positions = pointers if is_in_order else pooled_array(len(rows.on), np.int64)
    numbers = _numbers(other, right)
    # The nearest row behind is the last of its ties, which wins if no column decides.
    decides = other.repeats and (right.ties != "ignore" or right.first or direction.forward)
    winners = _winners(other, right, numbers, key_count, context) if decides and right.by else numbers
    limits = np.asarray(left.limits, np.uint64)
    is_unlimited = len(limits) == 1 and limits[0] == _NO_LIMIT
    is_final = is_in_order and is_unlimited and not len(winners) and not len(rows.keys)
    floating, alone = right.coder.floating, context.alone()

    def match(part: tuple[int, int]) -> None:
        candidates = pooled_array((part[1] - part[0] + 1) * (decides and not right.by), np.int64)
        tied_count = _find(rows, other, direction, key_count, part, positions, candidates)
        if tied_count:
            _decide_matches(candidates[:tied_count], positions[: part[1]], other, right, direction, numbers, alone)
        if not is_final:
            kernels.choose_single(
                rows.keys, rows.on, rows.rows, *part, positions, other.on, winners, limits, floating, pointers
            )

    context.threads.run(match, context.threads.slices(len(rows.on)))


def _decide_matches(
    candidates: Ints,
    positions: Ints,
    other: Ascending,
    right: RightRows,
    direction: Direction,
    numbers: Codes,
    context: JoinContext,
) -> None:
    """Replace matches that tie with other right rows by the winners, where all rows have one key."""
    heads, starts, rows = (np.empty(len(candidates) + 1, np.int64) for _ in range(3))
    count = ties.list_tied_matches(candidates, positions, other.on, direction.forward, heads, starts, rows)
    starts = starts[: count + 1]
    tied = np.repeat(heads[:count] - starts[:-1], starts[1:] - starts[:-1]) + np.arange(starts[-1])
    keys = _keys_of(right, numbers[tied] if len(numbers) else tied, context)
    ties.decide_matches(starts, heads, keys, right.first, rows[:count], positions)


def _winners(other: Ascending, right: RightRows, numbers: Codes, key_count: int, context: JoinContext) -> Codes:
    """Return the row at each position, and of rows that tie the winner."""
    positions, heads = _list_ties(other, key_count)
    if not len(positions):
        return numbers
    rows = numbers if len(numbers) else np.arange(len(other.on), dtype=np.int32)
    winners = rows.copy()
    keys = _keys_of(right, rows[positions], context)
    ties.decide_ties(positions, heads, keys, right.first, rows, winners)
    return winners


def _list_ties(rows: Ascending, key_count: int) -> tuple[Codes, Codes]:
    """Return the positions of rows that tie, and the first one of each run of them."""
    keys = rows.keys if len(rows.keys) else np.zeros(len(rows.on), np.int32)
    positions, heads = np.empty(len(rows.on), np.int32), np.empty(len(rows.on), np.int32)
    count = ties.list_ties(keys, rows.on, key_count, positions, heads)
    return positions[:count], heads[:count]


def _keys_of(right: RightRows, rows: Rows | Ints, context: JoinContext) -> IntTable:
    """Return the keys that decide which of some ascending rows win: none if their order does."""
    if right.ties == "ignore":
        return np.empty((0, len(rows)), np.int64)
    keys = order_keys(gather(right.source, right.tie_columns, rows.astype(np.int64), context))
    return keys[0].reshape(1, -1) if len(keys) == 1 else np.array(keys, np.int64).reshape(-1, len(rows))


@dataclass(frozen=True)
class _Linked:
    """The right rows by position, linked if more than the nearest one matters; no rows if positions are row numbers.

    The winner comes first among tied rows, as each direction reads them.
    """

    before: Codes  # the previous position of the same key; empty if it does not matter
    after: Codes  # the next position of the same key; empty if it does not matter
    behind_rows: Codes  # the row at each position, as the backward direction reads them
    ahead_rows: Codes  # the row at each position, as the forward direction reads them

    @classmethod
    def of(
        cls,
        rows: Ascending,
        right: RightRows,
        directions: Sequence[Direction],
        key_count: int,
        candidate_count: int,
        context: JoinContext,
    ) -> _Linked:
        """Return the links, and the rows with ties broken."""
        before, after = _NO_ROWS, _NO_ROWS
        if candidate_count > 1:
            keys = rows.keys if len(rows.keys) else np.zeros(len(rows.on), np.int32)
            before, after = np.empty(len(rows.on), np.int32), np.empty(len(rows.on), np.int32)
            kernels.link(keys, key_count, before, after)
        numbers = _numbers(rows, right)
        looks_ahead = any(direction.forward for direction in directions)
        # From the end, the last row of a run is met first in table order, which is all that such a join needs.
        if not rows.repeats or (right.ties == "ignore" and not right.first and not looks_ahead):
            return cls(before, after, numbers, numbers)
        positions, heads = _list_ties(rows, key_count)
        if not len(positions):
            return cls(before, after, numbers, numbers)
        if key_count > 1:
            grouped = order_of([heads.astype(np.int64)], context)
            positions, heads = positions[grouped], heads[grouped]
        starts = np.flatnonzero(np.diff(heads, prepend=NOWHERE, append=NOWHERE))
        numbers = numbers if len(numbers) else np.arange(len(rows.on), dtype=np.int32)
        tied = numbers[positions]
        if right.ties != "ignore":
            by = tie_keys(right.source, right.tie_columns, tied.astype(np.int64), context)
            tied = tied[_order_of_runs(starts, [~key for key in by] if right.first else by, heads, context)]
        winner_last = right.ties != "ignore" or not right.first
        # Of each run the winner stands last where rows are looked at from the end, and first where from the start.
        behind = _placed(numbers, positions, starts, tied, turned=not winner_last)
        ahead = _placed(numbers, positions, starts, tied, turned=winner_last) if looks_ahead else behind
        return cls(before, after, behind, ahead)


def _placed(numbers: Codes, positions: Codes, starts: Ints, tied: Codes, *, turned: bool) -> Codes:
    """Return the rows at all positions, given those of runs, which may be turned round."""
    if turned:
        lengths = np.diff(starts)
        positions = positions[np.repeat(starts[:-1] + starts[1:] - 1, lengths) - np.arange(len(positions))]
    placed = numbers.copy()
    placed[positions] = tied
    return placed


def _order_of_runs(starts: Ints, keys: list[Ints], heads: Codes, context: JoinContext) -> Ints:
    """Return the order of rows by their run, and within it by their keys."""
    order = np.empty(len(heads), np.int64)
    if ties.order_short_runs(starts, np.stack(keys), order):
        return order
    return order_of([heads.astype(np.int64), *keys], context).astype(np.int64)


def _numbers(rows: Ascending, right: RightRows) -> Codes:
    """Return the row number at each position; none if they are the same."""
    if len(right.parts) == len(right.source.part_rows):
        return rows.rows
    numbers = pointers_of(right, right.parts).astype(np.int32)
    return numbers[rows.rows] if len(rows.rows) else numbers


def _nearest(left: Ascending, right: Ascending, direction: Direction, key_count: int, context: JoinContext) -> Ints:
    positions = pooled_array(len(left.on), np.int64)
    parts = context.threads.slices(len(left.on))
    context.threads.run(lambda part: _find(left, right, direction, key_count, part, positions, _NO_POSITIONS), parts)
    return positions


def _find(
    left: Ascending,
    right: Ascending,
    direction: Direction,
    key_count: int,
    part: tuple[int, int],
    positions: Ints,
    candidates: Ints,
) -> int:
    """Write the nearest positions of some left rows, and without keys those that may tie; return how many these are."""
    if not len(right.keys):
        return kernels.nearest_without_keys(
            left.on, *part, right.on, direction.forward, direction.strict, positions, candidates
        )
    kernels.nearest_positions(
        left.keys, left.on, *part, right.keys, right.on, direction.forward, direction.strict, key_count, positions,
    )  # fmt: skip
    return 0


def _order_of(on: Ints, context: JoinContext) -> int:
    """Return whether values descend or repeat, as the kernel does."""
    parts = context.threads.slices(len(on))
    return reduce(or_, context.threads.map(lambda part: kernels.order_of_values(on, *part), parts), 0)
