"""Sources that have the columns that a join makes of their own, computed as rows are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from typing import Any, Self

import pyarrow as pa

from juncture.columnar.arrays import days, plain
from juncture.columnar.conversion import converted
from juncture.errors import DataError
from juncture.kernels.array_types import Ints
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.nodes import Node
from juncture.predicate.language.nodes import columns as columns_of
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source
from juncture.runtime.working_types import working_type
from juncture.spec.computed import computed_columns, expression_of, parsed, parts_of, stands_for
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side, is_fixed, is_null_type

_VALUE_BYTES = 16


def with_computed(source: Source, join: Resolved, side: Side) -> Source:
    """Return a source with all columns that a join compares."""
    made = computed_columns(join.left_schema if side == "left" else join.right_schema)
    fields = [field for field in made if field.name not in source.schema.names]
    return ComputedSource(source, fields, side) if fields else source


def computing(run: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return what runs a join of tables of their own columns, given what runs it of all that it compares.

    Parameters
    ----------
    run
        Takes the join and its two sides, and whatever else it needs.
    """

    def execute(join: Resolved, left: Source, right: Source, *others: Any) -> Iterator[pa.RecordBatch]:
        yield from run(join, with_computed(left, join, "left"), with_computed(right, join, "right"), *others)

    return execute


class ComputedSource(Source):
    """A source with columns that are made of its own.

    Parameters
    ----------
    source, side
        The source, and which side of the join it is.
    fields
        The columns to make.
    """

    def __init__(self, source: Source, fields: Sequence[pa.Field], side: Side) -> None:
        self.schema = source.schema
        for field in fields:
            self.schema = self.schema.append(field)
        self.part_rows = source.part_rows
        self._source, self._side = source, side
        self._fields = {field.name: field for field in fields}
        self._nodes: dict[str, Node] = {
            field.name: parsed(text, source.schema, side)
            for field in fields
            if (text := expression_of(field)) is not None
        }

    def _made_of(self, name: str) -> list[str]:
        """Return the source's own columns that a column is, or is made of."""
        if name not in self._fields:
            return [name]
        if name in self._nodes:
            return [column.name for column in columns_of(self._nodes[name])]
        if parts := parts_of(self._fields[name]):
            return [own for part in parts for own in self._made_of(part)]
        return self._made_of(str(stands_for(self._fields[name])))

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if self._fields.keys().isdisjoint(columns):
            yield from self._source.read(part, columns, coded)
            return
        wanted = list(dict.fromkeys(own for name in columns for own in self._made_of(name)))
        # Without columns the rows could not be counted.
        wanted = wanted or self._source.schema.names[:1]
        schema = pa.schema([self.schema.field(name) for name in columns])
        for batch in self._source.read(part, wanted, [name for name in coded if name in columns]):
            working = pa.record_batch(
                [converted(array, working_type(array.type)) for array in batch.columns], names=batch.schema.names
            )
            arrays = [self._column(working, name) if name in self._fields else batch.column(name) for name in columns]
            fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name not in self._fields:
            return batch.column(name)
        if name in self._nodes:
            return evaluate(self._nodes[name], **{self._side: batch})
        data_type = self._fields[name].type
        if parts := parts_of(self._fields[name]):
            arrays = [
                pa.nulls(batch.num_rows, field.type) if is_null_type(array.type) else plain(array)
                for field, array in zip(data_type, (self._column(batch, part) for part in parts), strict=True)
            ]
            return pa.StructArray.from_arrays(arrays, [field.name for field in data_type])
        own = str(stands_for(self._fields[name]))
        array = plain(self._column(batch, own))
        try:
            return _dates(array) if pa.types.is_date64(array.type) else array.cast(data_type)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"The {self._side} column {own!r} ({array.type}) has a value that does not fit in {data_type}, to "
                f"which the columns of both tables are converted: {error}. Cast both columns to a type that has all "
                "values.",
                name="JN-VALUE-RANGE",
            ) from error

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take in memory."""
        own = [name for name in columns if name not in self._fields]
        made = [self._fields[name] for name in columns if name in self._fields]
        widths = [(field.type.bit_width + 7) // 8 if is_fixed(field.type) else _VALUE_BYTES for field in made]
        return (self._source.bytes_of(own) if own else 0) + sum(widths) * self.num_rows

    def within(self, memory: MemoryBudget, /) -> Self:
        """Return the same rows in batches that suit what may be held."""
        other = copy(self)
        other._source = self._source.within(memory)
        return other

    def extent(self, part: int, column: str, /) -> pa.Array | None:
        """Return the least and the greatest value of a column in a part, if that is known without reading it."""
        return None if column in self._fields else self._source.extent(part, column)

    def row_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of rows in the whole table."""
        return self._source.row_numbers(rows)

    def nulls(self, column: str, /) -> int | None:
        """Return how many values of a column are null, if that is known without reading it."""
        return None if column in self._fields else self._source.nulls(column)

    def is_declared_sorted(self, column: str, /) -> bool:
        """Return whether the writer of the rows declared that they ascend by a column."""
        return column not in self._fields and self._source.is_declared_sorted(column)


def _dates(array: pa.Array) -> pa.Array:
    """Return 64-bit dates as 32-bit ones, whatever time of day they have."""
    return pa.array(days(array), pa.int32(), mask=array.is_null().to_numpy(zero_copy_only=False)).cast(pa.date32())
