"""The type of a column, put together from what each slice of it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.files.text.numbers import Numbers
from juncture.spec.schema import TIME_UNITS

TextFormat = Literal["csv", "json"]

Found: TypeAlias = pa.DataType | Numbers
"""What is known of a column: a type, or what its numbers need."""


def joined(
    ours: Mapping[str, Found], theirs: Mapping[str, Found], text_format: TextFormat, path: Path
) -> dict[str, Found]:
    """Return what is known of each column after one more slice. JSON may leave columns out; CSV names them all.

    Raises
    ------
    DataError
        If the slice has other columns, or values that have no type in common with those before.
    """
    if text_format == "csv":
        if list(ours) != list(theirs):
            raise DataError(
                f"{path} has the columns {', '.join(theirs)}, where the files before it have {', '.join(ours)}. Files "
                "that are read as one table need the same header."
            )
        return {name: _common(ours[name], theirs[name]) for name in ours}
    known = dict(ours)
    for name, found in theirs.items():
        old = known.get(name, found)
        if len({_json_kind(old), _json_kind(found)} - {"null"}) > 1:
            raise DataError(
                f"{path} has values of type {_type(found)} in the column {name!r}, which held {_type(old)} before. A "
                "column needs values of one type, or null."
            )
        known[name] = _common(old, found)
    return known


def schema_of(found: Mapping[str, Found], text_format: TextFormat, paths: Sequence[Path]) -> pa.Schema:
    """Return the schema of a table, after all slices.

    Raises
    ------
    DataError
        If numbers of JSON have no type that holds them all.
    """
    for name, each in found.items():
        if text_format == "json" and isinstance(each, Numbers) and pat.is_string(each.type):
            raise DataError(
                f"{paths[0]} has numbers in the column {name!r} that no type holds without a change. Write them as "
                f"text, in quotes, or say which type is meant: --type '{name}=double'."
            )
    return pa.schema([(name, _type(each)) for name, each in found.items()])


def as_text(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns without a value, which have no type, are text."""
    return pa.schema([each.with_type(pa.string()) if pat.is_null(each.type) else each for each in schema])


def _type(found: Found) -> pa.DataType:
    return found.type if isinstance(found, Numbers) else found


def _json_kind(found: Found) -> str:
    """Return what JSON itself would call values of a type: unlike CSV, it tells numbers from text."""
    if isinstance(found, Numbers) or pat.is_decimal(found):
        return "number"
    if pat.is_nested(found):
        return "list" if pat.is_list(found) else "object"
    if pat.is_boolean(found) or pat.is_null(found):
        return str(found)
    return "number" if pat.is_integer(found) or pat.is_floating(found) else "text"


def _common(ours: Found, theirs: Found) -> Found:
    """Return what is known of the values of both, which are text if nothing else holds them."""
    if isinstance(ours, Numbers) and isinstance(theirs, Numbers):
        return ours | theirs
    if isinstance(ours, Numbers) or isinstance(theirs, Numbers):
        other = theirs if isinstance(ours, Numbers) else ours
        return (ours if other is theirs else theirs) if pat.is_null(other) else pa.string()
    return _common_type(ours, theirs)


def _common_type(ours: pa.DataType, theirs: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds the values of both, which is text if nothing else does."""
    if ours == theirs or pat.is_null(theirs):
        return ours
    if pat.is_null(ours):
        return theirs
    if {ours, theirs} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pat.is_date(theirs):
        ours, theirs = theirs, ours
    if pat.is_date(ours) and pat.is_timestamp(theirs) and theirs.tz is None:
        return theirs
    if pat.is_timestamp(ours) and pat.is_timestamp(theirs) and ours.tz == theirs.tz:
        return max(ours, theirs, key=lambda data_type: TIME_UNITS.index(data_type.unit))
    if pat.is_nested(ours):
        fields = (pa.schema([pa.field("", data_type)]) for data_type in (ours, theirs))
        return pa.unify_schemas(list(fields), promote_options="permissive").field(0).type
    return pa.string()
