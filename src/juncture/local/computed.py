"""Sources that have the columns that a join makes of their own, computed as rows are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from typing import Self

import pyarrow as pa

from juncture.columnar.arrays import days, plain
from juncture.columnar.conversion import converted
from juncture.columnar.types import is_fixed, is_null_type
from juncture.errors import DataError
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import SameRows, Source
from juncture.runtime.working_types import working_type
from juncture.spec.compared import Column, Compared, Conversion, Expression
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

_VALUE_BYTES = 16


def with_computed(source: Source, join: Resolved, side: Side) -> Source:
    """Return a source with all columns that a join compares."""
    if not (join.left_computed if side == "left" else join.right_computed):
        return source
    values = [value for value in join.computed(side) if value.name not in source.schema.names]
    return ComputedSource(source, values, join.schema(side), side) if values else source


class ComputedSource(SameRows):
    """A source with further columns that are computed from its own."""

    def __init__(self, source: Source, values: Sequence[Compared], schema: pa.Schema, side: Side) -> None:
        super().__init__(source)
        self.schema = source.schema
        for value in values:
            self.schema = self.schema.append(schema.field(value.name))
        self._side = side
        self._values = {value.name: value for value in values}

    def read(self, part: int, columns: Sequence[str], coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if self._values.keys().isdisjoint(columns):
            yield from self._source.read(part, columns, coded)
            return
        values = [self._values.get(name, Column(name)) for name in columns]
        wanted = list(dict.fromkeys(column for value in values for column in value.columns))
        # Without columns the rows could not be counted.
        wanted = wanted or self._source.schema.names[:1]
        schema = pa.schema([self.schema.field(name) for name in columns])
        for batch in self._source.read(part, wanted, [name for name in coded if name in columns]):
            working = pa.record_batch(
                [converted(array, working_type(array.type)) for array in batch.columns], names=batch.schema.names
            )
            arrays = [
                batch.column(value.name) if isinstance(value, Column) else self._array(working, value)
                for value in values
            ]
            fields = [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _array(self, batch: pa.RecordBatch, value: Compared) -> pa.Array:
        if isinstance(value, Column):
            return batch.column(value.name)
        if isinstance(value, Expression):
            return evaluate(value.node, **{self._side: batch})
        data_type = self.schema.field(value.name).type
        if not isinstance(value, Conversion):
            arrays = [
                pa.nulls(batch.num_rows, field.type) if is_null_type(array.type) else plain(array)
                for field, array in zip(data_type, (self._array(batch, part) for part in value.parts), strict=True)
            ]
            return pa.StructArray.from_arrays(arrays, [field.name for field in data_type])
        array = plain(self._array(batch, value.of[0]))
        try:
            return _dates(array) if pa.types.is_date64(array.type) else array.cast(data_type)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"The {self._side} column {value.of[0].name!r} ({array.type}) has a value that does not fit in "
                f"{data_type}, to which the columns of both tables are converted: {error}. Cast both columns to a "
                "type that has all values.",
                name="JN-VALUE-RANGE",
            ) from error

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take in memory."""
        stored = [name for name in columns if name not in self._values]
        computed = [self.schema.field(name) for name in columns if name in self._values]
        widths = [(field.type.bit_width + 7) // 8 if is_fixed(field.type) else _VALUE_BYTES for field in computed]
        return (self._source.bytes_of(stored) if stored else 0) + sum(widths) * self.num_rows

    def within(self, memory: MemoryBudget, /) -> Self:
        """Return the same rows in batches that suit what may be held."""
        other = copy(self)
        other._source = self._source.within(memory)
        return other

    def extent(self, part: int, column: str, /) -> pa.Array | None:
        """Return the least and the greatest value of a column in a part, if that is known without reading it."""
        return None if column in self._values else self._source.extent(part, column)

    def nulls(self, column: str, /) -> int | None:
        """Return how many values of a column are null, if that is known without reading it."""
        return None if column in self._values else self._source.nulls(column)

    def is_declared_sorted(self, column: str, /) -> bool:
        """Return whether the writer of the rows declared that they ascend by a column."""
        return column not in self._values and self._source.is_declared_sorted(column)

    def has_descent(self, column: str, /) -> bool:
        """Return whether a column is known to descend from one part to the next."""
        return column not in self._values and self._source.has_descent(column)


def _dates(array: pa.Array) -> pa.Array:
    """Return 64-bit dates as 32-bit ones, whatever time of day they have."""
    return pa.array(days(array), pa.int32(), mask=array.is_null().to_numpy(zero_copy_only=False)).cast(pa.date32())
