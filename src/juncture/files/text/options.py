"""How text is to be read: what a user says of it beside its format."""

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
    """How text is to be read.

    Attributes
    ----------
    nulls
        What stands for null in CSV, beside an empty field without quotes.
    delimiter
        The character between two fields of CSV.
    has_header
        Whether the first line of CSV names the columns, which are ``f0``, ``f1`` and so on otherwise.
    types
        The types of columns that are not to be found out.
    is_all_text
        Whether columns of CSV are text where no type is given.
    found
        Columns whose types are found out all the same.
    """

    nulls: Sequence[str] = ()
    delimiter: str = ","
    has_header: bool = True
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    is_all_text: bool = False
    found: frozenset[str] = frozenset()


def column_type(text: str, *, argument: str) -> pa.DataType:
    """Return the type that a name of Spark's SQL stands for.

    Raises
    ------
    SpecError
        If there is none of that name.

    Examples
    --------
    >>> column_type("decimal(30, 0)", argument="--type")
    Decimal128Type(decimal128(30, 0))
    >>> column_type("bigint", argument="--type")
    DataType(int64)
    """
    name = text.strip().lower()
    found = re.fullmatch(r"(?:decimal|numeric)\s*(?:\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\))?", name)
    if found:
        precision, scale = int(found[1] or 10), int(found[2] or 0)
        if not (1 <= precision <= _DIGITS_MAX and scale <= precision):
            raise SpecError(f"{argument} {text!r} does not exist: a decimal has 1 to {_DIGITS_MAX} digits in all.")
        return pa.decimal128(precision, scale)
    if name not in _TYPES:
        raise SpecError(f"{argument} {text!r} is no type. Expected one of {', '.join(_TYPES)}, decimal(30, 0).")
    return _TYPES[name]


def column_types(texts: Sequence[str] | None, *, argument: str) -> dict[str, pa.DataType]:
    """Return the types of columns that were given as ``COLUMN=TYPE``.

    Raises
    ------
    SpecError
        If one of them has another form, or a column has two types.

    Examples
    --------
    >>> column_types(["id=string", "a=b=double"], argument="--type")
    {'id': DataType(string), 'a=b': DataType(double)}
    """
    found: dict[str, pa.DataType] = {}
    for text in texts or ():
        # Types have no equals sign, columns may.
        column, _, name = text.rpartition("=")
        if not column:
            raise SpecError(f"{argument} {text!r} names no column and type. Expected something like id=decimal(30,0).")
        if column in found:
            raise SpecError(f"{argument} names {column!r} twice. Give it one type.")
        found[column] = column_type(name, argument=argument)
    return found
