"""Counts and sums over the matches of left rows, from spans or from pairs of rows and positions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, both, floats, plain, validity
from juncture.errors import DataError
from juncture.kernels import fold as kernels
from juncture.kernels.array_types import Codes, Floats, Ints
from juncture.kernels.intrinsics import WINDOW
from juncture.local.output.pairs import levels_of
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Domain
from juncture.ordered.kinds import domain_of
from juncture.runtime.context import JoinContext
from juncture.spec.aggregate import Aggregate

_EXPONENT_MOST = 960  # of floats that are summed: 2⁶⁴ of these are still a float
_SQUARED_EXPONENT_MOST = 400
"""Of floats whose differences are squared: all digits of the squares are those of floats."""


class Values:
    """The values of a right column in the order of the positions, without nulls.

    A row whose value in the second column `other` is null is excluded, too. `order` is the place of each row among all
    in the order of matches, and None if that is the order of the positions (`is_ordered`).
    """

    def __init__(self, array: pa.Array, other: pa.Array | None = None, order: Ints | None = None) -> None:
        values = plain(array)
        second = None if other is None else plain(other)
        present = both(validity(values), None if second is None else validity(second))
        self._ranks: Codes | None = None
        self._present = present
        if present is not None:
            self._ranks = np.concatenate([[0], np.cumsum(present)]).astype(np.int32)
            mask = pa.array(present)
            values, second = values.filter(mask), None if second is None else second.filter(mask)
            order = None if order is None else order[present]
        self.array = values
        self.other = None if second is None else Values(second)
        self._order = order
        self.is_ordered = order is None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def order(self) -> Ints:
        """The place of each value in the order of matches."""
        return np.arange(len(self), dtype=np.int64) if self._order is None else self._order

    def spans(self, first: Codes, end: Codes) -> tuple[Codes, Codes]:
        """Return spans of positions as spans of the values."""
        if self._ranks is None:
            return first, np.maximum(first, end)
        return self._ranks[first], self._ranks[np.maximum(first, end)]

    def pairs(self, rows: Codes, positions: Codes) -> tuple[Codes, Codes]:
        """Return pairs of rows and positions as pairs of rows and values."""
        if self._ranks is None or self._present is None:
            return rows, positions
        here = self._present[positions]
        return rows[here], self._ranks[positions[here]]

    @cached_property
    def domain(self) -> Domain:
        """What the values are, of numbers and times."""
        domain = domain_of(self.array.type)
        assert domain is not None
        return domain.unshifted

    @property
    def scale(self) -> int:
        """Digits of decimals after the point."""
        return self.array.type.scale if pat.is_decimal(self.array.type) else 0

    def unscaled(self, results: Floats) -> Floats:
        """Return results in units of the last digit as numbers: a power of ten is a float, its inverse is none."""
        return results / 10.0**self.scale if self.scale >= 0 else results * 10.0**-self.scale

    @cached_property
    def steps(self) -> Ints | list[int]:
        """Integers and decimals as whole steps: of Python's own where they do not fit 64 bits."""
        try:
            return np.ascontiguousarray(self.domain.encode(self.array)[0])
        except TooWideError:
            return [step or 0 for step in self.domain.steps(self.array)]

    @cached_property
    def numbers(self) -> tuple[Floats, Floats]:
        """The values as double-double numbers: decimals in units of their last digit."""
        if self.domain.floating:
            values = floats(self.array)
            return values, np.zeros(len(values))
        if isinstance(self.steps, list):
            high = np.array([float(step) for step in self.steps])
            return high, np.array([float(step - int(near)) for step, near in zip(self.steps, high, strict=True)])
        high = self.steps.astype(np.float64)
        # Floats are rounded from 2⁵³ on, and even then. The nearest may be 2⁶³, which no 64-bit integer is, so both
        # are halved before their difference is taken.
        halves = (self.steps >> 1) - np.ldexp(high, -1).astype(np.int64)
        return high, np.where(np.abs(high) < 2.0**53, 0.0, 2.0 * halves + (self.steps & 1))


