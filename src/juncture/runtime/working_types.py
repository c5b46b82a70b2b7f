"""The types that an in-process join works in: inputs are brought to them as they are read, and the output back.

Arrow takes no rows of views and of runs, joins no list views, counts neither half floats nor short decimals, and within
lists and structs has fewer ways yet, and loses count of nulls without a type. So a join sees none of these. Views are
strings and binary, list views are lists, numbers are wider, and what is encoded by runs, or by a dictionary of nested
values or within them, is decoded. A column of the null type has the type that the resolved join gives it, if it is
compared (see `juncture.spec.nulls`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import with_fields
from juncture.columnar.conversion import converted, converted_columns, with_types
from juncture.runtime.sources import ParquetSource, Source, TableSource
from juncture.spec.resolved import Resolved
from juncture.spec.schema import is_null_type

Join = TypeVar("Join", bound=Resolved)


def working_type(data_type: pa.DataType, *, nested: bool = False) -> pa.DataType:
    """Return the type that a join works in.

    Parameters
    ----------
    data_type
        The type of a column, or of values within one.
    nested
        Whether it is within another, where dictionaries are not kept.

    Examples
    --------
    >>> working_type(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: large_string>)
    """
    if is_null_type(data_type):
        return pa.int8() if nested else pa.null()
    if pat.is_dictionary(data_type):
        values = working_type(data_type.value_type, nested=True)
        # Arrow makes no dictionaries of nested values.
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


def in_working_types(run: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return what runs a join of inputs of any types, given what runs it in these.

    Parameters
    ----------
    run
        Takes the join and its two sides, and whatever else it needs.
    """

    def execute(join: Resolved, left: Source, right: Source, *others: Any) -> Iterator[pa.RecordBatch]:
        yield from given_back(run(*working(join, left, right), *others), join.given_back(left.schema, right.schema))

    return execute


def working(join: Join, left: Source, right: Source) -> tuple[Join, Source, Source]:
    """Return a join and its two sides in these types."""
    join = working_join(join)
    return join, working_source(left, join.left_schema), working_source(right, join.right_schema)


def working_join(join: Join) -> Join:
    """Return a join that works in these types."""
    left, right = (_working_schema(schema) for schema in (join.left_schema, join.right_schema))
    aggregates = tuple(replace(each, type=working_type(each.type)) for each in join.aggregates)
    return replace(join, left_schema=left, right_schema=right, aggregates=aggregates)


def _working_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(working_type(field.type)) for field in schema], schema.metadata)


def working_source(source: Source, schema: pa.Schema) -> Source:
    """Return a source whose columns are in working types, those of the null type in the types of a schema.

    Nor is there null in a dictionary, but in its indices.
    """
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
    """Return whether there may be null among the values of a column's dictionaries; files have none."""
    if not pat.is_dictionary(field.type) or isinstance(source, ParquetSource):
        return False
    if isinstance(source, TableSource):
        return any(chunk.dictionary.null_count for chunk in source.table.column(field.name).chunks)
    return True


class _ConvertedSource(Source):
    """A source that reads some columns in other types."""

    def __init__(self, source: Source, types: Mapping[str, pa.DataType]) -> None:
        self.schema = with_types(source.schema, types)
        self.part_rows = source.part_rows
        self._source = source
        self._types = types

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        for batch in self._source.read(part, columns, coded):
            yield converted_columns(batch, self._types)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take before they are converted."""
        return self._source.bytes_of(columns)

    def nulls(self, column: str, /) -> int | None:
        """Return how many values of a column are null, if that is known without reading it."""
        return self._source.nulls(column)


def given_back(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join in the types that its output has to have.

    Parameters
    ----------
    batches
        The rows.
    schema
        Of the output. Where its types are too narrow for the rows of a batch, these are divided among several.
    """
    for batch in batches:
        yield from _fitted(batch, schema)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        columns = [converted(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except pa.ArrowException:
        if batch.num_rows < 2:
            raise
        middle = batch.num_rows // 2
        yield from _fitted(batch.slice(0, middle), schema)
        yield from _fitted(batch.slice(middle), schema)
        return
    yield pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch
