"""The type of a text column, combined from the types of its slices, without changing a digit of a whole number.

A parser that uses 64-bit integers and otherwise floats makes 12345678901234567890123 and …124 equal, and 00123 and 123.
So numbers in each slice of a column are measured, the measures are combined, and then the column gets its type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.types import TIME_UNITS
from juncture.errors import DataError

_DIGITS_MAX = 38
_DIGITS_OF_FLOATS = 15  # integers with at most this number of digits are exact as floats


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Measures of the numbers of a column."""

    fits_integers: bool = True  # all are 64-bit integers
    fits_floats: bool = True  # all integers among them are exact as floats
    is_plain: bool = True  # none has an exponent, is infinite or NaN
    starts_with_zero: bool = False  # one has a leading zero, like a code
    whole_digits: int = 1  # the maximum number of digits before and after the decimal point
    fraction_digits: int = 0

    def __or__(self, other: Numbers) -> Numbers:
        return Numbers(
            fits_integers=self.fits_integers and other.fits_integers,
            fits_floats=self.fits_floats and other.fits_floats,
            is_plain=self.is_plain and other.is_plain,
            starts_with_zero=self.starts_with_zero or other.starts_with_zero,
            whole_digits=max(self.whole_digits, other.whole_digits),
            fraction_digits=max(self.fraction_digits, other.fraction_digits),
        )

    @property
    def type(self) -> pa.DataType:
        """The type that represents all of them exactly, or text."""
        if self.starts_with_zero:
            return pa.string()
        if self.fits_integers:
            return pa.int64()
        are_whole = self.is_plain and not self.fraction_digits
        if self.fits_floats and not are_whole:
            return pa.float64()
        if self.is_plain and self.whole_digits + self.fraction_digits <= _DIGITS_MAX:
            return pa.decimal128(_DIGITS_MAX, self.fraction_digits)
        return pa.string()


def numbers_of(texts: pa.ChunkedArray) -> Numbers:
    """Measure numbers given as text, each a valid number or null."""
    texts = pc.ascii_trim_whitespace(texts.drop_null())
    if not len(texts):
        return Numbers()
    unsigned = pc.ascii_ltrim(texts, characters="+-")
    is_whole = pc.match_substring_regex(unsigned, "^[0-9]+$")
    is_plain = pc.match_substring_regex(unsigned, r"^([0-9]+\.?[0-9]*|\.[0-9]+)$")
    is_long = pc.and_(is_whole, pc.greater(pc.utf8_length(unsigned), _DIGITS_OF_FLOATS))
    fits_integers, fits_floats = _fits(texts.filter(is_long))
    plain = unsigned.filter(is_plain)
    point = pc.find_substring(plain, ".")
    length = pc.utf8_length(plain)
    integer_digits = pc.if_else(pc.less(point, 0), length, point)
    fraction = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))
    return Numbers(
        fits_integers=pc.all(is_whole).as_py() and fits_integers,
        fits_floats=fits_floats,
        is_plain=pc.all(is_plain).as_py(),
        starts_with_zero=pc.any(pc.match_substring_regex(unsigned, "^0[0-9]")).as_py(),
        whole_digits=pc.max(integer_digits).as_py() or 1,
        fraction_digits=pc.max(fraction).as_py() or 0,
    )