class Fold(ABC):
    """One aggregate. Its state has an item for each of the current left rows."""

    of_whole_rows: ClassVar[bool] = False  # whether all pairs of a left row have to come at once
    grows: ClassVar[bool] = False  # whether the result of a left row takes more memory with more matches

    @abstractmethod
    def start(self, rows: int) -> Any:
        """Return the state of rows without matches."""

    @abstractmethod
    def add_spans(self, state: Any, first: Codes, end: Codes) -> None:
        """Add the span of each row."""

    @abstractmethod
    def add_pairs(self, state: Any, rows: Codes, positions: Codes) -> None:
        """Add pairs of a row and a position."""

    @abstractmethod
    def finish(self, state: Any, rows: Codes) -> pa.Array | pa.ChunkedArray:
        """Return the aggregates of some rows."""


class _Count(Fold):
    def __init__(self, values: Values | None) -> None:
        self._values = values

    def start(self, rows: int) -> Ints:
        return np.zeros(rows, np.int64)

    def add_spans(self, state: Ints, first: Codes, end: Codes) -> None:
        first, end = (first, np.maximum(first, end)) if self._values is None else self._values.spans(first, end)
        state += end - first

    def add_pairs(self, state: Ints, rows: Codes, positions: Codes) -> None:
        rows = rows if self._values is None else self._values.pairs(rows, positions)[0]
        state += np.bincount(rows, minlength=len(state))

    def finish(self, state: Ints, rows: Codes) -> pa.Array:
        return array_of(state[rows], pa.int64())


class _Sum(Fold):
    """Sums of whole steps, exactly."""

    def __init__(self, aggregate: Aggregate, values: Values) -> None:
        self._aggregate = aggregate
        self._values = values
        self._count = _Count(values)
        if isinstance(values.steps, list):
            self._running: Any = np.array([0, *accumulate(values.steps)], object)
        else:
            steps, size = values.steps, len(values) + 1
            greatest = max(-int(steps.min(initial=0)), int(steps.max(initial=0)))
            # Differences of sums that fit 62 bits fit 64.
            is_narrow = greatest * size < 1 << 62
            self._running = np.empty(size * (not is_narrow), np.int64), np.empty(size, np.int64)
            if is_narrow:
                self._running[1][0] = 0
                np.cumsum(steps, out=self._running[1][1:])
            else:
                kernels.running_sums(steps, *self._running)

    def start(self, rows: int) -> Any:
        counts = self._count.start(rows)
        if isinstance(self._values.steps, list):
            return counts, np.array([0] * rows, object)
        return counts, (np.zeros(rows, np.int64), np.zeros(rows, np.int64))

    def add_spans(self, state: Any, first: Codes, end: Codes) -> None:
        counts, sums = state
        self._count.add_spans(counts, first, end)
        first, end = self._values.spans(first, end)
        if isinstance(self._values.steps, list):
            sums += self._running[end] - self._running[first]
        else:
            kernels.add_span_sums(first, end, *self._running, *sums)

    def add_pairs(self, state: Any, rows: Codes, positions: Codes) -> None:
        counts, sums = state
        self._count.add_pairs(counts, rows, positions)
        rows, indices = self._values.pairs(rows, positions)
        if isinstance(self._values.steps, list):
            np.add.at(sums, rows, np.array(self._values.steps, object)[indices])
        else:
            kernels.add_pair_sums(rows, indices, self._values.steps, *sums)

    def finish(self, state: Any, rows: Codes) -> pa.Array:
        """Return the sums; raise DataError if one does not fit its type."""
        counts, sums = state
        data_type, there = self._aggregate.type, counts[rows] > 0
        if isinstance(self._values.steps, list):
            sums = sums[rows]
        else:
            high, low = sums[0][rows], sums[1][rows]
            if pat.is_decimal128(data_type):
                # Fewer than 2³¹ numbers of 64 bits make less than 10³⁸.
                return array_of(np.stack([low, high], axis=1), data_type, there)
            fits = high == 0 if pat.is_uint64(data_type) else high == low >> 63
            if not pat.is_decimal(data_type) and fits.all():
                return array_of(low, data_type, there)
            sums = [int(h) * 2**64 + (int(w) % 2**64) for h, w in zip(high, low, strict=True)]
        return self._converted([total if here else None for total, here in zip(sums, there, strict=True)])

    def _converted(self, sums: Sequence[int | None]) -> pa.Array:
        data_type = self._aggregate.type
        if pat.is_decimal(data_type):
            most = 10**data_type.precision - 1
            least, width = -most, data_type.bit_width // 8
        else:
            bits = 64 - (not pat.is_uint64(data_type))
            least, most, width = (0 if bits == 64 else -(2**63)), 2**bits - 1, 8
        wrong = next((total for total in sums if total is not None and not least <= total <= most), None)
        if wrong is not None:
            amount = wrong * self._values.domain.step
            raise DataError(
                f"A sum of {self._aggregate.column!r} is {amount}, which does not fit {data_type}. Cast the "
                "column to a wider decimal, or use mean.",
                name="JN-SUM-OVERFLOW",
            )
        raw = b"".join((total or 0).to_bytes(width, "little", signed=least < 0) for total in sums)
        there = np.array([total is not None for total in sums], np.bool_)
        return array_of(np.frombuffer(raw, np.uint8).reshape(len(sums), width), data_type, there)


