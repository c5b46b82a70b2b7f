"""The bounds of left rows, as codes of the outermost right values within them.

The right values of an inequality are coded once, in their order, and an end becomes the code of the least (or greatest)
right value that satisfies it. So ends are exact whatever is added to a value: one that leaves 64 bits is no limit at
all, or one that nothing satisfies.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain, validity
from juncture.columnar.floats import float_codes
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.domain import Coder, Domain, RankCoder
from juncture.ordered.ends import GREATEST, LEAST, LimitEnd, Offset, TooWideError, inward


@dataclass(frozen=True)
class LimitEncoding:
    """One order of values: codes of right columns in it, and the codes that left values limit them to.

    Attributes
    ----------
    coder
        By steps where they fit 64 bits, else by rank among the distinct right values.
    nan_counts
        Whether NaN is a value, equal to itself and greater than all others; otherwise it matches nothing.
    """

    coder: Coder
    nan_counts: bool = False

    @property
    def domain(self) -> Domain:
        """The values."""
        return self.coder if isinstance(self.coder, Domain) else self.coder.domain

    def by_rank(self, columns: Iterable[pa.Array]) -> LimitEncoding:
        """Return the encoding in which right columns with these values are coded by rank, if they may not fit.

        It costs microseconds a value.
        """
        return LimitEncoding(self.domain.ranked(lambda: columns), self.nan_counts)

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes of right values, and which rows have one.

        Raises
        ------
        TooWideError
            If a value does not fit, and the encoding is not by rank.
        """
        codes, valid = self.coder.encode(array)
        return codes, validity(plain(array)) if self.nan_counts else valid

    def rough(self, array: pa.Array) -> Ints:
        """Return codes in the order of right values that need not fit; different values may have the same."""
        steps = self.domain.steps(plain(array))
        return float_codes(np.array([0.0 if step is None else float(step) for step in steps], np.float64))

    def limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Return the codes that left values limit right ones to.

        Parameters
        ----------
        array
            The left values.
        offset
            Added to each.
        end
            Which end they are.

        Returns
        -------
        codes
            The least code that satisfies a lower end, the greatest that satisfies an upper one.
        possible
            Which rows any value may satisfy: none where the value or the offset is null or NaN; None for all.
        """
        if isinstance(self.coder, Domain):
            try:
                return self.coder.ends(array, offset, end, nan_counts=self.nan_counts)
            except TooWideError:
                pass
        return self._exact_limits(array, offset, end)

    def _exact_limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Calculate with Python's integers, row by row."""
        steps = self.domain.steps(plain(array))
        if isinstance(offset, pa.Array):
            added = self.domain.exact_distances(plain(offset))
        else:
            added = [Fraction(offset)] * len(steps)
        codes = np.zeros(len(steps), np.int64)
        possible = np.zeros(len(steps), np.bool_)
        for row, (step, more) in enumerate(zip(steps, added, strict=True)):
            if step is None or more is None:
                continue
            limit = inward(step + more, end)
            if isinstance(self.coder, RankCoder):
                ranks = self.coder.values
                codes[row] = bisect_right(ranks, limit) - 1 if end.upper else bisect_left(ranks, limit)
                possible[row] = True
            else:
                code = self.domain.code_of(limit)
                codes[row] = min(max(code, LEAST), GREATEST)
                possible[row] = code >= LEAST if end.upper else code <= GREATEST
        return codes, possible
