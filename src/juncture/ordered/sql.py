"""The twins of domains in Spark's SQL.

A value is one *word*, which compares like the value: a 64-bit integer for integers, dates and timestamps, a decimal for
decimals, a double for floats. An end beyond the range of words becomes no limit, or one that nothing satisfies, so
nothing overflows in any session. Only Spark code imports this module.

Decimals with more than 37 digits in total have three words for distances: the whole part divided by 10²⁰, the rest of
the whole part, and the fraction. All are truncated towards zero, so they keep the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import DAY_S, plain_type
from juncture.errors import PlanError
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, LimitEnd
from juncture.ordered.domain import Domain
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.times import Dates, Durations, Timestamps

if TYPE_CHECKING:
    from pyspark.sql import Column

_LOW = Decimal(10) ** 20
_MOVED_DIGITS = 35  # decimals up to this many digits can be moved by their range and by a step within 38 digits
_DIGITS_MAX = 37  # decimals up to this many digits can be subtracted: the difference has one more
_LIMIT = Decimal(10) ** 38

_BITS: dict[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


_DAY_MICROS = DAY_S * 1_000_000
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class SqlDomain:
    """A domain in SQL, for columns of some ``types`` without encoding. By default, words are 64-bit steps.

    The base class itself is the twin of values that SQL only orders.
    """

    domain: Domain
    types: tuple[pa.DataType, ...]

    is_whole: ClassVar[bool] = True  # whether words are 64-bit integers
    step_ns: ClassVar[int] = 0  # nanoseconds between adjacent words of times; otherwise 0

    # Words

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return a value of a type as a word, null for null and NaN."""
        return value.cast("long")

    def number(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return a value of a type as a double, in seconds for times."""
        return value.cast("double")

    def present(self, value: Column) -> Column:
        """Return a value, null if it is NaN."""
        return value

    def literal(self, _step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return a step as a literal, rounded up or down: 1 or -1 beyond the type's values, None without a literal."""
        return None

    # Ends of ranges

    def check_ends(self) -> None:
        """Raise `PlanError` if SQL cannot add distances to all values."""

    def limit(self, *, upper: bool) -> Column:
        """Return a bound that no word exceeds."""
        return F.lit(MAX_CODE if upper else MIN_CODE).cast("long")

    def end(self, word: Column, offset: int | float | Fraction, end: LimitEnd, /) -> Column:
        """Return the last word within an end at a constant distance (for floats the end itself), null if none is."""
        inward = (-1 if end.upper else 1) if end.strict else 0
        return self._moved(word, int(offset) + inward, upper=end.upper)

    def row_end(self, word: Column, distance: Column, data_type: pa.DataType, end: LimitEnd, /) -> Column:
        """Return the last word within an end at a distance in a column of a type, as `end`."""
        upper = end.upper
        steps, is_exact, is_forward = self._steps(distance, data_type, upper=upper)
        moved = self._sum(word, steps)
        # A sum that overflows is beyond all values, in the direction of the distance.
        beyond = F.when(word.isNotNull() & (is_forward if upper else ~is_forward), self.limit(upper=upper))
        opened = moved
        if end.strict:
            opened = F.when(is_exact, self._sum(moved, self._step(-1 if upper else 1))).otherwise(moved)
        return F.when(moved.isNull(), beyond).otherwise(opened)

    def _moved(self, word: Column, steps: int, *, upper: bool) -> Column:
        """Return a word moved by any number of steps."""
        if steps == 0:
            return word
        moved, rest = word, steps
        while rest and abs(steps) < 2**65:
            part = max(MIN_CODE, min(MAX_CODE, rest))
            moved, rest = F.try_add(moved, F.lit(part).cast("long")), rest - part
        beyond = self._beyond(word, steps, upper=upper)
        return beyond.cast("long") if rest else F.when(moved.isNull(), beyond).otherwise(moved)

    def _beyond(self, word: Column, steps: int, *, upper: bool) -> Column:
        """Return an end beyond all words: no limit if the end is moved outward, else null."""
        return F.when(word.isNotNull(), self.limit(upper=upper)) if (steps > 0) == upper else F.lit(None)

    def _sum(self, word: Column, steps: Column) -> Column:
        """Return a sum, null if it overflows."""
        return F.try_add(word, steps)

    def _step(self, steps: int) -> Column:
        return F.lit(steps).cast("long")

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:  # noqa: ARG002
        """Return a distance in steps (null beyond words), whether it is exact and not rounded inward, and positive."""
        return distance.cast("long"), F.lit(True), distance > 0

    # Distances

    def check_distances(self) -> None:
        """Raise `PlanError` if SQL cannot subtract all values."""

    def words(self, on: Column) -> list[Column]:
        """Return a value as words that compare lexicographically, null for null and NaN."""
        return [self.word(on, self.types[0])]

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return `more` minus `less` as words, where `more` is not less than `less`."""
        return [more[0].cast("decimal(20,0)") - less[0].cast("decimal(20,0)")]

    def within(self, distance: list[Column], constant: int | float) -> Column:
        """Return whether a distance is at most a number of steps."""
        return F.lit(True) if constant >= Decimal(10) ** 21 else distance[0] <= F.lit(Decimal(constant))

    def within_row(self, distance: list[Column], limit: Column, _data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most the limit in a column of any supported type."""
        return (limit >= 0) & (distance[0] <= limit.cast("decimal(20,0)"))


def literal_sign(step: int | float, bits: int) -> int | None:
    """Return 1 or -1 if a step is above or below all signed integers of a width; else None."""
    if -(1 << bits - 1) <= step < 1 << bits - 1:
        return None
    return 1 if step > 0 else -1


@dataclass(frozen=True)
class SqlIntegers(SqlDomain):
    """Integers as 64-bit integers."""

    def literal(self, step: int | float, data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return the integer."""
        return literal_sign(step, _BITS.get(type(data_type), 64)) or F.lit(step)


@dataclass(frozen=True)
class SqlFloats(SqlDomain):
    """Floats as doubles. An open end cannot be closed by moving it a step."""

    is_whole: ClassVar[bool] = False

    def present(self, value: Column) -> Column:
        """Return a value, null if it is NaN."""
        return F.when(~F.isnan(value), value)

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the double, with one zero."""
        return self.present(value.cast("double") + F.lit(0.0))

    def literal(self, step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return the double."""
        return F.lit(float(step))

    def limit(self, *, upper: bool) -> Column:
        """Return infinity."""
        return F.lit(float("inf") if upper else float("-inf"))

    def end(self, word: Column, offset: int | float | Fraction, _end: LimitEnd, /) -> Column:
        """Return the end, null for NaN."""
        return self.present(word + F.lit(float(offset))) if offset else word

    def row_end(self, word: Column, distance: Column, _data_type: pa.DataType, _end: LimitEnd, /) -> Column:
        """Return the end, null for NaN."""
        return self.present(word + distance.cast("double"))

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return the difference; 0 between equal infinities, whose difference is NaN."""
        return [F.when(more[0] == less[0], 0.0).otherwise(more[0] - less[0])]

    def within(self, distance: list[Column], constant: int | float) -> Column:
        """Return whether a distance is at most a float."""
        return distance[0] <= F.lit(float(constant))

    def within_row(self, distance: list[Column], limit: Column, data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most a float or an integer."""
        near = limit.cast("double")
        if pat.is_floating(data_type):
            return ~F.isnan(limit) & (limit >= 0) & (distance[0] <= near)
        # Rounded to a float, the limit could grow to the distance.
        exceeds = near.cast("decimal(20,0)") > limit.cast("decimal(20,0)")
        return (limit >= 0) & ((distance[0] < near) | ((distance[0] == near) & ~exceeds))


@dataclass(frozen=True)
class SqlDecimals(SqlDomain):
    """Decimals of 38 digits."""

    domain: Decimals

    is_whole: ClassVar[bool] = False

    @property
    def _scale(self) -> int:
        return self.domain.scale

    @property
    def _digits(self) -> int:
        """Digits that represent the values of all columns."""
        return int(max(each.precision - each.scale for each in self.types)) + self._scale

    @property
    def _moved_type(self) -> str:
        return f"decimal({_MOVED_DIGITS + 1},{self._scale})"

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the decimal."""
        return value.cast(self._moved_type)

    def literal(self, step: int | float, data_type: st.DataType, /, *, up: bool) -> Column | int | None:
        """Return a number of units of the last digit as a decimal of a type."""
        assert isinstance(data_type, st.DecimalType) and isinstance(step, int)
        coarser = int(10 ** (self._scale - data_type.scale))
        unscaled = -(-step // coarser) if up else step // coarser
        if abs(unscaled) >= 10**data_type.precision:
            return 1 if unscaled > 0 else -1
        with localcontext(prec=data_type.precision):
            text = f"{Decimal(unscaled).scaleb(-data_type.scale):f}"
        return F.expr(f"CAST('{text}' AS DECIMAL({data_type.precision}, {data_type.scale}))")

    def check_ends(self) -> None:
        """Raise `PlanError` if SQL cannot add distances to all values."""
        if self._digits > _MOVED_DIGITS:
            named = " and ".join(dict.fromkeys(map(str, self.types)))
            raise PlanError(
                f"Comparing decimals of type {named} needs {self._digits} digits, but SQL has at most {_MOVED_DIGITS}. "
                "Cast them to fewer digits, or pass algorithm='auto'.",
                name="JN-DECIMAL-DIGITS",
            )

    def limit(self, *, upper: bool) -> Column:
        """Return the greatest or the least decimal."""
        with localcontext(prec=60):
            most = (_LIMIT - 1).scaleb(-self._scale)
        return F.lit(most if upper else most.copy_negate()).cast(f"decimal(38,{self._scale})")

    def _moved(self, word: Column, steps: int, *, upper: bool) -> Column:
        if steps == 0:
            return word
        if abs(steps) >= 10 ** (_MOVED_DIGITS + 1):
            return self._beyond(word, steps, upper=upper).cast(f"decimal(38,{self._scale})")
        with localcontext(prec=60):
            return word + F.lit(Decimal(steps).scaleb(-self._scale)).cast(self._moved_type)

    def _sum(self, word: Column, steps: Column) -> Column:
        return word + steps

    def _step(self, steps: int) -> Column:
        step = F.lit(Decimal(steps).scaleb(-self._scale))
        return step.cast(f"decimal({max(self._scale, 1)},{self._scale})")

    def _steps(self, distance: Column, data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:
        if not pat.is_decimal(data_type) or data_type.scale <= self._scale:
            return self._moved_or_null(distance), F.lit(True), distance > 0
        scale = F.lit(self._scale)
        rounded = F.floor(distance, scale) if upper else F.ceil(distance, scale)
        return self._moved_or_null(rounded), rounded == distance, distance > 0

    def _moved_or_null(self, value: Column) -> Column:
        """Return a decimal in the type of moved words, or null if it does not fit."""
        # Before Spark 4.0, casts of this form return null unless the session has ANSI mode, which is an error.
        cast = value.try_cast if hasattr(value, "try_cast") else value.cast
        return cast(self._moved_type)

    # Distances

    def check_distances(self) -> None:
        """Raise `PlanError` if SQL cannot subtract all values."""
        if self._digits > _DIGITS_MAX < self._scale:
            raise PlanError(
                f"SQL cannot subtract on columns of {self.types[0]} and {self.types[1]}: it has at most {_DIGITS_MAX} "
                "digits after the point. Pass algorithm='auto' to use another one.",
                name="JN-DECIMAL-DIGITS",
            )

    @property
    def _is_wide(self) -> bool:
        return self._digits > _DIGITS_MAX

    def words(self, on: Column) -> list[Column]:
        """Return the decimal, or three words of wide ones."""
        return _split(on) if self._is_wide else [on.cast(f"decimal({self._digits},{self._scale})")]

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return `more` minus `less` as words, where `more` is not less than `less`."""
        if not self._is_wide:
            return [more[0] - less[0]]
        fraction = more[2] - less[2]
        borrow = (fraction < 0).cast("int")
        low = more[1] - less[1] - borrow.cast("decimal(1,0)")
        borrow_high = (low < 0).cast("long")
        return _words(
            more[0] - less[0] - borrow_high,
            low + borrow_high.cast("decimal(1,0)") * F.lit(_LOW),
            fraction + borrow.cast("decimal(1,0)"),
        )

    def within(self, distance: list[Column], constant: int | float) -> Column:
        """Return whether a distance is at most a number of steps."""
        with localcontext(prec=100):
            limit = Decimal(constant).scaleb(-self._scale)
            integer, fraction = divmod(limit, 1)
            high, low = divmod(integer, _LOW)
        if self._is_wide:
            if high >= 2**63:
                return F.lit(True)
            return F.struct(*distance) <= F.struct(*_words(F.lit(int(high)), F.lit(low), F.lit(fraction)))
        return F.lit(True) if limit >= Decimal(10) ** (self._digits + 1 - self._scale) else distance[0] <= F.lit(limit)

    def within_row(self, distance: list[Column], limit: Column, _data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most an integer or decimal."""
        words = distance if self._is_wide else _split(distance[0])
        return (limit >= 0) & (F.struct(*words) <= F.struct(*_split(limit)))


def _split(value: Column) -> list[Column]:
    """Return a decimal or an integer as three words."""
    fraction = value % F.lit(Decimal(1))
    integer = (value - fraction).cast("decimal(38,0)")
    return _words(F.call_function("div", integer, F.lit(_LOW)), integer % F.lit(_LOW), fraction)


def _words(high: Column, low: Column, fraction: Column) -> list[Column]:
    return [high.cast("long"), low.cast("decimal(23,0)"), fraction.cast("decimal(38,37)")]


@dataclass(frozen=True)
class _SqlTimes(SqlDomain):
    def number(self, value: Column, data_type: pa.DataType, /) -> Column:
        """Return a time in seconds."""
        return self.word(value, data_type).cast("double") * F.lit(self.step_ns / 1e9)

    def within_row(self, distance: list[Column], limit: Column, _data_type: pa.DataType, /) -> Column:
        """Return whether a distance is at most a duration."""
        length = micros(limit)
        return (length >= 0) & (self._micros(distance[0]) <= length)

    def _micros(self, steps: Column) -> Column:
        return steps


@dataclass(frozen=True)
class SqlDates(_SqlTimes):
    """Dates as days since 1970."""

    step_ns: ClassVar[int] = DAY_S * 10**9

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the days."""
        return F.unix_date(value).cast("long")

    def literal(self, step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return a day as a date."""
        return literal_sign(step, 32) or F.expr(f"date_add(DATE '1970-01-01', {step})")

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return the days between dates."""
        return [more[0] - less[0]]

    def _micros(self, steps: Column) -> Column:
        return steps * F.lit(_DAY_MICROS)

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:
        micros, day = _whole_micros(distance), F.lit(_DAY_MICROS)
        days, rest = F.call_function("div", micros, day), micros % day
        rounded = days - (rest < 0).cast("long") if upper else days + (rest > 0).cast("long")
        return rounded, rest == 0, micros > 0


@dataclass(frozen=True)
class SqlTimestamps(_SqlTimes):
    """Timestamps as microseconds since 1970."""

    step_ns: ClassVar[int] = 1_000

    def word(self, value: Column, data_type: pa.DataType, /) -> Column:
        """Return the microseconds."""
        if data_type.tz is not None:
            return F.unix_micros(value)
        return _whole_micros(value - F.expr(f"TIMESTAMP_NTZ '{_EPOCH}'"))

    def literal(self, step: int | float, data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return microseconds as a timestamp."""
        sign = literal_sign(step, 64)
        if sign is not None:
            return sign
        if isinstance(data_type, st.TimestampType):
            return F.expr(f"timestamp_micros({step})")
        try:
            return F.expr(f"TIMESTAMP_NTZ '{_EPOCH + timedelta(microseconds=step)}'")
        except OverflowError:
            return None

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:  # noqa: ARG002
        length = micros(distance)
        return length.cast("long"), F.lit(True), length > 0


@dataclass(frozen=True)
class SqlDurations(SqlTimestamps):
    """Durations as microseconds. Only the conditions of predicates compare them in SQL."""

    def word(self, value: Column, _data_type: pa.DataType, /) -> Column:
        """Return the microseconds."""
        return _whole_micros(value)

    def literal(self, _step: int | float, _data_type: st.DataType, /, *, up: bool) -> Column | int | None:  # noqa: ARG002
        """Return None: durations have no literals of 64 bits."""
        return None


def micros(interval: Column) -> Column:
    """Return an interval's microseconds as a decimal without a fraction."""
    return (interval.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("decimal(20,0)")


def _whole_micros(interval: Column) -> Column:
    return micros(interval).cast("long")


TWINS: Mapping[type[Domain], type[SqlDomain]] = {
    Integers: SqlIntegers,
    Floats: SqlFloats,
    Decimals: SqlDecimals,
    Dates: SqlDates,
    Timestamps: SqlTimestamps,
    Durations: SqlDurations,
}
"""The twin of each domain that SQL compares and measures."""


def sql_domain(domain: Domain, types: Iterable[pa.DataType]) -> SqlDomain:
    """Return the twin of a domain, for columns of some types."""
    return TWINS.get(type(domain), SqlDomain)(domain, tuple(map(plain_type, types)))
