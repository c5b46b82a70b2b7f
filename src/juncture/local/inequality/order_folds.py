"""Aggregates that go by the order of values, or of matches: extremes, quantiles, distinct values and lists."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of
from juncture.columnar.key_table import KeyCodes
from juncture.kernels import fold as kernels
from juncture.kernels import wavelet
from juncture.kernels.array_types import Codes, Floats, Ints
from juncture.local.inequality.folds import Fold, Values, product_rest
from juncture.local.output.pairs import MaxTree
from juncture.local.output.payload import Payload
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.kinds import domain_of
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import order_of
from juncture.spec.aggregate import Aggregate

_LARGE = 2.0**900
_SMALLER = 200  # a power of two by which numbers as large are divided before they are subtracted


class _Chosen(Fold):
    """The value at one of the positions: the least, greatest, first or last."""

    def __init__(self, aggregate: Aggregate, values: Values, context: JoinContext) -> None:
        self._aggregate = aggregate
        self._values = values
        by_place = aggregate.function in ("first", "last") and values.is_ordered
        codes = _codes(aggregate, values, context)
        self._codes = ~codes if aggregate.function in ("min", "first", "all", "arg_min") else codes
        self._tree = None if by_place else MaxTree(self._codes, context)
        self._payload = Payload({"value": values.array}, {"value": aggregate.type})

    def start(self, rows: int) -> tuple[Ints, Codes]:
        return np.zeros(rows, np.int64), np.full(rows, -1, np.int32)

    def add_spans(self, state: tuple[Ints, Codes], first: Codes, end: Codes) -> None:
        first, end = self._values.spans(first, end)
        if self._tree is not None:
            kernels.add_greatest_of_spans(first, end, self._tree.values, self._tree.levels, *state)
            return
        position = first if self._aggregate.function == "first" else end - 1
        state[1][:] = np.where(first < end, position, -1)

    def add_pairs(self, state: tuple[Ints, Codes], rows: Codes, positions: Codes) -> None:
        kernels.add_greatest_of_pairs(*self._values.pairs(rows, positions), self._codes, *state)

    def finish(self, state: tuple[Ints, Codes], rows: Codes) -> pa.ChunkedArray:
        return self._payload.column("value", state[1][rows])


def _codes(aggregate: Aggregate, values: Values, context: JoinContext) -> Ints:
    """Return integers whose least or greatest selects the value."""
    if aggregate.function in ("first", "last"):
        return values.order
    if values.other is None:
        return _order_codes(values)
    # Of equal ones the first is chosen either way.
    order = values.order if aggregate.function == "arg_min" else ~values.order
    ranks = np.empty(len(values), np.int64)
    ranks[order_of([_order_codes(values.other), order], context)] = np.arange(len(values))
    return ranks


def _order_codes(values: Values) -> Ints:
    """Return integers in the order of the values, NaN greatest."""
    array = values.array
    if pat.is_boolean(array.type):
        truths: Ints = array.to_numpy(zero_copy_only=False).astype(np.int64)
        return truths
    domain = domain_of(array.type)
    assert domain is not None
    try:
        return domain.encode(array)[0]
    except TooWideError:
        steps = domain.steps(array)
        ranks = {step: rank for rank, step in enumerate(sorted({step for step in steps if step is not None}))}
        return np.array([ranks[step] for step in steps if step is not None], np.int64)


class _Matrix:
    """Codes of positions from 0 to `most`, to count those of a span or to select one by its rank."""

    def __init__(self, codes: Codes, most: int) -> None:
        levels = max(1, most.bit_length())
        words = levels * (len(codes) // wavelet.WORD_BITS + 1)
        self.bits, self.ones = np.zeros(words, np.uint64), np.zeros(words, np.int32)
        self.zeros = np.zeros(levels, np.int64)
        wavelet.build_levels(codes.copy(), np.empty_like(codes), self.bits, self.ones, self.zeros)

    def nth(self, first: Codes, end: Codes, wanted: Ints) -> Codes:
        """Return the code at a place of each span, were it sorted; -1 where it has no such place."""
        codes = np.empty(len(first), np.int32)
        wavelet.find_nth(first, end, wanted, self.bits, self.ones, self.zeros, codes)
        return codes


class _Quantile(Fold):
    """The value at a share of the way from the least to the greatest, on the line between the two next to it."""

    of_whole_rows: ClassVar[bool] = True

    def __init__(self, aggregate: Aggregate, values: Values) -> None:
        self._share = 0.5 if aggregate.function == "median" else float(aggregate.argument or 0)
        self._values = values
        _, first_rows, codes = np.unique(_order_codes(values), return_index=True, return_inverse=True)
        self._codes = codes.astype(np.int32)
        self._numbers = tuple(part[first_rows] for part in values.numbers)
        self._matrix = _Matrix(self._codes, max(0, len(first_rows) - 1))

    def start(self, rows: int) -> tuple[Ints, Codes, Codes]:
        return np.zeros(rows, np.int64), np.full(rows, -1, np.int32), np.full(rows, -1, np.int32)

    def add_spans(self, state: tuple[Ints, Codes, Codes], first: Codes, end: Codes) -> None:
        first, end = self._values.spans(first, end)
        state[0][:] = end.astype(np.int64) - first
        below, above, _ = self._positions(state[0])
        state[1][:] = self._matrix.nth(first, end, below)
        state[2][:] = self._matrix.nth(first, end, above)

    def add_pairs(self, state: tuple[Ints, Codes, Codes], rows: Codes, positions: Codes) -> None:
        rows, positions = self._values.pairs(rows, positions)
        counts = np.zeros(len(state[0]), np.int64)
        counts += np.bincount(rows, minlength=len(counts))
        here = np.flatnonzero(counts)
        codes = self._codes[positions]
        codes = codes[np.lexsort((codes, rows))]
        starts = (np.cumsum(counts) - counts)[here]
        below, above, _ = self._positions(counts[here])
        state[0][here] = counts[here]
        state[1][here] = codes[starts + below]
        state[2][here] = codes[starts + above]

    def finish(self, state: tuple[Ints, Codes, Codes], rows: Codes) -> pa.Array:
        counts, below, above = state[0][rows], state[1][rows], state[2][rows]
        there, (_, _, share) = counts > 0, self._positions(counts)
        if len(self._numbers[0]) == 0:
            return array_of(np.zeros(len(rows)), pa.float64(), there)
        ones, others = ([part[codes] for part in self._numbers] for codes in (below, above))
        result = self._values.unscaled(_between(ones, others, share))
        return array_of(np.where(there, result, 0.0), pa.float64(), there)

    def _positions(self, counts: Ints) -> tuple[Ints, Ints, Floats]:
        """Return the places of two values, and how far the quantile is from the first to the second."""
        positions = self._share * np.maximum(counts - 1, 0)
        below = np.floor(positions)
        return below.astype(np.int64), np.ceil(positions).astype(np.int64), positions - below


def _between(ones: list[Floats], others: list[Floats], share: Floats) -> Floats:
    """Return numbers on the lines between double-double ones; as floats add up where one of them is not finite."""
    large = np.maximum(np.abs(ones[0]), np.abs(others[0])) > _LARGE
    down = np.where(large, -_SMALLER, 0)
    with np.errstate(all="ignore"):
        (one, one_low), (other, other_low) = ([np.ldexp(part, down) for part in pair] for pair in (ones, others))
        distance = other - one
        rest = _difference_rest(other, one, distance) + other_low - one_low
        part = share * distance
        part_low = product_rest(share, distance, part) + share * rest
        total = one + part
        total_low = _difference_rest(one, -part, total) + one_low + part_low
        result = np.ldexp(total + total_low, -down)
        finite = np.isfinite(one) & np.isfinite(other)
        result = np.where(finite, result, ones[0] + others[0])
    same = (share == 0) | ((ones[0] == others[0]) & (ones[1] == others[1]))
    return np.where(same, ones[0], result)


def _difference_rest(one: Floats, other: Floats, difference: Floats) -> Floats:
    """Return what a difference of floats lacks of the exact one (Knuth's)."""
    part = difference - one
    return (one - (difference - part)) - (other + part)


class _CountDistinct(Fold):
    """How many different values there are: in a span, those whose like does not come earlier in it."""

    of_whole_rows: ClassVar[bool] = True

    def __init__(self, values: Values) -> None:
        self._values = values
        self._codes = np.empty(len(values), np.int32)
        keys = KeyCodes([values.array.type], [values.array.type])
        keys.add([values.array], self._codes)
        self._count = max(1, keys.count)
        order = np.argsort(self._codes, kind="stable")
        same = self._codes[order[1:]] == self._codes[order[:-1]]
        after = np.zeros(len(values), np.int32)
        after[order[1:]] = np.where(same, order[:-1] + 1, 0)
        self._after = _Matrix(after, len(values) + 1)

    def start(self, rows: int) -> Ints:
        return np.zeros(rows, np.int64)

    def add_spans(self, state: Ints, first: Codes, end: Codes) -> None:
        first, end = self._values.spans(first, end)
        matrix = self._after
        limits = first.astype(np.int64) + 1
        wavelet.count_below(first, end, limits, matrix.bits, matrix.ones, matrix.zeros, state)

    def add_pairs(self, state: Ints, rows: Codes, positions: Codes) -> None:
        rows, positions = self._values.pairs(rows, positions)
        different = np.unique(rows.astype(np.int64) * self._count + self._codes[positions])
        state += np.bincount(different // self._count, minlength=len(state))

    def finish(self, state: Ints, rows: Codes) -> pa.Array:
        return array_of(state[rows], pa.int64())


class _Listed(Fold):
    """All values, in the order of the matches."""

    of_whole_rows: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def __init__(self, aggregate: Aggregate, values: Values) -> None:
        self._values = values
        self._type = aggregate.type
        self._payload = Payload({"value": values.array}, {"value": aggregate.type.value_type})

    def start(self, rows: int) -> tuple[Ints, list[Codes]]:
        return np.zeros(rows, np.int64), []

    def add_spans(self, state: tuple[Ints, list[Codes]], first: Codes, end: Codes) -> None:
        first, end = self._values.spans(first, end)
        counts = end.astype(np.int64) - first
        rows = np.repeat(np.arange(len(first), dtype=np.int32), counts)
        positions = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        self._add(state, rows, positions.astype(np.int32))

    def add_pairs(self, state: tuple[Ints, list[Codes]], rows: Codes, positions: Codes) -> None:
        self._add(state, *self._values.pairs(rows, positions))

    def _add(self, state: tuple[Ints, list[Codes]], rows: Codes, positions: Codes) -> None:
        """Add pairs of rows and values: rows that ascend, and none that had some before."""
        state[0][:] += np.bincount(rows, minlength=len(state[0]))
        state[1].append(positions[np.lexsort((self._values.order[positions], rows))])

    def finish(self, state: tuple[Ints, list[Codes]], rows: Codes) -> pa.Array:
        # Rows that are left out have no values.
        offsets = np.concatenate([[0], np.cumsum(state[0][rows])]).astype(np.int32)
        positions = np.concatenate([np.empty(0, np.int32), *state[1]])
        values = self._payload.column("value", positions)
        array: Any = values.combine_chunks()
        array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
        return pa.ListArray.from_arrays(array_of(offsets, pa.int32()), array, type=self._type)


def ordering(aggregate: Aggregate, values: Values, context: JoinContext) -> Fold:
    """Return what goes by the order of values, or of matches."""
    match aggregate.function:
        case "count_distinct":
            return _CountDistinct(values)
        case "median" | "quantile":
            return _Quantile(aggregate, values)
        case "list":
            return _Listed(aggregate, values)
        case _:
            return _Chosen(aggregate, values, context)
