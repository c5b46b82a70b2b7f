"""PostgreSQL types, and conversion of values between PostgreSQL's text format and Arrow, exactly or with an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from psycopg.adapt import Transformer
from psycopg.pq import Format

_SAME: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.uint32(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
"""All other types except numeric and arrays are read as text."""

_HEADER = 4  # offset of type modifiers


@dataclass(frozen=True)
class _Type:
    name: str
    kind: str
    base: int
    modifier: int
    element: int


class Types:
    """The types of a database, including domains, enumerations and arrays."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        rows = connection.execute(
            "SELECT oid::int8, typname, typtype, typbasetype::int8, typtypmod, "
            "CASE WHEN typcategory = 'A' AND typlen = -1 THEN typelem::int8 ELSE 0 END FROM pg_catalog.pg_type"
        )
        self._types = {row[0]: _Type(*row[1:]) for row in rows}

    def arrow(self, oid: int, modifier: int) -> pa.DataType:
        """Return the Arrow type of a column."""
        postgres_type = self._types[oid]
        if postgres_type.kind == "d":
            return self.arrow(postgres_type.base, postgres_type.modifier if modifier < 0 else modifier)
        if postgres_type.element:
            return pa.list_(self.arrow(postgres_type.element, modifier))
        if postgres_type.name == "numeric":
            return _numeric(modifier)
        return _SAME.get(postgres_type.name, pa.string())


def _numeric(modifier: int) -> pa.DataType:
    """Return a decimal type with the same digits; text for a numeric without precision."""
    if modifier < 0:
        return pa.string()
    precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
    # The scale has eleven bits with a sign: numeric(3, -2) rounds to hundreds, numeric(2, 4) starts with two zeros.
    scale = (scale ^ 1024) - 1024
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > 76:
        return pa.string()
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def sql_type(data_type: pa.DataType) -> str:
    """Return the PostgreSQL type of an Arrow type."""
    if pat.is_dictionary(data_type):
        return sql_type(data_type.value_type)
    if pat.is_list(data_type) or pat.is_large_list(data_type):
        return f"{sql_type(data_type.value_type)}[]"
    if pat.is_decimal(data_type):
        return f"numeric({data_type.precision}, {data_type.scale})"
    if pat.is_timestamp(data_type):
        return "timestamp" if data_type.tz is None else "timestamptz"
    for test, name in _TESTS:
        if test(data_type):
            return name
    return "text"


_TESTS = (
    (pat.is_boolean, "boolean"),
    (pat.is_uint64, "numeric(20, 0)"),
    (lambda each: pat.is_int64(each) or pat.is_uint32(each), "bigint"),
    (lambda each: pat.is_int32(each) or pat.is_uint16(each), "integer"),
    (pat.is_integer, "smallint"),
    (pat.is_float64, "double precision"),
    (pat.is_floating, "real"),
    (pat.is_date, "date"),
    (pat.is_time, "time"),
    (lambda each: pat.is_binary(each) or pat.is_large_binary(each) or pat.is_fixed_size_binary(each), "bytea"),
)


_FAR = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?( BC)?")
_DAY_US = 86_400_000_000


class DoesNotFitError(Exception):
    """A value does not fit an Arrow type."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


def from_text(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return values that PostgreSQL wrote as text; raises `DoesNotFitError` with the first one that does not fit."""
    if texts.type == data_type:
        return texts
    read = _reader(data_type)
    try:
        return read(texts, data_type)
    except (pa.ArrowException, ValueError, OverflowError):
        raise DoesNotFitError(_first_wrong(texts, data_type, read)) from None


_Reader = Callable[[pa.Array, pa.DataType], pa.Array]


def _reader(data_type: pa.DataType) -> _Reader:
    if pat.is_boolean(data_type):
        return _booleans
    if pat.is_date32(data_type) or pat.is_timestamp(data_type):
        return _times
    if pat.is_time64(data_type):
        return _times_of_day
    if pat.is_binary(data_type):
        return _bytes
    if pat.is_list(data_type):
        return _lists
    return _cast


def _first_wrong(texts: pa.Array, data_type: pa.DataType, read: _Reader) -> str:
    for row in range(len(texts)):
        try:
            read(texts.slice(row, 1), data_type)
        except (pa.ArrowException, ValueError, OverflowError):
            return str(texts[row].as_py())
    raise AssertionError("values that cannot be read together can be read one by one")


def _cast(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    return texts.cast(data_type)


def _booleans(texts: pa.Array, _: pa.DataType) -> pa.Array:
    return pc.equal(texts, "t")


def _times(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    try:
        return texts.cast(data_type)
    except pa.ArrowInvalid:
        # Arrow only reads years of four digits.
        counts = [None if text is None else _count(text, data_type) for text in texts.to_pylist()]
        return pa.array(counts, pa.int32() if pat.is_date32(data_type) else pa.int64()).cast(data_type)


def _count(text: str, data_type: pa.DataType) -> int:
    match = _FAR.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
    # Years before 1 have a year 0 in NumPy.
    days = int(np.datetime64(f"{1 - year if match[8] else year:05}-{month:02}-{day:02}", "D").astype(np.int64))
    if pat.is_date32(data_type):
        return days
    seconds = (hour * 60 + minute) * 60 + second
    return days * _DAY_US + seconds * 1_000_000 + int((match[7] or "").ljust(6, "0"))


def _times_of_day(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    times = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
    return times.cast(pa.int64()).cast(data_type)


def _bytes(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], data_type)


def _lists(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    lists = [None if text is None else read_array(text) for text in texts.to_pylist()]
    flat = pa.array(list(chain.from_iterable(each for each in lists if each)), pa.string())
    ends = accumulate((len(each or ()) for each in lists), initial=0)
    offsets = pa.array(list(ends), pa.int32())
    mask = pa.array([each is None for each in lists])
    return pa.ListArray.from_arrays(offsets, _reader(data_type.value_type)(flat, data_type.value_type), mask=mask).cast(
        data_type
    )


_ARRAYS = Transformer().get_loader(1009, Format.TEXT)  # the OID is that of text[]


def read_array(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array; raises `ValueError` for more dimensions, and for other bounds."""
    elements: list[str | None] = _ARRAYS.load(text.encode())
    if not text.startswith("{") or any(isinstance(each, list) for each in elements):
        raise ValueError(text)
    return elements


def to_text(values: pa.Array) -> pa.Array:
    """Return values in PostgreSQL's text format, as an array that `pyarrow.csv` writes."""
    data_type = values.type
    if pat.is_dictionary(data_type):
        return to_text(values.dictionary_decode())
    if pat.is_binary(data_type) or pat.is_large_binary(data_type) or pat.is_fixed_size_binary(data_type):
        return pa.array([None if each is None else "\\x" + each.hex() for each in values.to_pylist()], pa.string())
    if pat.is_list(data_type) or pat.is_large_list(data_type):
        lists = ((None if each.as_py() is None else to_text(each.values).cast(pa.string())) for each in values)
        return pa.array([None if each is None else _array(each.to_pylist()) for each in lists], pa.string())
    return values


def _array(elements: Sequence[Any]) -> str:
    quoted = ("NULL" if each is None else '"' + re.sub(r'(["\\])', r"\\\1", each) + '"' for each in elements)
    return "{" + ",".join(quoted) + "}"
