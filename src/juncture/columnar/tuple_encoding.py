"""Order-preserving integer codes of tuples of columns.

A tuple is a struct of parts that are compared lexicographically. The codes of its parts are packed into 64 bits, each
with the range between its least and its greatest code. If that is too much, ranks among the distinct values replace the
codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain
from juncture.columnar.order_encoding import RankCoder, StepCoder, TooWideError
from juncture.kernels.array_types import Ints, Mask
from juncture.spec.schema import Domain

Read = Callable[[], Iterable[pa.Array]]
"""Returns all values of both sides at each call."""

_ROOM = 2**63 - 1
"""Number of available codes."""


@dataclass(frozen=True)
class _Places:
    """Dense ranks of codes, from zero on: `span` ranks from the code `least`.

    `distinct` has the codes of all ranks, ascending; None if they are consecutive.
    """

    least: int
    span: int
    distinct: Ints | None = None

    @classmethod
    def among(cls, codes: Iterable[Ints]) -> _Places:
        """Return the ranks of codes among the distinct ones."""
        distinct = _distinct(np.concatenate([np.zeros(0, np.int64), *map(_distinct, codes)]))
        return cls(0, max(len(distinct), 1), distinct)

    def of(self, codes: Ints) -> Ints:
        """Return the ranks of known codes; ranks of others are undefined."""
        if self.distinct is None:
            return codes - np.int64(self.least)
        # Look codes up in sorted order, for cache locality.
        order = np.argsort(codes)
        places = np.empty(len(codes), np.int64)
        places[order] = np.searchsorted(self.distinct, codes[order])
        return places


@dataclass(frozen=True)
class _Part:
    """A part of the tuples: the coder of its values and their ranks.

    `before` has the ranks of the combined codes of all parts before it; None if these codes are ranks themselves.
    """

    coder: StepCoder | RankCoder
    places: _Places
    before: _Places | None


@dataclass(frozen=True)
class TupleCoder:
    """Codes of a fixed set of tuples, by their parts in order of significance."""

    domain: Domain
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, domain: Domain, types: Sequence[pa.DataType], read: Read) -> TupleCoder:
        """Return the coder of all tuples of two columns, whose types are structs; `read` returns their values.

        The values are read once, and again for each part whose codes do not fit. The distinct values of that part, or
        of the parts before it, are then in memory.
        """
        coder, room = cls(domain, ()), _ROOM
        for place, (part, least, greatest) in enumerate(_measured(domain, types, read)):
            places, before = _Places(least, max(greatest - least + 1, 1)), None
            if _ROOM >= places.span > room:
                before = _Places.among(_usable(coder, read()))
                room = _ROOM // before.span
            if places.span > room:
                places = _Places.among(_usable(part, _part(read, place)))
            if places.span > room:
                before = _Places.among(_usable(coder, read()))
                room = _ROOM // before.span
            coder, room = cls(domain, (*coder.parts, _Part(part, places, before))), room // places.span
        return coder

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one (no part is null or NaN); None if all have."""
        codes, valid = np.zeros(len(array), np.int64), None
        for part, column in zip(self.parts, plain(array).flatten(), strict=False):
            own, there = part.coder.encode(column)
            if there is not None:
                valid = there if valid is None else valid & there
            codes = codes if part.before is None else part.before.of(codes)
            codes = codes * np.int64(part.places.span) + part.places.of(own)
        return codes, valid


OrderCoder = StepCoder | RankCoder | TupleCoder


def _measured(
    domain: Domain, types: Sequence[pa.DataType], read: Read
) -> Iterator[tuple[StepCoder | RankCoder, int, int]]:
    """Yield the coder of each part with its least and greatest code; the latter is less if there are no values."""
    coders = [
        None if part.is_ranked else StepCoder.between(part, [each.field(place).type for each in types])
        for place, part in enumerate(domain.parts)
    ]
    ends: list[list[int]] = [[] for _ in coders]
    for array in read():
        for place, column in enumerate(plain(array).flatten()):
            coder = coders[place]
            try:
                ends[place] += [] if coder is None else _ends(coder, column)
            except TooWideError:
                coders[place] = None
    for place, coder in enumerate(coders):
        if coder is not None:
            yield coder, min(ends[place], default=0), max(ends[place], default=-1)
        else:
            ranks = RankCoder.of(domain.parts[place], _part(read, place))
            yield ranks, 0, len(ranks.values) - 1


def _ends(coder: StepCoder, column: pa.Array) -> list[int]:
    """Return the least and the greatest code of some values, or None."""
    [codes] = _usable(coder, [column])
    return [int(codes.min()), int(codes.max())] if len(codes) else []


def _distinct(codes: Ints) -> Ints:
    """Return the distinct codes, ascending. NumPy's own function hashes them and takes twenty times as long."""
    codes = np.sort(codes)
    is_new = np.ones(len(codes), np.bool_)
    is_new[1:] = codes[1:] != codes[:-1]
    return codes[is_new]


def _part(read: Read, place: int) -> Iterator[pa.Array]:
    """Yield the values of a part."""
    for array in read():
        yield plain(array).flatten()[place]


def _usable(coder: StepCoder | RankCoder | TupleCoder, columns: Iterable[pa.Array]) -> Iterator[Ints]:
    """Yield the codes of values that have one."""
    for column in columns:
        codes, valid = coder.encode(column)
        yield codes if valid is None else codes[valid]