class _Totals(Fold):
    """Sums, means and standard deviations in double-double arithmetic."""

    def __init__(self, aggregate: Aggregate, values: Values, context: JoinContext) -> None:
        self._function = aggregate.function
        self._values = values
        self._count = _Count(values)
        high, low = values.numbers
        finite = np.abs(high[np.isfinite(high) & (high != 0.0)])
        least, most = (math.frexp(float(size))[1] for size in (finite.min(initial=1.0), finite.max(initial=1.0)))
        # A power of two changes no digit, and keeps what is between from running over where the result may not.
        self._exponent = max(0, most - _EXPONENT_MOST)
        is_spread = self._function == "std"
        words = kernels.SUM_WORDS
        if is_spread:
            has_squares = least > -_SQUARED_EXPONENT_MOST and most < _SQUARED_EXPONENT_MOST
            words = kernels.SPREAD_WORDS if has_squares else kernels.WIDE_SPREAD_WORDS
        parts = [np.ldexp(part, -self._exponent) for part in (high, low)]
        columns = [np.ones(len(values)), *parts] if is_spread else parts
        self._tree, self._levels = _tree_of(columns, words, context)

    def start(self, rows: int) -> tuple[Ints, Floats]:
        return self._count.start(rows), np.zeros((rows, self._tree.shape[1]))

    def add_spans(self, state: tuple[Ints, Floats], first: Codes, end: Codes) -> None:
        self._count.add_spans(state[0], first, end)
        kernels.add_span_totals(*self._values.spans(first, end), self._tree, self._levels, state[1])

    def add_pairs(self, state: tuple[Ints, Floats], rows: Codes, positions: Codes) -> None:
        self._count.add_pairs(state[0], rows, positions)
        kernels.add_pair_totals(*self._values.pairs(rows, positions), self._tree, state[1])

    def finish(self, state: tuple[Ints, Floats], rows: Codes) -> pa.Array:
        counts, totals = state[0][rows], state[1][rows]
        there = counts > (1 if self._function == "std" else 0)
        number = np.where(there, counts, 2).astype(np.float64)
        with np.errstate(all="ignore"):
            if self._function == "std":
                result = np.sqrt((totals[:, 3] + totals[:, 4]) / (number - 1))
                if totals.shape[1] == kernels.WIDE_SPREAD_WORDS:
                    result = np.ldexp(result, totals[:, 5].astype(np.int64))
            elif self._function == "mean":
                result = _quotient(totals[:, 0], totals[:, 1], number)
            else:
                result = totals[:, 0]
            result = self._values.unscaled(np.ldexp(result, self._exponent))
        return array_of(result, pa.float64(), there)


