"""Tuples of columns, compared lexicographically, without distances.

A tuple is a struct of parts. The codes of its parts are digits of one 64-bit number. The base of a digit is the size of
the range of the part's codes. If the number would need more bits, ranks among the distinct values replace the codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import both, plain
from juncture.columnar.types import plain_type
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import Coder, Domain, RankCoder, Read, Rough, Tolerance

_CODE_BITS = 64
_ROOM = 2**63 - 1  # number of available codes of a tuple


@dataclass(frozen=True)
class Tuples(Domain):
    """Tuples of ``columns``, the most significant first."""

    kind: ClassVar[str] = "tuple"
    phrase: ClassVar[str] = "a tuple of columns"
    has_distances: ClassVar[bool] = False
    distances_remedy: ClassVar[str] = "Combine the columns into one, such as a date and a time of day into a timestamp"

    columns: tuple[Domain, ...]

    @property
    def parts(self) -> tuple[Domain, ...]:
        """The domain of each column, the most significant first."""
        return self.columns

    def refusal(self, on: str, what: str, /) -> str:
        """Return why only joins of tables compare tuples."""
        return (
            f"on={on} names several columns, which {what} cannot order by. Add one column to both tables that orders "
            "the rows in the same way."
        )

    def encode(self, _array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Raise `TooWideError`, as codes depend on all values."""
        raise TooWideError

    def ranked(self, read: Read) -> Coder:
        """Return a coder of all tuples."""
        return TupleCoder.of(self, read)

    def steps(self, array: pa.Array) -> list[Any]:
        """Return the steps of the parts; None if one has none."""
        parts = [part.steps(plain(column)) for part, column in zip(self.parts, array.flatten(), strict=True)]
        return [None if None in row else row for row in zip(*parts, strict=True)]

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the leading bits of the codes of as many parts as fit."""
        fields = zip(*types, strict=True)
        part_types = [[plain_type(field.type) for field in each] for each in fields]
        parts = [part.rough(each) for part, each in zip(self.columns, part_types, strict=True)]

        def codes(array: pa.Array) -> tuple[Ints, Mask | None]:
            packed, valid, room = np.zeros(len(array), np.int64), None, _CODE_BITS - 1
            for part, column in zip(parts, array.flatten(), strict=True):
                part_codes, there = part.codes(plain(column))
                valid = both(valid, there)
                least = np.int64(-(2 ** (part.bits - 1)))
                # Without a sign, since the first of 64 bits would be one.
                digits = (np.clip(part_codes, least, ~least) - least).view(np.uint64)
                taken = min(part.bits, room)
                room -= taken
                packed |= (digits >> np.uint64(part.bits - taken) << np.uint64(room)).view(np.int64) if taken else 0
            return packed, valid

        return Rough(codes)


@dataclass(frozen=True)
class _Ranks:
    """A mapping of codes to the ranks 0 to `count` - 1, in the same order."""

    least: int
    count: int
    # The code of each rank, ascending; None if the codes are consecutive and start at `least`.
    distinct: Ints | None = None

    @classmethod
    def among(cls, codes: Iterable[Ints]) -> _Ranks:
        """Return the ranks of codes among the distinct ones."""
        distinct = _distinct(np.concatenate([np.zeros(0, np.int64), *map(_distinct, codes)]))
        return cls(0, max(len(distinct), 1), distinct)

    def of(self, codes: Ints) -> Ints:
        """Return the ranks of codes of this mapping; ranks of other codes are undefined."""
        if self.distinct is None:
            return codes - np.int64(self.least)
        # Look codes up in sorted order, for cache locality.
        order = np.argsort(codes)
        ranks = np.empty(len(codes), np.int64)
        ranks[order] = np.searchsorted(self.distinct, codes[order])
        return ranks


@dataclass(frozen=True)
class _Part:
    """A part of the tuples: the coder of its values and their ranks."""

    coder: Coder
    ranks: _Ranks
    before: _Ranks | None  # ranks the packed codes of all earlier parts; None if they are packed without ranking


@dataclass(frozen=True)
class TupleCoder:
    """Codes of a fixed set of tuples, by their parts in order of significance."""

    floating: ClassVar[bool] = False

    domain: Tuples
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, domain: Tuples, read: Read) -> TupleCoder:
        """Return the coder of all tuples that `read` returns.

        It reads again for each part whose codes do not fit in the rest of the 64 bits, and then holds distinct values.
        """
        # Number of codes that are left for the next parts.
        coder, room = cls(domain, ()), _ROOM
        for index, (part_coder, least, greatest) in enumerate(_measured(domain, read)):
            ranks, before = _Ranks(least, max(greatest - least + 1, 1)), None
            # Ranking reads all values again, so rank only what is necessary. If this part fits in 64 bits by itself,
            # ranking the earlier parts may suffice.
            if _ROOM >= ranks.count > room:
                before = _Ranks.among(_usable(coder, read()))
                room = _ROOM // before.count
            # If it does not fit beside the earlier parts, rank this part.
            if ranks.count > room:
                ranks = _Ranks.among(_usable(part_coder, _part(read, index)))
            # If its ranks do not fit beside them either, rank the earlier parts too.
            if ranks.count > room:
                before = _Ranks.among(_usable(coder, read()))
                room = _ROOM // before.count
            coder, room = cls(domain, (*coder.parts, _Part(part_coder, ranks, before))), room // ranks.count
        return coder

    def limit(self, _tolerance: Tolerance | None, /) -> Words:
        """Return the tolerance without a limit."""
        return self.domain.limit(None)

    def limits(self, array: pa.Array) -> tuple[Words, Mask | None]:
        """Raise `NotImplementedError`, as tuples have no distances."""
        return self.domain.limits(array)

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one (no part is null or NaN); None if all have."""
        codes, valid = np.zeros(len(array), np.int64), None
        for part, column in zip(self.parts, plain(array).flatten(), strict=False):
            part_codes, part_valid = part.coder.encode(column)
            if part_valid is not None:
                valid = part_valid if valid is None else valid & part_valid
            codes = codes if part.before is None else part.before.of(codes)
            codes = codes * np.int64(part.ranks.count) + part.ranks.of(part_codes)
        return codes, valid


