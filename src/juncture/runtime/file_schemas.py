"""The schema that Parquet files of one table share: columns by name, with types that are equal in Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import with_fields
from juncture.columnar.types import plain_type
from juncture.errors import DataError
from juncture.runtime.paths import FoundFile

_WIDTHS = (
    ((pat.is_string, pat.is_large_string, pat.is_string_view), pa.string(), pa.large_string()),
    ((pat.is_binary, pat.is_large_binary, pat.is_binary_view), pa.binary(), pa.large_binary()),
    ((pat.is_date32, pat.is_date64), pa.date32(), pa.date32()),
)
"""Groups of types that are equal in Parquet, with their plain and their wide type."""

_LISTS = (pat.is_list, pat.is_large_list, pat.is_list_view, pat.is_large_list_view)


def joined_schema(
    files: Sequence[FoundFile], schemas: Sequence[pa.Schema], *, union_by_name: bool = False
) -> pa.Schema:
    """Return the schema of the rows of files, at least one, in the column order of the first file.

    With `union_by_name`, files may lack columns of other files.
    """
    alike: list[tuple[pa.Schema, list[str]]] = []
    for file, schema in zip(files, schemas, strict=True):
        same = next((paths for known, paths in alike if known.equals(schema)), None)
        if same is None:
            alike.append((schema, [file.path]))
        else:
            same.append(file.path)
    if len(alike) == 1:
        return schemas[0]
    differences, fields = list[str](), list[pa.Field]()
    for name in dict.fromkeys(name for schema, _ in alike for name in schema.names):
        there = [(schema.field(name), paths) for schema, paths in alike if name in schema.names]
        lacking = [path for schema, paths in alike if name not in schema.names for path in paths]
        if lacking and not union_by_name:
            [holder, *others] = [path for _, paths in there for path in paths]
            is_extra = not others and holder != files[0].path
            differences.append(
                f"column {name!r} exists only in {holder!r}"
                if is_extra
                else f"column {name!r} is missing in {lacking[0]!r}"
            )
        field, [first, *_] = there[0]
        for other, paths in there[1:]:
            common = common_type(field.type, other.type)
            if common is None:
                differences.append(f"column {name!r} is {other.type} in {paths[0]!r} and {field.type} in {first!r}")
                break
            field = field.with_type(common).with_nullable(field.nullable or other.nullable)
        fields.append(field.with_nullable(True) if lacking else field)
    if differences:
        raise DataError(
            f"The Parquet files of one table have different columns: {'; '.join(differences)}. Expected the same "
            "columns with the same types. Write or exclude a file, or pass juncture.Files(…, union_by_name=True) to "
            "fill missing columns with null.",
            name="JN-FILE-COLUMNS",
        )
    return pa.schema(fields, schemas[0].metadata)


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type for the values of two types that are equal in Parquet, or None.

    Such types differ only in Arrow's metadata in a file, which other libraries omit or write differently.

    Examples
    --------
    >>> common_type(pa.string(), pa.large_string())
    DataType(large_string)
    >>> common_type(pa.int32(), pa.int64())
    """
    if one == other:
        return one
    one, other = _nullable(plain_type(one)), _nullable(plain_type(other))
    if one == other:
        return one
    for kinds, narrow, wide in _WIDTHS:
        if _are(one, kinds) and _are(other, kinds):
            return wide if wide in (one, other) else narrow
    if pat.is_timestamp(one) and pat.is_timestamp(other) and one.unit == other.unit and one.tz and other.tz:
        return pa.timestamp(one.unit, "UTC")
    if pat.is_decimal(one) and pat.is_decimal(other) and (one.precision, one.scale) == (other.precision, other.scale):
        # Beyond 38 digits, there is only decimal256.
        return pa.decimal128(one.precision, one.scale)
    return _common_nested(one, other)


def _common_nested(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    one_parts, other_parts = _parts(one), _parts(other)
    if one.id != other.id and not (_are(one, _LISTS) and _are(other, _LISTS)):
        return None
    if not one_parts or [name for name, _ in one_parts] != [name for name, _ in other_parts]:
        return None
    if pat.is_fixed_size_list(one) and one.list_size != other.list_size:
        return None
    types = [common_type(left, right) for (_, left), (_, right) in zip(one_parts, other_parts, strict=True)]
    if any(each is None for each in types):
        return None
    wide = next((each for each in (one, other) if pat.is_large_list(each) or pat.is_large_list_view(each)), one)
    remaining = iter(types)
    return with_fields(wide, lambda field: field.with_type(next(remaining)))


def _parts(data_type: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the names and types of the parts of a nested type. Names of list items are ignored."""
    if pat.is_struct(data_type):
        return [(field.name, field.type) for field in data_type]
    if pat.is_map(data_type):
        return [("key", data_type.key_type), ("value", data_type.item_type)]
    return [("item", data_type.value_type)] if _are(data_type, (*_LISTS, pat.is_fixed_size_list)) else []


def _are(data_type: pa.DataType, kinds: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(is_kind(data_type) for is_kind in kinds)


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """Return a type that allows nulls at any depth."""
    return with_fields(data_type, lambda field: field.with_type(_nullable(field.type)).with_nullable(True))
