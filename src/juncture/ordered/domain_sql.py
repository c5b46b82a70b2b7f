"""The base of the twins of domains in Spark's SQL.

A value is one *word*, which compares like the value: a 64-bit integer for integers, dates and timestamps, a decimal for
decimals, a double for floats. An end beyond the range of words becomes no limit, or one that nothing satisfies, so
nothing overflows in any session. Only Spark code imports these modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE, LimitEnd
from juncture.ordered.domain import Domain

if TYPE_CHECKING:
    from pyspark.sql import Column

"""A decimal above every distance."""


@dataclass(frozen=True)
class SqlDomain:
    """A domain in SQL, for columns of some ``types`` without encoding. By default, words are 64-bit steps.

    The base class itself is the twin of values that SQL only orders.
    """

    domain: Domain
    types: tuple[pa.DataType, ...]

    is_whole: ClassVar[bool] = True
    """Whether words are 64-bit integers."""

    step_ns: ClassVar[int] = 0
    """Nanoseconds between adjacent words of times; otherwise 0."""

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
        """Return a step as a literal of a column's type, rounded up or down.

        Returns 1 or -1 if it is above or below all values of the type, and None if the type has no such literal.
        """
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
        """Return a step as a column to add."""
        return F.lit(steps).cast("long")

    def _steps(self, distance: Column, _data_type: pa.DataType, /, *, upper: bool) -> tuple[Column, Column, Column]:  # noqa: ARG002
        """Return a distance in steps, whether it is exact and not rounded inward, and whether it is positive.

        Steps are null if the distance exceeds the range of words.
        """
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