def _fits(wholes: pa.ChunkedArray) -> tuple[bool, bool]:
    """Return whether integers given as text are all 64-bit integers, and whether all are exact as floats."""
    try:
        integers = pc.cast(pc.ascii_ltrim(wholes, characters="+"), pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return False, all(_is_float(text) for text in pc.unique(wholes).to_pylist())
    floats = integers.astype(np.float64)
    # The greatest integers round to 2^63, which is not a 64-bit integer.
    return True, bool(np.array_equal(np.where(floats < 2.0**63, floats, 0).astype(np.int64), integers))


def _is_float(text: str) -> bool:
    number = float(text)
    return math.isfinite(number) and int(number) == int(text)


TextFormat = Literal["csv", "json"]

ColumnType: TypeAlias = pa.DataType | Numbers
"""The type of a column, or measures of its numbers."""


def joined(
    before: Mapping[str, ColumnType], new: Mapping[str, ColumnType], text_format: TextFormat, path: Path
) -> dict[str, ColumnType]:
    """Return the column types after one more slice. JSON objects may omit columns; CSV files have the same header."""
    if text_format == "csv":
        if list(before) != list(new):
            raise DataError(
                f"{path} has the columns {', '.join(new)}, but the files before it have "
                f"{', '.join(before)}. Expected the same header in all files of a table. Read them as separate tables, "
                "or write them again.",
                name="JN-FILE-COLUMNS",
            )
        return {name: _common(before[name], new[name]) for name in before}
    types = dict(before)
    for name, new_type in new.items():
        old = types.get(name, new_type)
        if len({_json_kind(old), _json_kind(new_type)} - {"null"}) > 1:
            raise DataError(
                f"{path} has {_type(new_type)} values in column {name!r}, which has {_type(old)} values "
                "before. Expected values of one type, or null. Write the values in one type.",
                name="JN-FILE-COLUMNS",
            )
        types[name] = _common(old, new_type)
    return types


def schema_of(types: Mapping[str, ColumnType], text_format: TextFormat, paths: Sequence[Path]) -> pa.Schema:
    """Return the schema of a table, after all slices."""
    for name, each in types.items():
        if text_format == "json" and isinstance(each, Numbers) and pat.is_string(each.type):
            raise DataError(
                f"{paths[0]} has numbers in column {name!r} that no type represents exactly. Write "
                f"them as text, in quotes, or set a type: --type '{name}=double'.",
                name="JN-NUMBER-PRECISION",
            )
    return pa.schema([(name, _type(each)) for name, each in types.items()])


def as_text(schema: pa.Schema) -> pa.Schema:
    """Return a schema with text in place of the null type, for columns without values."""
    return pa.schema([each.with_type(pa.string()) if pat.is_null(each.type) else each for each in schema])


def _type(column_type: ColumnType) -> pa.DataType:
    return column_type.type if isinstance(column_type, Numbers) else column_type


def _json_kind(column_type: ColumnType) -> str:
    """Return the JSON kind of a type. Unlike CSV, JSON distinguishes numbers from text."""
    if isinstance(column_type, Numbers) or pat.is_decimal(column_type):
        return "number"
    if pat.is_nested(column_type):
        return "list" if pat.is_list(column_type) else "object"
    if pat.is_boolean(column_type) or pat.is_null(column_type):
        return str(column_type)
    return "number" if pat.is_integer(column_type) or pat.is_floating(column_type) else "text"


def _common(before: ColumnType, new: ColumnType) -> ColumnType:
    """Return the type of the values of both, or text."""
    if isinstance(before, Numbers) and isinstance(new, Numbers):
        return before | new
    if isinstance(before, Numbers) or isinstance(new, Numbers):
        other = new if isinstance(before, Numbers) else before
        return (before if other is new else new) if pat.is_null(other) else pa.string()
    return _common_type(before, new)


def _common_type(before: pa.DataType, new: pa.DataType) -> pa.DataType:
    """Return the narrowest type for the values of both, or text."""
    if before == new or pat.is_null(new):
        return before
    if pat.is_null(before):
        return new
    if {before, new} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pat.is_date(new):
        before, new = new, before
    if pat.is_date(before) and pat.is_timestamp(new) and new.tz is None:
        return new
    if pat.is_timestamp(before) and pat.is_timestamp(new) and before.tz == new.tz:
        return max(before, new, key=lambda data_type: TIME_UNITS.index(data_type.unit))
    if pat.is_nested(before):
        fields = (pa.schema([pa.field("", data_type)]) for data_type in (before, new))
        return pa.unify_schemas(list(fields), promote_options="permissive").field(0).type
    return pa.string()
