"""Distances between values of ``on``, as Spark columns that compare exactly.

A value is a list of *words* that compare lexicographically, nearly always the single word of
`juncture.spark.sql.order_encoding`. Decimals with more than 37 digits in total have three: the whole part divided by
10²⁰, the rest of the whole part, and the fraction. All are truncated towards zero, so they keep the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.spark.sql.order_encoding import OrderEncoding
from juncture.spark.sql.times import DAY_MICROS, micros
from juncture.spec.asof import ResolvedAsof

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_LOW = Decimal(10) ** 20
_DIGITS_MAX = 37
"""Decimals up to this many digits can be subtracted: the difference has one more."""


@dataclass(frozen=True)
class OnDistances:
    """The ``on`` columns in SQL: `order` encodes them, `digits` (of decimals) hold the values of both sides."""

    order: OrderEncoding
    data_type: pa.DataType
    digits: int

    @classmethod
    def of(cls, join: ResolvedAsof) -> OnDistances:
        """Return the distances of a join; raise `PlanError` for decimals that SQL cannot subtract."""
        sides = join.left_schema.field(join.left_on).type, join.right_schema.field(join.right_on).type
        scale, digits = join.domain.scale, 0
        if join.domain.kind == "decimal":
            digits = max(side.precision - side.scale for side in sides) + scale
            if digits > _DIGITS_MAX < scale:
                raise PlanError(
                    f"SQL cannot subtract on columns of {sides[0]} and {sides[1]}: it has at most {_DIGITS_MAX} "
                    "digits after the point. Pass algorithm='auto' to use another one.",
                    name="JN-DECIMAL-DIGITS",
                )
        return cls(OrderEncoding(join.domain), sides[0], digits)

    @property
    def kind(self) -> str:
        """The kind of values."""
        return self.order.domain.kind

    @property
    def scale(self) -> int:
        """Digits after the point, for decimals."""
        return self.order.domain.scale

    @property
    def _is_wide(self) -> bool:
        return self.digits > _DIGITS_MAX

    def words(self, on: Column) -> list[Column]:
        """Return a value as words, null for null and NaN."""
        if self.kind != "decimal":
            return [self.order.word(on, self.data_type)]
        return _split(on) if self._is_wide else [on.cast(f"decimal({self.digits},{self.scale})")]

    def distance(self, more: list[Column], less: list[Column]) -> list[Column]:
        """Return `more` minus `less` as words, where `more` is not less than `less`."""
        if self.kind == "float":
            # The distance between equal infinities is 0, but their difference is NaN.
            return [F.when(more[0] == less[0], 0.0).otherwise(more[0] - less[0])]
        if self.kind in ("integer", "timestamp"):
            return [more[0].cast("decimal(20,0)") - less[0].cast("decimal(20,0)")]
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
        if self.kind == "float":
            return distance[0] <= F.lit(float(constant))
        with localcontext(prec=100):
            limit = Decimal(constant).scaleb(-self.scale)
            whole, fraction = divmod(limit, 1)
            high, low = divmod(whole, _LOW)
        if self._is_wide:
            if high >= 2**63:
                return F.lit(True)
            return F.struct(*distance) <= F.struct(*_words(F.lit(int(high)), F.lit(low), F.lit(fraction)))
        if limit >= Decimal(10) ** (21 if self.kind != "decimal" else self.digits + 1 - self.scale):
            return F.lit(True)
        return distance[0] <= F.lit(limit)

    def within_row(self, distance: list[Column], limit: Column, data_type: pa.DataType) -> Column:
        """Return whether a distance is at most the limit in a column of any supported type."""
        import pyarrow.types as pat

        if pat.is_duration(data_type):
            length = micros(limit)
            scaled = distance[0] * F.lit(DAY_MICROS) if self.kind == "date" else distance[0]
            return (length >= 0) & (scaled <= length)
        if pat.is_floating(data_type):
            return ~F.isnan(limit) & (limit >= 0) & (distance[0] <= limit.cast("double"))
        if self.kind == "float":
            # Rounded to a float, the limit could grow to the distance.
            near = limit.cast("double")
            exceeds = near.cast("decimal(20,0)") > limit.cast("decimal(20,0)")
            return (limit >= 0) & ((distance[0] < near) | ((distance[0] == near) & ~exceeds))
        if self.kind == "decimal":
            words = distance if self._is_wide else _split(distance[0])
            return (limit >= 0) & (F.struct(*words) <= F.struct(*_split(limit)))
        return (limit >= 0) & (distance[0] <= limit.cast("decimal(20,0)"))


def _split(value: Column) -> list[Column]:
    """Return a decimal or an integer as three words."""
    fraction = value % F.lit(Decimal(1))
    whole = (value - fraction).cast("decimal(38,0)")
    return _words(F.call_function("div", whole, F.lit(_LOW)), whole % F.lit(_LOW), fraction)


def _words(high: Column, low: Column, fraction: Column) -> list[Column]:
    """Return three words in common types."""
    return [high.cast("long"), low.cast("decimal(23,0)"), fraction.cast("decimal(38,37)")]
