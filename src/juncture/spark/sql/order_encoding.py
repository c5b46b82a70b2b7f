"""Ordered values as Spark columns: comparable words, the ends of windows, and numbers for bins.

A value is one *word*: a 64-bit integer for integers, dates and timestamps; a decimal of 38 digits for decimals; a
double for floats. A limit beyond the range of words becomes no limit, or one that nothing satisfies, so nothing
overflows in any session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.spark.sql.times import DAY_MICROS, micros, whole_steps
from juncture.spec.condition import Limit
from juncture.spec.schema import Domain, plain_type

if TYPE_CHECKING:
    from pyspark.sql import Column

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

_DIGITS_MAX = 35
"""Decimals up to this many digits can be moved by their range and by a step within 38 digits."""


@dataclass(frozen=True)
class OrderEncoding:
    """The encoding of the ``on`` columns, or of interval ends, as comparable words."""

    domain: Domain

    @classmethod
    def of(cls, domain: Domain, types: Sequence[pa.DataType]) -> OrderEncoding:
        """Return the encoding for columns of some types; raise `PlanError` for decimals that SQL cannot add to."""
        types = [plain_type(data_type) for data_type in types]
        if domain.kind == "decimal":
            digits = max(data_type.precision - data_type.scale for data_type in types) + domain.scale
            if digits > _DIGITS_MAX:
                named = " and ".join(dict.fromkeys(map(str, types)))
                raise PlanError(
                    f"Comparing decimals of type {named} needs {digits} digits, but SQL has at most {_DIGITS_MAX}. "
                    "Cast them to fewer digits, or pass algorithm='auto'.",
                    name="JN-DECIMAL-DIGITS",
                )
        return cls(domain)

    @property
    def is_real(self) -> bool:
        """Whether words are floats, so that an open end cannot be closed by moving it a step."""
        return self.domain.kind == "float"

    @property
    def is_whole(self) -> bool:
        """Whether words are 64-bit integers."""
        return self.domain.kind not in ("float", "decimal")

    @property
    def step_ns(self) -> int:
        """Nanoseconds between adjacent words of times; otherwise 0."""
        return self.domain.step_ns if self.domain.is_time else 0

    @property
    def _moved_type(self) -> str:
        return f"decimal({_DIGITS_MAX + 1},{self.domain.scale})"

    def word(self, value: Column, data_type: pa.DataType) -> Column:
        """Return a value as a word, null for null and NaN."""
        kind = self.domain.kind
        if kind == "float":
            return _number(value.cast("double") + F.lit(0.0))
        return value.cast(self._moved_type) if kind == "decimal" else whole_steps(value, data_type)

    def end(
        self, word: Column, limit: Limit, distance: Column | None = None, data_type: pa.DataType | None = None
    ) -> Column:
        """Return the last word within a limit (for floats the limit itself), null if there is none.

        `word` is moved by the constant of `limit`, or by the column `distance` of type `data_type`.
        """
        upper = limit.upper
        inward = (-1 if upper else 1) if limit.strict and not self.is_real else 0
        if distance is None or data_type is None:
            if self.is_real:
                return _number(word + F.lit(float(limit.offset))) if limit.is_moved else word
            return self._moved(word, int(limit.offset) + inward, upper=upper)
        if self.is_real:
            return _number(word + distance.cast("double"))
        steps, is_exact, is_forward = self._steps(distance, data_type, upper=upper)
        moved = self._sum(word, steps)
        # A sum that overflows is beyond all values, in the direction of the distance.
        beyond = F.when(word.isNotNull() & (is_forward if upper else ~is_forward), self.limit(upper=upper))
        opened = moved if not inward else F.when(is_exact, self._sum(moved, self._step(inward))).otherwise(moved)
        return F.when(moved.isNull(), beyond).otherwise(opened)

    def limit(self, *, upper: bool) -> Column:
        """Return a bound that no word exceeds."""
        if self.is_real:
            return F.lit(float("inf") if upper else float("-inf"))
        if self.is_whole:
            return F.lit(LONG_MAX if upper else LONG_MIN).cast("long")
        with localcontext(prec=60):
            most = (Decimal(10) ** 38 - 1).scaleb(-self.domain.scale)
        return F.lit(most if upper else most.copy_negate()).cast(f"decimal(38,{self.domain.scale})")

    def _moved(self, word: Column, steps: int, *, upper: bool) -> Column:
        """Return a word moved by any number of steps."""
        if steps == 0:
            return word
        beyond = F.lit(None)
        if (steps > 0) == upper:
            beyond = F.when(word.isNotNull(), self.limit(upper=upper))
        if not self.is_whole:
            if abs(steps) >= 10 ** (_DIGITS_MAX + 1):
                return beyond.cast(f"decimal(38,{self.domain.scale})")
            with localcontext(prec=60):
                return word + F.lit(Decimal(steps).scaleb(-self.domain.scale)).cast(self._moved_type)
        moved, rest = word, steps
        while rest and abs(steps) < 2**65:
            part = max(LONG_MIN, min(LONG_MAX, rest))
            moved, rest = F.try_add(moved, F.lit(part).cast("long")), rest - part
        if rest:
            return beyond.cast("long")
        return F.when(moved.isNull(), beyond).otherwise(moved)

    def _sum(self, word: Column, steps: Column) -> Column:
        """Return a sum, null if it overflows."""
        if self.is_whole:
            return F.try_add(word, steps)
        return word + steps

    def _step(self, steps: int) -> Column:
        """Return a step as a column to add."""
        if self.is_whole:
            return F.lit(steps).cast("long")
        return F.lit(Decimal(steps).scaleb(-self.domain.scale)).cast(
            f"decimal({max(self.domain.scale, 1)},{self.domain.scale})"
        )

    def _steps(self, distance: Column, data_type: pa.DataType, *, upper: bool) -> tuple[Column, Column, Column]:
        """Return a distance in steps, whether it is exact and not rounded inward, and whether it is positive.

        Steps are null if the distance exceeds the range of words.
        """
        kind, always = self.domain.kind, F.lit(True)
        if kind == "integer":
            return distance.cast("long"), always, distance > 0
        if kind == "timestamp":
            return micros(distance).cast("long"), always, micros(distance) > 0
        if kind == "date":
            whole, day = micros(distance).cast("long"), F.lit(DAY_MICROS)
            days, rest = F.call_function("div", whole, day), whole % day
            rounded = days - (rest < 0).cast("long") if upper else days + (rest > 0).cast("long")
            return rounded, rest == 0, whole > 0
        if not pat.is_decimal(data_type) or data_type.scale <= self.domain.scale:
            return distance.try_cast(self._moved_type), always, distance > 0
        scale = F.lit(self.domain.scale)
        rounded = F.floor(distance, scale) if upper else F.ceil(distance, scale)
        return rounded.try_cast(self._moved_type), rounded == distance, distance > 0


def _number(end: Column) -> Column:
    """Return null for NaN, which has no neighbours."""
    return F.when(~F.isnan(end), end)
