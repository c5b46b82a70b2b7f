"""Options for reading text files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from juncture.errors import SpecError

_DIGITS_MAX = 38

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_ns": pa.timestamp("ns"),
}


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options for reading text files."""

    nulls: Sequence[str] = ()  # texts that mean null in CSV, besides an empty unquoted field
    delimiter: str = ","  # the CSV delimiter, one character
    has_header: bool = True  # otherwise, columns of CSV are named ``f0``, ``f1`` and so on
    types: Mapping[str, pa.DataType] = field(default_factory=dict)  # types of columns that are not inferred
    is_all_text: bool = False  # whether CSV columns without a type are text, except those below, which are inferred
    inferred_columns: frozenset[str] = frozenset()
    has_line_breaks: bool = False  # whether quoted values of CSV may have line breaks


def checked_delimiter(character: str, written: str) -> str:
    """Return a delimiter of CSV, or raise `SpecError`. ``written`` is the argument with its value, for the message."""
    if len(character) != 1 or character in '\r\n"' or not character.isascii():
        raise SpecError(
            f"{written} is not a delimiter. Expected one ASCII character, such as ';' or '\\t'.",
            name="JN-ARGUMENT-VALUE",
        )
    return character


def column_type(text: str, *, argument: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type name."""
    name = text.strip().lower()
    decimal = re.fullmatch(r"(?:decimal|numeric)\s*(?:\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\))?", name)
    if decimal:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if not (1 <= precision <= _DIGITS_MAX and scale <= precision):
            raise SpecError(
                f"{argument} {text!r} is not a valid decimal. Expected 1 to {_DIGITS_MAX} digits, and at most as many "
                "after the point, such as decimal(30, 2).",
                name="JN-TYPE-NAME",
            )
        return pa.decimal128(precision, scale)
    if name not in _TYPES:
        raise SpecError(
            f"{argument} {text!r} is not a type. Expected one of {', '.join(_TYPES)}, decimal(30, 0).",
            name="JN-TYPE-NAME",
        )
    return _TYPES[name]


def column_types(texts: Sequence[str] | None, *, argument: str) -> dict[str, pa.DataType]:
    """Parse column types in the form ``COLUMN=TYPE``; the last ``=`` separates them."""
    types: dict[str, pa.DataType] = {}
    for text in texts or ():
        # Column names may contain an equals sign, types do not.
        column, _, name = text.rpartition("=")
        if not column:
            raise SpecError(
                f"{argument} {text!r} is not a column and a type. Expected COLUMN=TYPE, such as id=decimal(30,0).",
                name="JN-ARGUMENT-VALUE",
            )
        if column in types:
            raise SpecError(
                f"{argument} {column!r} has two types. Expected one type per column.", name="JN-ARGUMENT-VALUE"
            )
        types[column] = column_type(name, argument=argument)
    return types