def _tree_of(columns: Sequence[Floats], words: int, context: JoinContext) -> tuple[Floats, Ints]:
    """Return a tree over totals of a number of words, with these as leaves, and the start of its levels."""
    sizes, levels = levels_of(len(columns[0]))
    tree = np.zeros((int(levels[-1]), words))
    for word, values in enumerate(columns):
        tree[: len(values), word] = values
    for level in range(1, len(sizes)):
        build = partial(_build, tree, int(levels[level - 1]), int(levels[level]))
        context.threads.run(build, context.threads.slices(sizes[level - 1] // WINDOW, 4, rows_each=WINDOW))
    return tree, levels


def _build(tree: Floats, below: int, above: int, nodes: tuple[int, int]) -> None:
    kernels.build_totals(tree, below, above, *nodes)


def _quotient(high: Floats, low: Floats, number: Floats) -> Floats:
    """Return double-double numbers divided by whole ones, rounded."""
    quotient = high / number
    # The product is exact in halves, as the numbers have few digits.
    wide = quotient * 134_217_729.0
    upper = wide - (wide - quotient)
    rest = (high - upper * number) - (quotient - upper) * number
    return np.where(np.isfinite(quotient), quotient + (rest + low) / number, quotient)


class _WeightedMean(Fold):
    """The sum of the products of values and weights, divided by that of the weights."""

    def __init__(self, values: Values, context: JoinContext) -> None:
        assert values.other is not None
        self._values = values
        weights = values.other.numbers
        products = _products(values.numbers, weights)
        self._trees = [_tree_of(columns, kernels.SUM_WORDS, context) for columns in (products, weights)]

    def start(self, rows: int) -> tuple[Floats, Floats]:
        return np.zeros((rows, kernels.SUM_WORDS)), np.zeros((rows, kernels.SUM_WORDS))

    def add_spans(self, state: tuple[Floats, Floats], first: Codes, end: Codes) -> None:
        spans = self._values.spans(first, end)
        for totals, (tree, levels) in zip(state, self._trees, strict=True):
            kernels.add_span_totals(*spans, tree, levels, totals)

    def add_pairs(self, state: tuple[Floats, Floats], rows: Codes, positions: Codes) -> None:
        pairs = self._values.pairs(rows, positions)
        for totals, (tree, _) in zip(state, self._trees, strict=True):
            kernels.add_pair_totals(*pairs, tree, totals)

    def finish(self, state: tuple[Floats, Floats], rows: Codes) -> pa.Array:
        products, weights = (totals[rows] for totals in state)
        with np.errstate(all="ignore"):
            result = self._values.unscaled(products[:, 0] / weights[:, 0])
        return array_of(result, pa.float64(), weights[:, 0] != 0.0)


def _products(ones: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the products of double-double numbers; of those beyond all floats the upper half alone."""
    (one, one_low), (other, other_low) = ones, others
    with np.errstate(all="ignore"):
        product = one * other
        rest = product_rest(one, other, product) + one * other_low + one_low * other
        return product, np.where(np.isfinite(rest) & np.isfinite(product), rest, 0.0)


def product_rest(one: Floats, other: Floats, product: Floats) -> Floats:
    """Return the rounding error of a product of floats; not finite if it cannot be computed (Dekker's algorithm)."""
    halves = []
    for number in (one, other):
        wide = number * 134_217_729.0
        upper = wide - (wide - number)
        halves.append((upper, number - upper))
    (a, b), (c, d) = halves
    return ((a * c - product) + a * d + b * c) + b * d


def counting(values: Values | None = None) -> Fold:
    """Return what counts values, or matches."""
    return _Count(values)


def summing(aggregate: Aggregate, values: Values, context: JoinContext) -> Fold:
    """Return what makes sums, or what is made of them."""
    if aggregate.function == "weighted_mean":
        return _WeightedMean(values, context)
    if aggregate.function == "sum" and not values.domain.floating:
        return _Sum(aggregate, values)
    return _Totals(aggregate, values, context)