def _measured(domain: Tuples, read: Read) -> Iterator[tuple[Coder, int, int]]:
    """Yield the coder of each part with its least and greatest code, or with 0 and -1 if there are no values."""
    coders = [part if part.has_distances else None for part in domain.parts]
    ends: list[list[int]] = [[] for _ in coders]
    for array in read():
        for index, column in enumerate(plain(array).flatten()):
            coder = coders[index]
            try:
                ends[index] += [] if coder is None else _ends(coder, column)
            except TooWideError:
                # A value has no 64-bit code, such as a wide decimal, so the part is ranked.
                coders[index] = None
    for index, coder in enumerate(coders):
        if coder is not None:
            yield coder, min(ends[index], default=0), max(ends[index], default=-1)
        else:
            ranked = RankCoder.of(domain.parts[index], _part(read, index))
            yield ranked, 0, len(ranked.values) - 1


def _ends(coder: Domain, column: pa.Array) -> list[int]:
    """Return the least and the greatest code of some values; an empty list if no value has a code."""
    [codes] = _usable(coder, [column])
    return [int(codes.min()), int(codes.max())] if len(codes) else []


def _distinct(codes: Ints) -> Ints:
    """Return the distinct codes, ascending. NumPy's own function hashes them and takes twenty times as long."""
    codes = np.sort(codes)
    is_new = np.ones(len(codes), np.bool_)
    is_new[1:] = codes[1:] != codes[:-1]
    return codes[is_new]


def _part(read: Read, index: int) -> Iterator[pa.Array]:
    for array in read():
        yield plain(array).flatten()[index]


def _usable(coder: Coder, columns: Iterable[pa.Array]) -> Iterator[Ints]:
    """Yield the codes of values that have one."""
    for column in columns:
        codes, valid = coder.encode(column)
        yield codes if valid is None else codes[valid]
