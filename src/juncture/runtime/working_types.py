"""Working types of an in-process join: inputs are converted to them when read, and the output back.

Arrow lacks operations for some types: it selects no rows of views and runs, joins no list views, counts neither half
floats nor short decimals, supports less within lists and structs, and miscounts untyped nulls. So views become strings
and binary, list views lists, numbers wider, and runs and dictionaries of or within nested values are decoded. A
compared column of the null type has the type of the resolved join (see `juncture.spec.schema`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import in_halves, with_fields
from juncture.columnar.conversion import converted, converted_columns, with_types
from juncture.columnar.types import is_null_type
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import SameRows, Source, TableSource
from juncture.spec.resolved import Resolved

Join = TypeVar("Join", bound=Resolved)


_DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id
_WORKING = {
    each.id
    for each in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.decimal128(1), pa.decimal256(1), pa.date32(), pa.date64(), pa.time32("s")),
        *(pa.time64("us"), pa.timestamp("s"), pa.duration("s"), pa.string(), pa.large_string(), pa.binary()),
        *(pa.large_binary(), pa.binary(1)),
    )
}
"""The types that are working types, whatever their parameters."""


def working_type(data_type: pa.DataType, *, nested: bool = False) -> pa.DataType:
    """Return the working type of a type. Within other types, set `nested`: dictionaries are decoded there."""
    if data_type.id in _WORKING:
        return data_type
    if is_null_type(data_type):
        return pa.int8() if nested else pa.null()
    if pat.is_dictionary(data_type):
        values = working_type(data_type.value_type, nested=True)
        # Arrow cannot encode nested values as dictionaries.
        if nested or pat.is_nested(values):
            return values
        return pa.dictionary(data_type.index_type, values, data_type.ordered)
    if pat.is_run_end_encoded(data_type):
        return working_type(data_type.value_type, nested=True)
    if isinstance(data_type, pa.BaseExtensionType):
        return working_type(data_type.storage_type, nested=nested)
    if pat.is_float16(data_type):
        return pa.float32()
    if pat.is_decimal32(data_type) or pat.is_decimal64(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    if pat.is_string_view(data_type):
        return pa.large_string()
    if pat.is_binary_view(data_type):
        return pa.large_binary()
    return with_fields(data_type, lambda field: field.with_type(working_type(field.type, nested=True)))


def working(join: Join, left: Source, right: Source) -> tuple[Join, Source, Source]:
    """Return a join and its sides in working types."""
    join = working_join(join)
    is_plain = _WORKING.issuperset(join.type_ids)
    left, right = (
        source if is_plain and source.schema.equals(schema) else working_source(source, schema)
        for source, schema in ((left, join.left_schema), (right, join.right_schema))
    )
    return join, left, right


def working_join(join: Join) -> Join:
    """Return a join in working types."""
    if _WORKING.issuperset(join.type_ids) and not join.aggregates:
        return join
    left, right = (
        pa.schema([field.with_type(working_type(field.type)) for field in schema], schema.metadata)
        for schema in (join.left_schema, join.right_schema)
    )
    aggregates = tuple(replace(each, type=working_type(each.type)) for each in join.aggregates)
    return replace(join, left_schema=left, right_schema=right, aggregates=aggregates)


def working_source(source: Source, schema: pa.Schema) -> Source:
    """Return a source in working types, with columns of the null type in the types of a schema.

    Nulls are in the indices of dictionaries, not in their values.
    """
    if _WORKING.issuperset([data_type.id for data_type in source.schema.types]):
        return source
    types = {}
    for field in source.schema:
        is_typed = is_null_type(field.type) and field.name in schema.names
        wanted = schema.field(field.name).type if is_typed else working_type(field.type)
        if wanted != field.type or _may_have_null_values(source, field):
            types[field.name] = wanted
    if not types:
        return source
    return source.converted(types) if isinstance(source, ParquetSource) else _ConvertedSource(source, types)


def _may_have_null_values(source: Source, field: pa.Field) -> bool:
    """Return whether dictionaries of a column may contain null values; those of files do not."""
    if not pat.is_dictionary(field.type) or isinstance(source, ParquetSource):
        return False
    if isinstance(source, TableSource):
        return any(chunk.dictionary.null_count for chunk in source.table.column(field.name).chunks)
    return True


class _ConvertedSource(SameRows):
    def __init__(self, source: Source, types: Mapping[str, pa.DataType]) -> None:
        super().__init__(source)
        self.schema = with_types(source.schema, types)
        self._types = types

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        for batch in self._source.read(part, columns, coded):
            yield converted_columns(batch, self._types)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the estimated size of columns before conversion."""
        return self._source.bytes_of(columns)

    def nulls(self, column: str, /) -> int | None:
        """Return the number of nulls in a column if known without reading, else None."""
        return self._source.nulls(column)


def restore_types(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join in its output types. Batches that do not fit a type are split."""
    may_have_null_values = _DICTIONARY in [data_type.id for data_type in schema.types]

    def fitted(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(schema, check_metadata=True) and not may_have_null_values:
            return batch
        columns = [converted(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch

    for batch in batches:
        yield from in_halves(batch, fitted)
