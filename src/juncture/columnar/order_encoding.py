"""Order-preserving integer codes of values, and tolerances as distances between them.

A value counts *steps* of its domain (see `juncture.spec.schema.Domain`), and is coded in one of three ways:

- by its steps, if they fit a signed 64-bit integer, as they nearly always do; a float by its bits (`StepCoder`);
- by its rank among the distinct values, if they do not fit (`RankCoder`). Distances are then computed separately, with
  Python's integers. All values must be read first;
- by the highest bits of its steps, if it only has to be placed (`RoughCoder`).

Tuples of values are coded by the codes of their parts (`juncture.columnar.tuple_encoding`).

`juncture.spark.sql.order_encoding` does the same in Spark's SQL, where the steps of a value are a *word*.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, days, plain, raw_values, validity
from juncture.columnar.key_encoding import Strings, form_of
from juncture.kernels.array_types import Ints, Mask, Words
from juncture.spec.asof import ResolvedAsof, Tolerance
from juncture.spec.range import ResolvedRange
from juncture.spec.schema import TIME_UNITS, Domain, key_kind, plain_type
from juncture.spec.values import DAY_S

_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1
_FLOAT_INTEGER_MAX = 2**53
_DIGITS = 400
_ROUGH_BYTES = 8
_CODE_BITS = 64
_DATE_BITS = 32
_DECIMAL_DIGITS_MAX = 76


class TooWideError(Exception):
    """A value has no 64-bit code of its own, so the join must start again with ranks."""


@dataclass(frozen=True)
class StepCoder:
    """Codes that are steps, shifted by half the range if both sides are unsigned."""

    domain: Domain
    unsigned: bool = False

    @classmethod
    def of(cls, join: ResolvedAsof | ResolvedRange) -> StepCoder:
        """Return the coder of a join."""
        sides = (join.left_schema.field(join.left_on), join.right_schema.field(join.right_on))
        return cls.between(join.domain, [side.type for side in sides])

    @classmethod
    def between(cls, domain: Domain, types: Iterable[pa.DataType]) -> StepCoder:
        """Return the coder of columns of some types, compared in a domain."""
        return cls(domain, all(pat.is_unsigned_integer(plain_type(each)) for each in types))

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one: neither null nor NaN. Raise `TooWideError` if one does not fit."""
        array = plain(array)
        valid = validity(array)
        kind = self.domain.kind
        if kind == "float":
            if self.domain.has_integers and pat.is_integer(array.type):
                _check_floats(array, valid)
            return _float_codes_of(array, valid)
        if kind == "decimal":
            values, factor = _unscaled(array, valid), 10 ** (self.domain.scale - array.type.scale)
        elif kind == "date":
            return days(array), valid
        elif self.domain.is_ranked:
            raise TooWideError
        elif self.domain.is_time:
            values = raw_values(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
            factor = 1_000 ** (TIME_UNITS.index(self.domain.unit) - TIME_UNITS.index(array.type.unit))
        else:
            values, factor = self._integers(array, valid), 1
        return _multiplied(values, factor, valid), valid

    def _integers(self, array: pa.Array, valid: Mask | None) -> Any:
        if self.unsigned:
            wide = raw_values(array.cast(pa.uint64()), np.uint64)
            return (wide ^ np.uint64(1 << 63)).view(np.int64)
        if pat.is_uint64(array.type):
            values = raw_values(array, np.int64)
            if _any(values < 0, valid):
                raise TooWideError
            return values
        return raw_values(array if array.type == pa.int64() else array.cast(pa.int64()), np.int64)

    def restores(self, data_type: pa.DataType) -> bool:
        """Return whether codes of a type determine its values."""
        if pat.is_timestamp(data_type):
            return bool(data_type.unit == self.domain.unit)
        if self.domain.kind == "float":
            return False
        return bool(pat.is_integer(data_type) or pat.is_date32(data_type))

    def restore(self, codes: Ints, valid: Mask, data_type: pa.DataType) -> pa.Array:
        """Return the values of codes, in a type that `restores` accepts; null where not valid."""
        if self.unsigned:
            codes = codes ^ np.int64(-(2**63))
        item = np.dtype(f"i{data_type.bit_width // 8}")
        return array_of(codes.astype(item, copy=False), data_type, valid)

    def limit(self, tolerance: Tolerance | None) -> Words:
        """Return the constant tolerance, in the distances of kernels."""
        constant = math.inf if tolerance is None or tolerance.constant is None else tolerance.constant
        return _words([constant], floating=self.domain.kind == "float")

    def limits(self, array: pa.Array) -> tuple[Words, Mask | None]:
        """Return each row's tolerance, and which rows have one: neither null, NaN nor negative."""
        array = plain(array)
        try:
            words, good = self._plain_limits(array)
        except TooWideError:
            limits, valid = tolerances(self.domain, array)
            return _words(limits, floating=self.domain.kind == "float"), valid
        valid = validity(array)
        good = good if valid is None else good & valid
        return words, None if good.all() else good

    def _plain_limits(self, array: pa.Array) -> tuple[Words, Mask]:
        """Return the tolerances if they can be computed in 64 bits."""
        if pat.is_floating(array.type):
            floats = raw_values(array.cast(pa.float64()), np.float64) + 0.0
            return floats.view(np.uint64), floats >= 0
        if pat.is_uint64(array.type):
            array = array.cast(pa.decimal128(20, 0))
        if pat.is_decimal(array.type):
            values = _unscaled(array, validity(array))
            ratio = Fraction(10) ** (self.domain.scale - array.type.scale)
        elif pat.is_duration(array.type):
            values = raw_values(array, np.int64)
            ratio = Fraction(1_000 ** (3 - TIME_UNITS.index(array.type.unit)), self.domain.step_ns)
        else:
            values = raw_values(array.cast(pa.int64()), np.int64)
            ratio = self.domain.steps_in_one
        good = values >= 0
        words = np.where(good, values, 0).astype(np.uint64)
        if self.domain.kind == "float":
            if (words > _FLOAT_INTEGER_MAX).any():
                raise TooWideError
            return words.astype(np.float64).view(np.uint64), good
        if ratio.numerator > _UINT64_MAX or (ratio.numerator > 1 and ratio.denominator > 1):
            raise TooWideError
        if ratio.denominator > 1:
            return words // np.uint64(min(ratio.denominator, _UINT64_MAX)), good
        most = np.uint64(_UINT64_MAX // ratio.numerator)
        return np.where(words <= most, words * np.uint64(ratio.numerator), np.uint64(_UINT64_MAX)), good


@dataclass(frozen=True)
class RankCoder:
    """Codes that are ranks among all distinct values of both sides; `values` are their steps, ascending.

    Not for domains of floats only, whose bits always fit.
    """

    domain: Domain
    values: list[Any]

    @classmethod
    def of(cls, domain: Domain, columns: Iterable[pa.Array]) -> RankCoder:
        """Return the coder of all these values, compared in a domain. Costs microseconds per value."""
        distinct: set[int] = set()
        for column in columns:
            steps = steps_of(plain(column).unique(), domain)
            distinct.update(step for step in steps if step is not None)
        return cls(domain, sorted(distinct))

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one. A value that is not among them has the rank of the next one."""
        encoded = plain(array).dictionary_encode()
        steps = steps_of(encoded.dictionary, self.domain)
        ranks = np.array([0 if step is None else bisect_left(self.values, step) for step in steps] or [0], np.int64)
        valid = validity(encoded)
        indices = raw_values(encoded.indices, np.int32)
        if valid is not None:
            indices = np.where(valid, indices, 0)
        if None in steps:
            there = np.array([step is not None for step in steps], np.bool_)[indices]
            valid = there if valid is None else valid & there
        return ranks[indices], valid

    @property
    def numbers(self) -> list[Any]:
        """The numbers whose differences are distances, for each rank: for integers among floats, the nearest floats."""
        return list(map(float, self.values)) if self.domain.kind == "float" else self.values


Coder = StepCoder | RankCoder


@dataclass(frozen=True)
class RoughCoder:
    """Codes that neighbouring values may share; any value of `types`, which are of one kind, has one.

    Equal values of either side have equal codes, and greater ones never smaller codes.
    """

    types: tuple[pa.DataType, ...]

    @property
    def _plain_types(self) -> list[pa.DataType]:
        return [plain_type(data_type) for data_type in self.types]

    def encode(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the codes, and which rows have one (neither null nor NaN); None if all have."""
        array, types = plain(array), self._plain_types
        if pat.is_struct(array.type):
            return self._tuple_codes(array)
        valid = validity(array)
        if any(map(pat.is_floating, types)):
            # An integer is placed at the nearest float; this keeps the order.
            return _float_codes_of(array, valid)
        if pat.is_decimal(array.type):
            return self._decimal_codes(array), valid
        if any(map(pat.is_uint64, types)):
            # Half the value, so that both signed and unsigned integers fit.
            if pat.is_uint64(array.type):
                return (raw_values(array, np.uint64) >> np.uint64(1)).astype(np.int64), valid
            return raw_values(array.cast(pa.int64()), np.int64) >> 1, valid
        if key_kind(array.type) in ("string", "binary"):
            return _first_bytes(array), valid
        if _has_unit(array.type):
            # The coarser unit, rounded down: values of the coarser unit may overflow the finer one.
            coarser = min(TIME_UNITS.index(each.unit) for each in types)
            factor = 1_000 ** (TIME_UNITS.index(array.type.unit) - coarser)
            whole = raw_values(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
            return whole // factor, valid
        if pat.is_date(array.type):
            return days(array), valid
        return np.asarray(raw_values(array.cast(pa.int64()), np.int64)), valid

    def _tuple_codes(self, array: pa.Array) -> tuple[Ints, Mask | None]:
        """Return the leading bits of the codes of as many parts as fit."""
        codes, valid, room = np.zeros(len(array), np.int64), None, _CODE_BITS - 1
        for place, column in enumerate(array.flatten()):
            part = RoughCoder(tuple(each.field(place).type for each in self._plain_types))
            own, there = part.encode(column)
            if there is not None:
                valid = there if valid is None else valid & there
            least = np.int64(-(2 ** (part._bits - 1)))
            # Without a sign, since the first of 64 bits would be one.
            places = (np.clip(own, least, ~least) - least).view(np.uint64)
            taken = min(part._bits, room)
            room -= taken
            codes |= (places >> np.uint64(part._bits - taken) << np.uint64(room)).view(np.int64) if taken else 0
        return codes, valid

    @property
    def _bits(self) -> int:
        """Number of bits of codes, including their sign."""
        types = self._plain_types
        if all(map(pat.is_date32, types)):
            return _DATE_BITS
        if all(map(pat.is_integer, types)):
            return min(_CODE_BITS, max(int(each.bit_width) + int(pat.is_unsigned_integer(each)) for each in types))
        if all(map(pat.is_time, types)):
            coarser = min(TIME_UNITS.index(each.unit) for each in types)
            return (DAY_S * int(1_000**coarser)).bit_length() + 1
        return _CODE_BITS

    @property
    def steps_in_code(self) -> int:
        """Steps of the domain per code, if values count steps."""
        types = self._plain_types
        if pat.is_decimal(types[0]):
            return int(2**self._shift)
        if _has_unit(types[0]):
            units = [TIME_UNITS.index(each.unit) for each in types]
            return int(1_000 ** (max(units) - min(units)))
        return 2 if any(map(pat.is_uint64, types)) else 1

    @property
    def _digits(self) -> int:
        """Number of digits of decimals of all types."""
        types = self._plain_types
        scale = max(each.scale for each in types)
        return min(int(max(each.precision - each.scale for each in types) + scale), _DECIMAL_DIGITS_MAX)

    @property
    def _shift(self) -> int:
        """Number of the lowest bits of a decimal that its code drops."""
        return max(0, int(10**self._digits).bit_length() - 63)

    def _decimal_codes(self, array: pa.Array) -> Ints:
        """Return the highest 63 bits that a decimal of these types can have, rounded down."""
        scale = max(each.scale for each in self._plain_types)
        words = raw_values(array.cast(pa.decimal256(self._digits, scale)), np.uint64)
        first, rest = divmod(self._shift, 64)
        codes = words[:, first] >> np.uint64(rest)
        if rest:
            codes |= words[:, first + 1] << np.uint64(64 - rest)
        return np.asarray(codes.view(np.int64), np.int64)


def float_codes(values: npt.NDArray[np.float64]) -> Ints:
    """Return integers in the order of floats; 0.0 and -0.0 are equal, and NaN is the greatest.

    Examples
    --------
    >>> codes = float_codes(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.nan]))
    >>> [bool(a <= b) for a, b in zip(codes, codes[1:])], bool(codes[2] == codes[3])
    ([True, True, True, True, True], True)
    """
    bits = (values + 0.0).view(np.int64)
    codes = bits ^ ((bits >> 63) & _INT64_MAX)
    missing = np.isnan(values)
    return np.where(missing, _INT64_MAX, codes) if missing.any() else codes


def steps_of(array: pa.Array, domain: Domain) -> list[int | None]:
    """Return the steps of the domain as Python integers of any size; None for null."""
    if domain.kind == "decimal":
        with localcontext(prec=_DIGITS):
            return [None if v is None else int(v.scaleb(domain.scale)) for v in array.to_pylist()]
    if domain.is_time and domain.kind != "date":
        factor = 1_000 ** (TIME_UNITS.index(domain.unit) - TIME_UNITS.index(array.type.unit))
        whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
        return [None if v is None else v * factor for v in whole.to_pylist()]
    if domain.kind == "date":
        pairs = zip(days(array).tolist(), array.is_valid().to_pylist(), strict=True)
        return [day if is_there else None for day, is_there in pairs]
    # NaN has no place; Python compares integers and floats exactly.
    return [None if value != value else value for value in array.to_pylist()]


def tolerances(domain: Domain, array: pa.Array) -> tuple[list[Any], Mask | None]:
    """Return each row's tolerance in steps, and which are neither null, NaN nor negative."""
    values = _row_tolerances(domain, plain(array))
    valid = np.array([value is not None and value >= 0 for value in values], np.bool_)
    return [value if ok else 0 for value, ok in zip(values, valid, strict=True)], None if valid.all() else valid


def _row_tolerances(domain: Domain, array: pa.Array) -> list[Any]:
    if pat.is_duration(array.type):
        unit_ns = 1_000 ** (3 - TIME_UNITS.index(array.type.unit))
        return [None if v is None else v * unit_ns // domain.step_ns for v in array.cast(pa.int64()).to_pylist()]
    values = array.to_pylist()
    if domain.kind == "decimal":
        with localcontext(prec=_DIGITS):
            return [None if v is None else math.floor(Decimal(v).scaleb(domain.scale)) for v in values]
    return list(values)


def _words(limits: list[Any], *, floating: bool) -> Words:
    """Return distances in the form of kernels: unsigned integers, or the bits of floats."""
    if floating:
        return np.array([_float_below(limit) for limit in limits], np.float64).view(np.uint64)
    return np.array([min(limit, _UINT64_MAX) for limit in limits], np.uint64)


def _float_below(limit: Any) -> float:
    """Return the greatest float that is not greater than a number."""
    try:
        near = float(limit)
    except OverflowError:
        return math.inf
    return math.nextafter(near, -math.inf) if near > limit else near


def no_limit() -> Words:
    """Return the constant tolerance without a limit, in the distances of kernels."""
    return _words([math.inf], floating=False)


def _has_unit(data_type: pa.DataType) -> bool:
    """Return whether a type counts time units: timestamps, durations and times of day."""
    return bool(pat.is_timestamp(data_type) or pat.is_duration(data_type) or pat.is_time(data_type))


def _first_bytes(array: pa.Array) -> Ints:
    """Return the first bytes of texts or binary values as integers in their order."""
    found = form_of(array.type, array.type).of(array)
    assert isinstance(found, Strings)
    starts, lengths = found.offsets[:-1], np.diff(found.offsets)
    places = np.arange(_ROUGH_BYTES)
    there = places < lengths[:, None]
    data = found.data if len(found.data) else np.zeros(1, np.uint8)
    taken = data[np.where(there, starts[:, None] + places, 0)]
    words = np.ascontiguousarray(np.where(there, taken, 0).astype(np.uint8)).view(">u8").reshape(-1)
    # Half of the value, so that the sign bit stays free.
    return (words.astype(np.uint64) >> np.uint64(1)).astype(np.int64)


def _check_floats(array: pa.Array, valid: Mask | None) -> None:
    """Raise `TooWideError` for an integer that a float cannot represent."""
    if array.type.bit_width < 64:
        return
    values = raw_values(array, np.uint64 if pat.is_uint64(array.type) else np.int64)
    if _any((values > _FLOAT_INTEGER_MAX) | (values < -_FLOAT_INTEGER_MAX), valid):
        raise TooWideError


def _float_codes_of(array: pa.Array, valid: Mask | None) -> tuple[Ints, Mask | None]:
    values = raw_values(array.cast(pa.float64(), safe=False), np.float64)
    codes = float_codes(values)
    missing = np.isnan(values)
    if missing.any():
        valid = ~missing if valid is None else valid & ~missing
    return codes, valid


def _unscaled(array: pa.Array, valid: Mask | None) -> Ints:
    """Return decimals as integers of their last digit."""
    if array.type.bit_width <= 64:
        short: Ints = raw_values(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
        return short
    words = raw_values(array, np.int64)
    if _any((words[:, 1:] != (words[:, :1] >> 63)).any(axis=1), valid):
        raise TooWideError
    return np.ascontiguousarray(words[:, 0])


def _multiplied(values: Any, factor: int, valid: Mask | None) -> Ints:
    """Multiply integers; raise `TooWideError` on overflow."""
    if factor == 1:
        return values  # type: ignore[no-any-return]
    if valid is not None:
        values = np.where(valid, values, 0)
    most = _INT64_MAX // factor
    if ((values > most) | (values < -most)).any():
        raise TooWideError
    product: Ints = values * np.int64(factor) if most > 0 else np.zeros_like(values)
    return product


def _any(mask: Mask, valid: Mask | None) -> bool:
    return bool((mask if valid is None else mask & valid).any())
