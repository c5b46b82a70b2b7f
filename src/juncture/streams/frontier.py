"""The frontier of a stream: how far it has advanced in its orders, and the limits that follow for stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.kernels import symmetric as kernels
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask
from juncture.kernels.symmetric import living_rows
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.predicate.intervals.interval import Bound
from juncture.streams.order import SideOrder


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

    def dead(self, codes: IntTable) -> npt.NDArray[np.bool_]:
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

    def alive(self, codes: IntTable) -> Codes:
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


def _below(codes: IntTable, least: Ints) -> npt.NDArray[np.bool_]:
    gone = np.zeros(codes.shape[1], np.bool_)
    for line in np.flatnonzero(least != MIN_CODE):
        gone |= codes[line] < least[line]
    return gone


class Frontier:
    """The frontier of one side."""

    def __init__(self, orders: Sequence[SideOrder]) -> None:
        self.orders = tuple(orders)
        self.least: list[int | None] = [None] * len(self.orders)  # least code of future rows by order
        self.ended = False
        self._greatest = [MIN_CODE] * len(self.orders)

    def take(self, batch: pa.RecordBatch, *, advance: bool = True) -> tuple[Mask | None, list[Mask | None]]:
        """Advance past rows; return masks of late rows (None: none), and of rows with a value by order (None: all).

        A late row is farther behind than an order allows. It is compared with all rows before it, in this batch and
        earlier ones, so batch boundaries make no difference. Without ``advance``, it is compared with earlier ones.
        """
        late: Mask | None = None
        placed: list[Mask | None] = []
        for place, order in enumerate(self.orders):
            codes, valid = order.codes(batch)
            placed.append(valid)
            codes = codes if valid is None else np.where(valid, codes, MIN_CODE)
            behind = self._advanced(place, codes) if advance else codes < self._known(place)
            if behind is not None:
                behind = behind if valid is None else behind & valid
                late = behind if late is None else late | behind
        return (late if late is not None and late.any() else None), placed

    def _known(self, place: int) -> int:
        least = self.least[place]
        return MIN_CODE if least is None else least

    def _advanced(self, place: int, codes: Ints) -> Mask | None:
        if not len(codes):
            return None
        order, greatest, known = self.orders[place], self._greatest[place], self._known(place)
        if order.steps is not None:
            late, reached = np.empty(len(codes), np.bool_), np.empty(1, np.int64)
            kernels.mark_late(codes, greatest, known, order.steps, late.view(np.uint8), reached)
        else:
            reached = np.maximum.accumulate(np.concatenate([[greatest], codes]))
            least = np.where(reached == MIN_CODE, np.int64(MIN_CODE), order.behind(reached))[:-1]
            late = codes < np.maximum(least, np.int64(known))
        if reached[-1] > greatest:
            self._greatest[place] = int(reached[-1])
            self._raise(place, order.behind_one(self._greatest[place]))
        return late if late.any() else None

    def advance(self, codes: Sequence[int | None]) -> None:
        """Set the least codes of future rows."""
        for place, code in enumerate(codes):
            if code is not None:
                self._raise(place, code)

    def end(self) -> None:
        """End the side: there are no future rows."""
        self.ended = True

    def _raise(self, place: int, code: int) -> None:
        self.least[place] = max(self._known(place), code)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"least": list(self.least), "greatest": list(self._greatest), "ended": self.ended}

    def restore(self, values: dict[str, Any]) -> None:
        """Restore what `to_dict` returned."""
        self.least, self._greatest, self.ended = list(values["least"]), list(values["greatest"]), values["ended"]
