"""The values as which the columns of a join are compared, and what joins need to know about them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, both, floats, plain, raw_values, validity
from juncture.errors import SpecError
from juncture.kernels.array_types import Floats, Ints, Mask, Words
from juncture.ordered.arithmetic import (
    MAX_CODE,
    MIN_CODE,
    LimitEnd,
    Offset,
    TooWideError,
    above,
    below,
    inward,
    shifted,
    signed_integers,
)
from juncture.ordered.duration import TimeLength

if TYPE_CHECKING:
    from juncture.ordered.tuples import TupleCoder

Read = Callable[[], Iterable[pa.Array]]
"""Returns all values of both sides at each call."""

Distance: TypeAlias = int | float | Decimal | TimeLength | str
"""A number, a length of time, a duration such as ``"5m"``, or the name of a left column."""

DISTANCE_DIGITS = 400
"""Digits with which any float or decimal is scaled exactly. A distance with more digits exceeds all values."""

_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1


@dataclass(frozen=True)
class Tolerance:
    """The greatest distance of a match, in steps of the domain. Exactly one field is set."""

    constant: int | float | None = None  # a float for floats
    column: str | None = None  # a left column with one distance per row, where a null or negative one matches nothing


@dataclass(frozen=True)
class Rough:
    """A coding that neighbouring values may share."""

    codes: Callable[[pa.Array], tuple[Ints, Mask | None]]  # returns the codes of plain values, and which rows have one
    bits: int = 64  # of codes, including their sign
    steps: int = 1  # per code


class Domain(ABC):
    """The values as which columns are compared.

    Most domains count whole *steps*, so that comparisons and distances are exact: an integer is its own step, a decimal
    counts units of its last digit, a date counts days, a timestamp counts its unit. Floats have no steps, and their
    distances are rounded. Texts, binary values and tuples have an order but no distances.

    A value has a 64-bit *code* in the order of the values:

    - its steps, if they fit, as they nearly always do; for floats, their bits (`encode`)
    - its rank among the distinct values, if they do not fit (`ranked`)
    - its highest bits, if it only has to be placed (`juncture.ordered.kinds.RoughCoder`)
    """

    kind: ClassVar[str]  # name of the values in messages
    is_time: ClassVar[bool] = False  # whether distances are durations
    floating: ClassVar[bool] = False  # whether values are floats, whose sums and distances are rounded
    has_distances: ClassVar[bool] = True  # whether values have distances besides their order
    phrase: ClassVar[str] = ""  # what values without distances are
    # Advice for values without distances.
    distances_remedy: ClassVar[str] = "Convert it first, for example with pd.to_datetime"
    has_regular_steps: ClassVar[bool] = False  # whether a grid of values can be made
    missing_text: ClassVar[str] = "null"  # values that match nothing
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = ()  # types of a column of distances
    distance_noun: ClassVar[str] = ""  # these types as a noun with its article
    distance_type: ClassVar[pa.DataType] = pa.int64()  # type of a column of distances without values

    def common(self, other: Domain) -> Domain | None:
        """Return the domain in which values of two domains are compared exactly; None if there is none."""
        return self if self == other else None

    @property
    def is_asof_only(self) -> bool:
        """Whether only as-of joins of tables compare such values."""
        return not self.has_distances

    @property
    def sql_refusal(self) -> str | None:
        """Why SQL does not compare such values; None if it does."""
        return (
            f"the on columns are of kind {self.kind}, which only Python tasks compare." if self.is_asof_only else None
        )

    def refusal(self, _on: str, what: str, /) -> str | None:
        """Return why joins of another kind of input than tables (`what`) do not compare such values, or None."""
        if not self.is_asof_only:
            return None
        return (
            f"on= has {self.kind} values, which {what} cannot order by. Cast it to an integer, float, decimal, date or "
            "timestamp."
        )

    # Codes

    @abstractmethod
    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one: neither null nor NaN. Raise `TooWideError` if one does not fit."""

    def restores(self, _data_type: pa.DataType, /) -> bool:
        """Return whether codes of a type determine its values."""
        return False

    def restore(self, codes: Ints, valid: Mask | None, data_type: pa.DataType) -> pa.Array:
        """Return the values of codes, in a type that `restores` accepts; null where not valid."""
        return array_of(codes.astype(np.dtype(f"i{data_type.bit_width // 8}"), copy=False), data_type, valid)

    def ranked(self, read: Read) -> Coder:
        """Return a coder of a fixed set of values for which `encode` does not suffice."""
        return RankCoder.of(self, read())

    def code_of(self, step: Any) -> int:
        """Return the code of a whole step, of any size; of a float for floats."""
        return int(step)

    def step_of(self, code: int) -> int | float:
        """Return the step of a code; a float for floats."""
        return code

    @property
    def unshifted(self) -> Domain:
        """The same domain with codes that are steps."""
        return self

    @abstractmethod
    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the coding of `juncture.ordered.kinds.RoughCoder`, for columns of some types without encoding."""

    # Steps

    def steps(self, array: pa.Array) -> list[Any]:
        """Return plain values in steps, of any size, or as Python's values; None for null and NaN."""
        return [None if value != value else value for value in array.to_pylist()]

    @property
    def step(self) -> Fraction:
        """A step as a number, or in seconds."""
        return Fraction(1)

    @property
    def parts(self) -> tuple[Domain, ...]:
        """The domain of each column, the most significant first: several for tuples."""
        return (self,)

    def numbers(self, array: pa.Array) -> Floats:
        """Return plain values as floats, in seconds for times; undefined for null."""
        return floats(array)

    def value_text(self, step: Any) -> str:
        """Return a value in steps as text."""
        return str(step)

    # Distances

    def distance_text(self, steps: Any) -> str:
        """Return a distance in steps as text."""
        return str(steps)

    def takes_distances(self, data_type: pa.DataType) -> bool:
        """Return whether a column of a type may contain distances."""
        return any(test(data_type) for test in self.distance_tests)

    def distance_steps(self, array: pa.Array) -> tuple[Ints, Fraction]:
        """Return distances as integers, and how many steps 1 is; raise `TooWideError` if one exceeds 64 bits."""
        return signed_integers(array, validity(array)), 1 / self.step

    def exact_distances(self, array: pa.Array) -> list[Any]:
        """Return a plain column of distances in steps, exactly; None for null."""
        return list(array.to_pylist())

    def in_steps(self, argument: str, value: Distance) -> Decimal:
        """Return a constant distance in steps, exactly; infinite if no two values are that far apart."""
        if isinstance(value, str | TimeLength):
            raise SpecError(
                f"{argument}={value!r} is a duration, but the on columns are {self.kind}s. Pass a number, such as "
                f"{argument}=10.",
                name="JN-DISTANCE-UNIT",
            )
        # A float has the value that it prints as: 0.3 is three tenths, not the binary fraction just below.
        exact = Decimal(str(float(value)) if isinstance(value, float) else value)
        if exact.is_infinite() or exact.adjusted() >= DISTANCE_DIGITS:
            return Decimal("Infinity").copy_sign(exact)
        with localcontext(prec=DISTANCE_DIGITS):
            return exact * self.step.denominator / self.step.numerator

    def whole_steps(self, steps: Decimal, *, up: bool = False) -> int | float:
        """Return a distance in whole steps; the nearest float for floats."""
        return math.ceil(steps) if up else math.floor(steps)

    def limit(self, tolerance: Tolerance | None, /) -> Words:
        """Return the constant tolerance, in the distances of kernels."""
        constant = math.inf if tolerance is None or tolerance.constant is None else tolerance.constant
        return self.words([constant])

    def limits(self, array: pa.Array) -> tuple[Words, Mask | None]:
        """Return each row's tolerance, and which rows have one: neither null, NaN nor negative."""
        try:
            steps, _, valid = self._whole_offsets(array, LimitEnd(upper=True))
        except TooWideError:
            exact, valid = self.tolerances(array)
            return self.words(exact), valid
        distances = np.asarray(steps, np.int64)
        return self._valid_limits(np.maximum(distances, 0).astype(np.uint64), distances >= 0, valid)

    @staticmethod
    def _valid_limits(words: Words, good: Mask, valid: Mask | None) -> tuple[Words, Mask | None]:
        good = good if valid is None else good & valid
        return words, None if good.all() else good

    def tolerances(self, array: pa.Array) -> tuple[list[Any], Mask | None]:
        """Return each row's tolerance as a number of any size, and which rows have one, as `limits`."""
        values = self.exact_distances(plain(array))
        valid = np.array([value is not None and value >= 0 for value in values], np.bool_)
        exact = [self._rounded_down(value) if ok else 0 for value, ok in zip(values, valid, strict=True)]
        return exact, None if valid.all() else valid

    def _rounded_down(self, distance: Any) -> Any:
        return math.floor(distance)

    def words(self, distances: list[Any]) -> Words:
        """Return distances in the form of kernels: unsigned integers, or the bits of floats."""
        return np.array([min(distance, _UINT64_MAX) for distance in distances], np.uint64)

    def ends(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Return the last code within each limit, and which rows any value can satisfy; None for all.

        A limit is a value plus an offset. A limit that leaves 64 bits is none, or one that nothing satisfies.
        """
        try:
            codes, valid = self.encode(array)
            added, strict, has_offset = self._whole_offsets(offset, end)
            codes, inside = shifted(codes, added, LimitEnd(end.upper, strict))
        except TooWideError:
            exact = [None if limit is None else self.code_of(limit) for limit in self.exact_limits(array, offset, end)]
            possible = [code is not None and (code >= MIN_CODE if end.upper else code <= MAX_CODE) for code in exact]
            codes = np.array([min(max(code or 0, MIN_CODE), MAX_CODE) for code in exact], np.int64)
            return codes, np.array(possible, np.bool_)
        return codes, both(both(inside, valid), has_offset)

    def exact_limits(self, array: pa.Array, offset: Offset, end: LimitEnd) -> list[int | None]:
        """Return the last step of any size within each limit; None if the value or the offset is null."""
        steps = self.steps(plain(array))
        added = [offset] * len(steps) if not isinstance(offset, pa.Array) else self.exact_distances(plain(offset))
        pairs = zip(steps, added, strict=True)
        return [None if None in pair else inward(sum(map(Fraction, pair)), end) for pair in pairs]

    def _whole_offsets(self, offset: Offset, end: LimitEnd) -> tuple[int | Ints, bool, Mask | None]:
        """Return offsets as whole steps, whether the end is strict with these, and which rows have one."""
        if not isinstance(offset, pa.Array):
            return inward(Fraction(offset), end), False, None
        array = plain(offset)
        values, ratio = self.distance_steps(array)
        valid = validity(array)
        if valid is not None:
            values = np.where(valid, values, 0)
        if ratio.denominator == 1:
            most = _INT64_MAX // ratio.numerator
            if ratio.numerator > 1 and ((values > most) | (values < -most)).any():
                raise TooWideError
            return values * np.int64(min(ratio.numerator, _INT64_MAX)), end.strict, valid
        if ratio.numerator > 1 or ratio.denominator > _INT64_MAX:
            raise TooWideError
        floors = values // np.int64(ratio.denominator)
        rounded = (floors * np.int64(ratio.denominator) != values).astype(np.int64)
        if end.upper:
            return floors + (rounded - 1) * end.strict, False, valid
        return floors + (1 if end.strict else rounded), False, valid

    def around(self, codes: Ints, distances: Words) -> tuple[Ints, Ints]:
        """Return the codes at some distances below and above, rounded outward."""
        return below(codes, distances), above(codes, distances)

    def mirrored(self, codes: Ints, others: Ints, *, later: bool) -> Ints:
        """Return the farthest codes on the opposite side that are nearer than others, rounded outward.

        ``later`` is whether the greater of two values at the same distance is the nearer one.
        """
        is_above = others > codes
        far = np.maximum(codes, others).view(np.uint64) - np.minimum(codes, others).view(np.uint64)
        nearer = np.maximum(far, np.uint64(1)) - np.uint64(1)
        return np.where(is_above, below(codes, nearer if later else far), above(codes, far if later else nearer))

    def distances(self, one: pa.Array, other: pa.Array) -> Floats | Words:
        """Return the distances in steps between plain values: exact if they fit in 64 bits; 0 for null."""
        try:
            (a, here), (b, there) = self.encode(one), self.encode(other)
        except TooWideError:
            pairs = zip(self.steps(one), self.steps(other), strict=True)
            return np.array([0.0 if x is None or y is None else float(abs(x - y)) for x, y in pairs])
        # Differences of 64-bit integers fit in 64 bits without a sign.
        gaps: Words = np.maximum(a, b).view(np.uint64) - np.minimum(a, b).view(np.uint64)
        valid = both(here, there)
        return gaps if valid is None else np.where(valid, gaps, np.uint64(0))

    def compared(self, one: pa.Array, other: pa.Array) -> tuple[Mask, Mask, Mask | None]:
        """Return which values are less than others, which are greater, and which pairs are neither null nor NaN.

        The last is None for all; the others are undefined for null and NaN.
        """
        try:
            (a, here), (b, there) = self.encode(one), self.encode(other)
        except TooWideError:
            pairs = list(zip(self.steps(plain(one)), self.steps(plain(other)), strict=True))
            signs = np.array([0 if None in (a, b) else (a > b) - (a < b) for a, b in pairs], np.int8)
            return signs < 0, signs > 0, np.array([None not in pair for pair in pairs], np.bool_)
        return a < b, a > b, both(here, there)


@dataclass(frozen=True)
class RankCoder:
    """Ranks among all distinct values of both sides, whose ascending steps are `values`, as Python's integers."""

    floating: ClassVar[bool] = False

    domain: Domain
    values: list[Any]

    @classmethod
    def of(cls, domain: Domain, columns: Iterable[pa.Array]) -> RankCoder:
        """Return the coder of all these values, compared in a domain. Costs microseconds per value."""
        distinct: set[Any] = set()
        for column in columns:
            distinct.update(step for step in domain.steps(plain(column).unique()) if step is not None)
        return cls(domain, sorted(distinct))

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one. A value that is not among them has the rank of the next one."""
        encoded = plain(array).dictionary_encode()
        steps = self.domain.steps(encoded.dictionary)
        ranks = np.array([0 if step is None else bisect_left(self.values, step) for step in steps] or [0], np.int64)
        valid = validity(encoded)
        indices = raw_values(encoded.indices, np.int32)
        if valid is not None:
            indices = np.where(valid, indices, 0)
        if None in steps:
            there = np.array([step is not None for step in steps], np.bool_)[indices]
            valid = there if valid is None else valid & there
        return ranks[indices], valid

    def ends(self, array: pa.Array, offset: Offset, end: LimitEnd) -> tuple[Ints, Mask | None]:
        """Return the last rank within each limit, and which rows any value can satisfy."""
        limits = self.domain.exact_limits(array, offset, end)
        if end.upper:
            ranks = [-1 if limit is None else bisect_right(self.values, limit) - 1 for limit in limits]
        else:
            ranks = [0 if limit is None else bisect_left(self.values, limit) for limit in limits]
        return np.array(ranks, np.int64), np.array([limit is not None for limit in limits], np.bool_)

    def limit(self, tolerance: Tolerance | None, /) -> Words | list[Any]:
        """Return the constant tolerance, as a number if values have distances."""
        if not self.domain.has_distances:
            return self.domain.limit(None)
        return [math.inf if tolerance is None or tolerance.constant is None else tolerance.constant]

    def limits(self, array: pa.Array) -> tuple[list[Any], Mask | None]:
        """Return each row's tolerance as a number, and which rows have one."""
        return self.domain.tolerances(array)

    @property
    def positions(self) -> list[Any]:
        """The numbers whose differences are distances, for each rank."""
        return list(map(float, self.values)) if self.domain.floating else self.values


Coder: TypeAlias = "Domain | RankCoder | TupleCoder"
