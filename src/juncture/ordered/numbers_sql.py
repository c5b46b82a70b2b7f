"""Integers in SQL, as 64-bit integers, floats, as doubles, and decimals, with distances between wide ones.

Decimals with more than 37 digits in total have three words for distances: the whole part divided by 10²⁰, the rest of
the whole part, and the fraction. All are truncated towards zero, so they keep the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.errors import PlanError
from juncture.ordered.arithmetic import LimitEnd
from juncture.ordered.domain_sql import SqlDomain, literal_sign
from juncture.ordered.numbers import Decimals

if TYPE_CHECKING:
    from pyspark.sql import Column


_LOW = Decimal(10) ** 20
_MOVED_DIGITS = 35
"""Decimals up to this many digits can be moved by their range and by a step within 38 digits."""
_DIGITS_MAX = 37
"""Decimals up to this many digits can be subtracted: the difference has one more."""
_LIMIT = Decimal(10) ** 38

_BITS: dict[type[st.DataType], int] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


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
            return distance.try_cast(self._moved_type), F.lit(True), distance > 0
        scale = F.lit(self._scale)
        rounded = F.floor(distance, scale) if upper else F.ceil(distance, scale)
        return rounded.try_cast(self._moved_type), rounded == distance, distance > 0

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
            whole, fraction = divmod(limit, 1)
            high, low = divmod(whole, _LOW)
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
    whole = (value - fraction).cast("decimal(38,0)")
    return _words(F.call_function("div", whole, F.lit(_LOW)), whole % F.lit(_LOW), fraction)


def _words(high: Column, low: Column, fraction: Column) -> list[Column]:
    """Return three words in common types."""
    return [high.cast("long"), low.cast("decimal(23,0)"), fraction.cast("decimal(38,37)")]
