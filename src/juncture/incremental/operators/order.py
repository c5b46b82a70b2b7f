"""Order codes: 64-bit integers in the order of the values of any type. Different values may have one code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar import tie_order
from juncture.columnar.arrays import (
    array_of,
    float_codes,
    floats_of,
    raw_values,
    validity,
)
from juncture.errors import SchemaError, SpecError, did_you_mean
from juncture.incremental.changes.source import Source
from juncture.incremental.expressions.expression import Expression, evaluate, text_of
from juncture.kernels.array_types import Ints, Mask
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE
from juncture.ordered.kinds import domain_of
from juncture.spec.distance import in_steps

_CODED_DIGITS = 18
_DAY_MICROS, _DAYS_OF_MONTH = 86_400_000_000, 31


@dataclass(frozen=True)
class RowOrder:
    """The first sort key of rows."""

    value: Expression
    descending: bool
    nulls_first: bool

    def codes(self, batch: pa.RecordBatch) -> Ints:
        """Return the order codes of rows. A row with a smaller code is before one with a greater code."""
        values = evaluate(self.value, batch.columns, batch.num_rows)
        return codes_in_order(values, descending=self.descending, nulls_first=self.nulls_first)

    def text(self, names: Sequence[str]) -> str:
        """Return the order as text."""
        return f"{text_of(self.value, names)}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


@dataclass(frozen=True)
class SourceOrder:
    """The column that orders a source, and the type in which it is read. Distances are in steps of order codes."""

    column: str
    type: pa.DataType
    delay: int | float  # for floats, a float
    repair_within: int | float

    @classmethod
    def of(cls, name: str, source: Source, data_type: pa.DataType | None = None) -> SourceOrder:
        """Validate the order of a source that has one."""
        order = source.order
        assert order is not None
        column = next((each for each in source.schema.names if each.lower() == order.expression.lower()), None)
        if column is None:
            raise SpecError(
                f"The order {order.expression!r} of source {name!r} is not one of its columns. "
                f"{did_you_mean(order.expression, source.schema.names)}",
                name="JN-COLUMN-MISSING",
            )
        data_type = source.schema.field(column).type if data_type is None else data_type
        domain = domain_of(data_type) if has_exact_codes(data_type) else None
        if domain is None:
            raise SchemaError(
                f"The order {column!r} of source {name!r} has type {data_type}. Expected integers, floats, decimals of "
                f"up to {_CODED_DIGITS} digits, dates or timestamps.",
                name="JN-TYPE-UNSUPPORTED",
            )
        distances = []
        for argument, value in (("delay", order.delay), ("repair_within", source.repair_within)):
            steps = in_steps(argument, value or 0, domain, pa.schema([]))
            if steps.is_infinite():
                raise SpecError(
                    f"{argument}={value!r} of source {name!r} exceeds the range of its order. Pass a smaller distance.",
                    name="JN-ARGUMENT-VALUE",
                )
            distances.append(domain.whole_steps(steps))
        return cls(column, data_type, *distances)

    def codes(self, values: pa.Array) -> Ints | None:
        """Return the codes of values; None if one is null or NaN."""
        codes = order_codes(values)
        is_null = values.null_count or (pat.is_floating(self.type) and pc.any(pc.is_nan(values)).as_py())
        return None if is_null else codes

    def frontier(self, greatest: int) -> int:
        """Return the least code that is not late after the greatest one."""
        return self._before(greatest, self.delay)

    def repair_frontier(self, greatest: int) -> int:
        """Return the least code whose changes are applied after the greatest one. Others are excluded."""
        return self._before(greatest, self.delay + self.repair_within)

    def _before(self, greatest: int, distance: int | float) -> int:
        if pat.is_floating(self.type):
            return int(float_codes(floats_of(np.array([greatest])) - distance)[0])
        bits = 64 if pat.is_decimal(self.type) else self.type.bit_width
        least = 0 if pat.is_unsigned_integer(self.type) else -(1 << (bits - 1))
        return max(greatest - int(distance), least)

    def value(self, code: int) -> pa.Array:
        """Return the value of a code, as an array."""
        return values_of(np.array([code]), self.type, np.ones(1, np.bool_))


def codes_in_order(values: pa.Array, *, descending: bool, nulls_first: bool) -> Ints:
    """Return the order codes of values, with nulls at one end."""
    codes = order_codes(values)
    codes = ~codes if descending else codes
    valid = validity(values)
    return codes if valid is None else np.where(valid, codes, MIN_CODE if nulls_first else MAX_CODE)


def has_exact_codes(of: pa.DataType) -> bool:
    """Return whether different values of a type have different order codes, apart from nulls."""
    if pat.is_decimal128(of):
        return bool(of.precision <= _CODED_DIGITS)
    is_integer = pat.is_integer(of) and not pat.is_uint64(of)
    return bool(is_integer or pat.is_floating(of) or pat.is_date(of) or pat.is_timestamp(of))


def most_steps(value: object, scale: int, of: pa.DataType) -> int | None:
    """Return at most how far an offset is in steps of order codes; None if that is not known.

    The offset is in units of ``10 ** -scale``, or has the months, days and microseconds of an interval.
    """
    if isinstance(value, dict) and pat.is_timestamp(of):
        days = abs(value.get("months", 0)) * _DAYS_OF_MONTH + abs(value.get("days", 0))
        micros = days * _DAY_MICROS + abs(value.get("micros", 0))
        return int({"s": micros // 10**6, "ms": micros // 1_000, "us": micros, "ns": micros * 1_000}[of.unit] + 1)
    if not isinstance(value, int) or not (pat.is_integer(of) or pat.is_decimal(of)) or not has_exact_codes(of):
        return None
    # Rounded up.
    return int(-(-abs(value) * 10 ** (of.scale if pat.is_decimal(of) else 0) // 10**scale))


def is_ordered(of: pa.DataType) -> bool:
    """Return whether values of a type can be sorted."""
    is_number = pat.is_boolean(of) or pat.is_integer(of) or pat.is_floating(of) or pat.is_decimal(of)
    is_time = pat.is_date(of) or pat.is_time(of) or pat.is_timestamp(of)
    return bool(is_number or is_time or pat.is_string(of) or pat.is_binary(of))


def order_codes(values: pa.Array) -> Ints:
    """Return integers in the order of values; arbitrary ones for nulls.

    Texts have the codes of their first bytes, and long decimals beyond 64 bits the least or the greatest code. All
    values of a type without an order here have one code.
    """
    kind = values.type
    if pat.is_decimal128(kind):
        words = raw_values(values, np.int64)
        return np.where(words[:, 1] == words[:, 0] >> 63, words[:, 0], np.where(words[:, 1] < 0, MIN_CODE, MAX_CODE))
    if pat.is_nested(kind) or pat.is_interval(kind) or pat.is_null(kind) or pat.is_decimal(kind):
        return np.zeros(len(values), np.int64)
    return tie_order.order_codes(values, decided=False)


def values_of(codes: Ints, of: pa.DataType, valid: Mask) -> pa.Array:
    """Return the values of exact order codes; null where not valid."""
    if pat.is_floating(of):
        return array_of(np.where(valid, floats_of(codes), 0.0), pa.float64(), valid).cast(of, safe=False)
    codes = np.where(valid, codes, 0)
    if pat.is_decimal128(of):
        return array_of(np.stack([codes, codes >> 63], axis=1), of, valid)
    return (
        array_of(codes.astype(np.dtype(f"i{of.bit_width // 8}")), of, valid)
        if not pat.is_unsigned_integer(of)
        else array_of(codes, pa.int64(), valid).cast(of)
    )
