"""Tables that are not there: how often each key comes and when, from which rows can be drawn and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.key_encoding import KeyHashes
from juncture.spark.tasks.cuts import BEFORE_ALL, Cuts

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

DAY = 86_400_000_000
"""Distance of the first and the last row, in microseconds."""
_BURSTS = 20
_BURST_SHARE = 0.9
"""The share of the rows in bursts. A burst takes a ten-thousandth of the day."""


@dataclass(frozen=True)
class Clock:
    """Distribution of times.

    Attributes
    ----------
    times, shares
        Up to each of these times, this share of the rows has come; evenly in between.
    """

    times: Floats
    shares: Floats

    def before(self, times: Ints) -> Floats:
        """Return the share of the rows that comes before some times."""
        return np.interp(times, self.times, self.shares)

    def drawn(self, count: int, chance: np.random.Generator) -> Ints:
        """Return the times of some rows that are picked by chance."""
        return np.interp(chance.random(count), self.shares, self.times).astype(np.int64)


EVENLY = Clock(np.array([0.0, DAY]), np.array([0.0, 1.0]))


def in_bursts() -> Clock:
    """Return a clock by which nine rows of ten come within a five-hundredth of the day."""
    starts = np.sort(np.random.default_rng(7).random(_BURSTS)) * DAY * 0.99
    times, shares = [0.0], [0.0]
    for number, start in enumerate(starts):
        between = (1 - _BURST_SHARE) * start / DAY
        times += [start, start + DAY / 10_000]
        shares += [between + number * _BURST_SHARE / _BURSTS, between + (number + 1) * _BURST_SHARE / _BURSTS]
    return Clock(np.array([*times, DAY]), np.array([*shares, 1.0]))


@dataclass(frozen=True)
class Table:
    """One side of a join.

    Attributes
    ----------
    rows
        Number of rows.
    keys
        The share of the rows that each key has, by the key's number. None where the join has no key.
    clock
        Distribution of times.
    """

    rows: int
    keys: Floats | None
    clock: Clock

    def drawn(self, count: int, seed: int) -> pa.Table:
        """Return rows that are picked by chance."""
        chance = np.random.default_rng(seed)
        columns = {"ts": self.clock.drawn(count, chance)}
        if self.keys is not None:
            columns["k"] = np.searchsorted(np.cumsum(self.keys), chance.random(count) * self.keys.sum())
        return pa.table(columns)

    def share_before(self, cuts: Cuts) -> Floats:
        """Return the share of the rows that lies in front of each cut, codes being times."""
        if self.keys is None:
            return np.where(cuts.codes == BEFORE_ALL, 0.0, self.clock.before(cuts.codes))
        hashes = hashes_of(len(self.keys))
        order = np.argsort(hashes)
        hashes, ends = hashes[order], np.concatenate([[0.0], np.cumsum(self.keys[order])])
        at = np.searchsorted(hashes, cuts.hashes)
        found = np.minimum(at, len(hashes) - 1)
        inside = (hashes[found] == cuts.hashes) & (cuts.codes > BEFORE_ALL)
        shares: Floats = self.keys[order][found] * self.clock.before(cuts.codes)
        before: Floats = ends[at] + np.where(inside, shares, 0.0)
        return before


def hashes_of(keys: int) -> Words:
    """Return the hashes of the keys from 0 on, as joins place rows by them."""
    types = [pa.int64()]
    return KeyHashes(types, types).of([pa.array(np.arange(keys))])[0]


_KEYS = 1_000_000


def even_keys() -> Floats:
    """Return the shares of a million keys that come equally often."""
    return np.full(_KEYS, 1 / _KEYS)


def zipf_keys() -> Floats:
    """Return the shares of a million keys by Zipf's law."""
    shares = 1 / np.arange(1, _KEYS + 1, dtype=np.float64)
    shares /= shares.sum()
    return shares


def one_hot_key() -> Floats:
    """Return the shares of a million keys. One key has half of the rows."""
    shares = np.full(_KEYS, 0.5 / (_KEYS - 1))
    shares[0] = 0.5
    return shares


SHAPES: dict[str, tuple[Callable[[], Floats | None], Callable[[], Clock]]] = {
    "a million keys": (even_keys, lambda: EVENLY),
    "Zipf over a million keys": (zipf_keys, lambda: EVENLY),
    "one key with half of the rows": (one_hot_key, lambda: EVENLY),
    "no key": (lambda: None, lambda: EVENLY),
    "no key, 90% of the rows in bursts": (lambda: None, in_bursts),
    "Zipf, 90% of the rows in bursts": (zipf_keys, in_bursts),
}
"""Distributions of keys and times of both sides."""
