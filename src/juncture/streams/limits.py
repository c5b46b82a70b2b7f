"""Limits of stored rows that can still match: the least code of each line."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from juncture.kernels.array_types import Codes, Ints
from juncture.kernels.symmetric import living_rows
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.predicate.intervals.interval import Bound

Table = npt.NDArray[np.int64]


def beyond_codes(end: Bound) -> int:
    """Return the code for a number that does not fit 64 bits, so no row can have it."""
    assert isinstance(end, int | float | Fraction)
    return MAX_CODE if end > 0 else MIN_CODE


@dataclass(frozen=True)
class Limits:
    """Which rows can still match."""

    least: Ints  # the least code of each line
    branches: tuple[Ints, ...] = ()  # the same for each alternative; a row has to satisfy one, if there are any
    ended: bool = False  # whether no row can match

    @cached_property
    def is_open(self) -> bool:
        """Whether all rows can still match."""
        return (
            not self.ended
            and bool((self.least == MIN_CODE).all())
            and (not self.branches or any(bool((branch == MIN_CODE).all()) for branch in self.branches))
        )

    def dead(self, codes: Table) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that can no longer match."""
        if self.ended:
            return np.ones(codes.shape[1], np.bool_)
        gone = _below(codes, self.least)
        if self.branches:
            all_gone = np.ones(codes.shape[1], np.bool_)
            for branch in self.branches:
                all_gone &= _below(codes, branch)
            gone |= all_gone
        return gone

    def alive(self, codes: Table) -> Codes:
        """Return the rows that can still match."""
        if self.ended or self.branches:
            return np.flatnonzero(~self.dead(codes)).astype(np.int32)
        found = np.empty(codes.shape[1], np.int32)
        return found[: living_rows(codes, self.least, found)]

    def may_kill(self, least: Ints) -> bool:
        """Return whether a row may be dead, given the least code of each line."""
        if self.ended or (least < self.least).any():
            return True
        return bool(self.branches) and all(bool((least < branch).any()) for branch in self.branches)


def _below(codes: Table, least: Ints) -> npt.NDArray[np.bool_]:
    gone = np.zeros(codes.shape[1], np.bool_)
    for line in np.flatnonzero(least != MIN_CODE):
        gone |= codes[line] < least[line]
    return gone
