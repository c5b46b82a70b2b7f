"""Order codes: 64-bit integers in the order of the values of any type. Different values may have one code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import float_codes, floats, integers_of, raw_values, texts_of, validity
from juncture.incremental.expressions.expression import Expression, evaluate, shown
from juncture.kernels.array_types import Ints
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE

_CODED_DIGITS = 18
_PREFIX_BYTES = 8
_DAY_MICROS, _DAYS_OF_MONTH = 86_400_000_000, 31
_SIGN = np.uint64(1 << 63)


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

    def shown(self, names: Sequence[str]) -> str:
        """Return the order as text."""
        return f"{shown(self.value, names)}{' DESC' * self.descending}{' NULLS FIRST' * self.nulls_first}"


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
    if pat.is_floating(kind):
        return float_codes(floats(values))
    if pat.is_decimal128(kind):
        words = raw_values(values, np.int64)
        return np.where(words[:, 1] == words[:, 0] >> 63, words[:, 0], np.where(words[:, 1] < 0, MIN_CODE, MAX_CODE))
    if pat.is_uint64(kind):
        return np.asarray((raw_values(values, np.uint64) ^ _SIGN).view(np.int64))
    if pat.is_boolean(kind) or pat.is_integer(kind):
        return np.asarray(raw_values(values.cast(pa.int64()), np.int64))
    if pat.is_temporal(kind) and not pat.is_interval(kind):
        return integers_of(values)
    if pat.is_string(kind) or pat.is_large_string(kind) or pat.is_binary(kind) or pat.is_large_binary(kind):
        return _prefix_codes(values)
    return np.zeros(len(values), np.int64)


def _prefix_codes(values: pa.Array) -> Ints:
    """Return the first bytes of texts as integers."""
    offsets, content = texts_of(values)
    if not len(content):
        return np.full(len(values), MIN_CODE)
    places = offsets[:-1, None] + np.arange(_PREFIX_BYTES)
    prefixes = np.where(places < offsets[1:, None], content.take(places, mode="clip"), 0).astype(np.uint8)
    return np.asarray((prefixes.view(">u8")[:, 0].astype(np.uint64) ^ _SIGN).view(np.int64))
