"""Dates, timestamps, durations and times of day, counted in days or in their unit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import days, integers_of, plain, raw_values, validity
from juncture.columnar.types import DAY_S, TIME_UNITS
from juncture.errors import SpecError
from juncture.kernels.array_types import Floats, Ints, Mask
from juncture.ordered.arithmetic import multiplied
from juncture.ordered.domain import DISTANCE_DIGITS, Distance, Domain, Rough
from juncture.ordered.duration import TimeLength, duration_ns, format_duration


class Times(Domain):
    """Values whose distances are durations."""

    is_time: ClassVar[bool] = True
    distance_tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (pat.is_duration,)
    distance_noun: ClassVar[str] = "a duration"
    distance_type: ClassVar[pa.DataType] = pa.duration("us")

    @property
    @abstractmethod
    def step_ns(self) -> int:
        """A step in nanoseconds."""

    @property
    def step(self) -> Fraction:
        """A step in seconds."""
        return Fraction(self.step_ns, 10**9)

    def numbers(self, array: pa.Array) -> Floats:
        """Return values in seconds."""
        numbers: Floats = self.encode(array)[0].astype(np.float64) * self.step.numerator / self.step.denominator
        return numbers

    def distance_text(self, steps: Any) -> str:
        """Return a distance as a duration."""
        return format_duration(int(steps) * self.step_ns)

    def in_steps(self, argument: str, value: Distance) -> Decimal:
        """Return a duration in steps, exactly."""
        if isinstance(value, str | TimeLength):
            with localcontext(prec=DISTANCE_DIGITS):
                return Decimal(duration_ns(value, argument=argument)) / self.step_ns
        if value == 0:
            return Decimal(0)
        raise SpecError(
            f"{argument}={value!r} ({type(value).__name__}) has no unit, but the on columns are {self.kind}s. Pass "
            f'a duration, such as {argument}="5m", or a timedelta.',
            name="JN-DISTANCE-UNIT",
        )

    def distance_steps(self, array: pa.Array) -> tuple[Ints, Fraction]:
        """Return durations in their own unit."""
        return raw_values(array, np.int64), self._steps_in(array.type)

    def exact_distances(self, array: pa.Array) -> list[Any]:
        """Return durations in steps."""
        ratio = self._steps_in(array.type)
        return [None if value is None else value * ratio for value in array.cast(pa.int64()).to_pylist()]

    def _steps_in(self, data_type: pa.DataType) -> Fraction:
        return Fraction(1_000 ** (3 - TIME_UNITS.index(data_type.unit)), self.step_ns)


@dataclass(frozen=True)
class Dates(Times):
    """Dates, in days since 1970."""

    kind: ClassVar[str] = "date"
    has_regular_steps: ClassVar[bool] = True

    @property
    def step_ns(self) -> int:
        """Nanoseconds in a day."""
        return DAY_S * 10**9

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the days."""
        array = plain(array)
        return days(array), validity(array)

    def restores(self, data_type: pa.DataType, /) -> bool:
        """Return whether days determine the values of a type."""
        return bool(pat.is_date32(data_type))

    def restore(self, codes: Ints, valid: Mask | None, data_type: pa.DataType) -> pa.Array:
        """Return the dates of days, without a time of day."""
        return super().restore(codes, valid, pa.date32()).cast(data_type)

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the days."""
        return Rough(self.encode, bits=32 if all(map(pat.is_date32, types)) else 64)

    def steps(self, array: pa.Array) -> list[Any]:
        """Return the days."""
        pairs = zip(days(array).tolist(), array.is_valid().to_pylist(), strict=True)
        return [day if is_there else None for day, is_there in pairs]

    def value_text(self, step: Any) -> str:
        """Return a day as a date."""
        return str(np.datetime64(int(step), "D")) if isinstance(step, Integral) else str(step)


@dataclass(frozen=True)
class _Clock(Times):
    """Values in a ``unit``: the finer one of both sides."""

    unit: str

    def common(self, other: Domain) -> Domain | None:
        """Return the domain of the finer unit."""
        if not isinstance(other, type(self)):
            return None
        return type(self)(max(self.unit, other.unit, key=TIME_UNITS.index))

    @property
    def step_ns(self) -> int:
        """Nanoseconds in the unit."""
        return int(1_000 ** (3 - TIME_UNITS.index(self.unit)))

    def encode(self, array: pa.Array, /) -> tuple[Ints, Mask | None]:
        """Return the values in the unit. Raise `TooWideError` if one does not fit in 64 bits."""
        array = plain(array)
        valid = validity(array)
        return multiplied(integers_of(array), self._units_in(array.type), valid), valid

    def _units_in(self, data_type: pa.DataType) -> int:
        return int(1_000 ** (TIME_UNITS.index(self.unit) - TIME_UNITS.index(data_type.unit)))

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the values in the coarser unit, rounded down: some of them may overflow the finer one."""
        units = [TIME_UNITS.index(each.unit) for each in types]

        def codes(array: pa.Array) -> tuple[Ints, Mask | None]:
            return integers_of(array) // 1_000 ** (TIME_UNITS.index(array.type.unit) - min(units)), validity(array)

        return Rough(codes, steps=1_000 ** (max(units) - min(units)))

    def steps(self, array: pa.Array) -> list[Any]:
        """Return the values in the unit."""
        integers = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
        factor = self._units_in(array.type)
        return [None if value is None else value * factor for value in integers.to_pylist()]


@dataclass(frozen=True)
class Timestamps(_Clock):
    """Timestamps, since 1970."""

    kind: ClassVar[str] = "timestamp"
    has_regular_steps: ClassVar[bool] = True

    def restores(self, data_type: pa.DataType, /) -> bool:
        """Return whether codes of a type determine its values."""
        return bool(pat.is_timestamp(data_type) and data_type.unit == self.unit)

    def value_text(self, step: Any) -> str:
        """Return a timestamp."""
        return str(np.array(step, f"datetime64[{self.unit}]")) if isinstance(step, Integral) else str(step)


@dataclass(frozen=True)
class _Lengths(_Clock):
    """Values that are durations themselves, which only as-of joins compare."""

    @property
    def is_asof_only(self) -> bool:
        """Whether only as-of joins of tables compare such values."""
        return True

    def value_text(self, step: Any) -> str:
        """Return a duration."""
        return self.distance_text(step) if isinstance(step, Integral) else str(step)


@dataclass(frozen=True)
class Durations(_Lengths):
    """Durations."""

    kind: ClassVar[str] = "duration"


@dataclass(frozen=True)
class TimesOfDay(_Lengths):
    """Times of day, since midnight."""

    kind: ClassVar[str] = "time"

    def rough(self, types: Sequence[pa.DataType], /) -> Rough:
        """Return the values in the coarser unit, which need few bits."""
        coarser = min(TIME_UNITS.index(each.unit) for each in types)
        return replace(super().rough(types), bits=int(DAY_S * 1_000**coarser).bit_length() + 1)
