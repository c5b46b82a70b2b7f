"""The type of a text column, combined from the types of its slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import TIME_UNITS
from juncture.errors import DataError
from juncture.files.text.numbers import Numbers

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
    known = dict(before)
    for name, found in new.items():
        old = known.get(name, found)
        if len({_json_kind(old), _json_kind(found)} - {"null"}) > 1:
            raise DataError(
                f"{path} has {_type(found)} values in column {name!r}, which has {_type(old)} values "
                "before. Expected values of one type, or null. Write the values in one type.",
                name="JN-FILE-COLUMNS",
            )
        known[name] = _common(old, found)
    return known


def schema_of(found: Mapping[str, ColumnType], text_format: TextFormat, paths: Sequence[Path]) -> pa.Schema:
    """Return the schema of a table, after all slices."""
    for name, each in found.items():
        if text_format == "json" and isinstance(each, Numbers) and pat.is_string(each.type):
            raise DataError(
                f"{paths[0]} has numbers in column {name!r} that no type represents exactly. Write "
                f"them as text, in quotes, or set a type: --type '{name}=double'.",
                name="JN-NUMBER-PRECISION",
            )
    return pa.schema([(name, _type(each)) for name, each in found.items()])


def as_text(schema: pa.Schema) -> pa.Schema:
    """Return a schema with text in place of the null type, for columns without values."""
    return pa.schema([each.with_type(pa.string()) if pat.is_null(each.type) else each for each in schema])


def _type(found: ColumnType) -> pa.DataType:
    return found.type if isinstance(found, Numbers) else found


def _json_kind(found: ColumnType) -> str:
    """Return the JSON kind of a type. Unlike CSV, JSON distinguishes numbers from text."""
    if isinstance(found, Numbers) or pat.is_decimal(found):
        return "number"
    if pat.is_nested(found):
        return "list" if pat.is_list(found) else "object"
    if pat.is_boolean(found) or pat.is_null(found):
        return str(found)
    return "number" if pat.is_integer(found) or pat.is_floating(found) else "text"


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
