"""Tables of this process as Arrow: in memory, or batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import innermost, raw_values, validity
from juncture.errors import DataError, SchemaError, SpecError
from juncture.inputs.files import is_from
from juncture.inputs.frames import ROW_NUMBER, Frame
from juncture.inputs.kinds import ACCEPTED, type_name
from juncture.spec.schema import Side

_READ_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}
"""Batches of a dataset that are read ahead: fewer than Arrow's default, because memory is limited."""


def unchanged(answer: Any) -> Any:
    """Return a result as it is."""
    return answer


@dataclass(frozen=True, kw_only=True)
class InputTable:
    """An input table as Arrow. The rows of a table without columns have a `ROW_NUMBER`, which is not in `schema`."""

    schema: pa.Schema
    table: pa.Table | None = None  # the rows, in memory
    batches: Callable[[], Iterator[pa.RecordBatch]] | None = None  # otherwise, yields the rows
    is_stream: bool = False  # whether rows can be read only once
    frame: Frame | None = None  # the table of a library that selects its own rows
    restore: Callable[[Any], Any] = unchanged  # converts a result to the input's own type: a lazy table, or a relation


def read_table(table: Any, side: Side) -> InputTable:
    """Return an in-process input as Arrow. Of an iterable, the first batch is read for its schema."""
    if isinstance(table, pa.Table):
        return _of_table(table)
    if is_from(table, "pandas", "DataFrame"):
        from juncture.inputs.pandas import PandasFrame

        return _of_frame(PandasFrame(table, side))
    if is_from(table, "polars", "LazyFrame"):
        return replace(read_table(table.collect(), side), restore=methodcaller("lazy"))
    if is_from(table, "polars", "DataFrame"):
        from juncture.inputs.polars import PolarsFrame

        return _of_frame(PolarsFrame(table, side))
    if isinstance(table, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([table]))
    if is_from(table, "duckdb", "DuckDBPyRelation"):
        # Streaming would block the connection, which the other table may use, too.
        return replace(_of_table(table.to_arrow_table()), restore=AsRelation(table))
    if is_from(table, "pyarrow.dataset", "Dataset"):
        return of_batches(table.schema, lambda: _scanned(table, side), is_stream=False)
    if is_from(table, "pyarrow.dataset", "Scanner"):
        table = table.to_reader()
    elif hasattr(table, "__arrow_c_stream__") and not isinstance(table, pa.RecordBatchReader):
        table = _stream(table, side)
    if isinstance(table, pa.RecordBatchReader):
        return of_batches(table.schema, lambda: iter(table), is_stream=True)
    return _of_iterable(iter(table), side)


def _stream(table: Any, side: Side) -> pa.RecordBatchReader:
    """Return an object with Arrow's stream interface as a reader of batches."""
    try:
        return pa.RecordBatchReader.from_stream(table)
    except pa.ArrowInvalid as error:
        raise SpecError(
            f"The {side} table is a {type_name(table)}, which is not a table: {error}. {ACCEPTED}", name="JN-INPUT-KIND"
        ) from error


def _of_frame(frame: Frame) -> InputTable:
    return replace(_of_table(frame.table), frame=frame)


def _of_table(table: pa.Table) -> InputTable:
    """Return a table. Without columns, it gets row numbers."""
    if table.schema.names:
        return InputTable(schema=table.schema, table=table)
    numbered = table.append_column(ROW_NUMBER, pa.array(np.arange(table.num_rows)))
    return InputTable(schema=table.schema, table=numbered)


def of_batches(schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], *, is_stream: bool) -> InputTable:
    """Return a stream. Without columns, it gets row numbers."""
    if schema.names:
        return InputTable(schema=schema, batches=batches, is_stream=is_stream)

    def numbered() -> Iterator[pa.RecordBatch]:
        for batch in batches():
            yield pa.RecordBatch.from_arrays([pa.array(np.arange(batch.num_rows))], names=[ROW_NUMBER])

    return InputTable(schema=schema, batches=numbered, is_stream=is_stream)


def _scanned(dataset: Any, side: Side) -> Iterator[pa.RecordBatch]:
    try:
        yield from dataset.scanner(**_READ_AHEAD).to_reader()
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"The {side} table is a dataset that cannot be read: {error}", name="JN-FILE-DAMAGED"
        ) from error


def _of_iterable(batches: Iterator[Any], side: Side) -> InputTable:
    """Return a stream of record batches with the schema of the first one."""
    first = next(batches, None)
    if not isinstance(first, pa.RecordBatch):
        got = "missing, so its columns are unknown" if first is None else f"a {type_name(first)}"
        raise SpecError(f"The {side} table is an iterable whose first item is {got}. {ACCEPTED}", name="JN-INPUT-KIND")
    schema = first.schema

    def checked() -> Iterator[pa.RecordBatch]:
        yield first
        yield from _checked(batches, schema, side)

    return of_batches(schema, checked, is_stream=True)


def _checked(batches: Iterable[Any], schema: pa.Schema, side: Side) -> Iterator[pa.RecordBatch]:
    """Yield batches, and raise if one has another schema."""
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise SpecError(
                f"The {side} table is an iterable that also contains a {type_name(batch)}. {ACCEPTED}",
                name="JN-INPUT-KIND",
            )
        if batch.schema.names != schema.names or batch.schema.types != schema.types:
            raise SchemaError(
                f"The {side} table is an iterable of batches with different columns: {columns_text(batch.schema)} "
                f"after {columns_text(schema)}. Cast all batches to one schema.",
                name="JN-INPUT-SCHEMA",
            )
        yield batch


def columns_text(schema: pa.Schema) -> str:
    """Return the columns of a schema with their types, for messages."""
    return ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"


@dataclass(frozen=True)
class AsRelation:
    """Converts tables to relations on the connection of `beside`; without one (in another process), to Arrow."""

    beside: Any

    def __call__(self, joined: pa.Table) -> Any:
        """Return a table as a relation."""
        if self.beside is None or not joined.schema.names:
            return joined
        for name, column in zip(joined.column_names, joined.columns, strict=True):
            if _has_nested_runs(column.type):
                raise _unreadable(f"column {name!r} has type {column.type}, with runs of nested values")
            for chunk in column.chunks:
                for part in innermost(chunk):
                    _check_values(part, name)
        joined = _without_offsets(joined)
        try:
            # DuckDB finds the table by the name of this local variable.
            return self.beside.query("juncture_joined", "SELECT * FROM joined")
        except sys.modules["duckdb"].Error as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise _unreadable(reason) from error

    def __reduce__(self) -> tuple[type[AsRelation], tuple[None]]:
        return AsRelation, (None,)


def _unreadable(reason: str) -> SchemaError:
    return SchemaError(
        f"The result cannot be read by DuckDB, the library of the left table: {reason}. Cast or drop that column, or "
        "pass the left table as Arrow, with .to_arrow_table().",
        name="JN-LIBRARY-TYPE",
    )


def _has_nested_runs(data_type: pa.DataType) -> bool:
    """Return whether a type has runs of nested values, for which DuckDB fails inside, some only when it reads them."""
    if pat.is_run_end_encoded(data_type):
        return bool(pat.is_nested(data_type.value_type))
    return any(_has_nested_runs(data_type.field(index).type) for index in range(data_type.num_fields))


def _without_offsets(table: pa.Table) -> pa.Table:
    """Return a table whose nested arrays start at their first value: DuckDB reads no others below another array."""
    for index, field in enumerate(table.schema):
        if any(pat.is_nested(field.type.field(child).type) for child in range(field.type.num_fields)):
            # Arrow's stream format has no offsets.
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, pa.schema([field])) as writer:
                writer.write_table(table.select([index]))
            table = table.set_column(index, field, pa.ipc.open_stream(sink.getvalue()).read_all().column(0))
    return table


_DATES_MOST = 2**31 - 2  # the greatest number of days of a date in DuckDB, besides its infinity


def _check_values(array: pa.Array, name: str) -> None:
    """Refuse values that DuckDB would truncate: durations finer than microseconds, and dates beyond its own."""
    data_type = array.type
    if pat.is_date64(data_type):
        days, valid = raw_values(array, np.int64) // 86_400_000, validity(array)
        is_beyond = abs(days) > _DATES_MOST
        if (is_beyond if valid is None else is_beyond & valid).any():
            raise DataError(
                f"The column {name!r} of type {data_type} has dates beyond those of DuckDB, the library of the left "
                "table. Drop it, or pass the left table as Arrow, with .to_arrow_table().",
                name="JN-LIBRARY-VALUE",
            )
        return
    if pat.is_duration(data_type) and data_type.unit == "ns":
        nanoseconds = raw_values(array, np.int64)
    elif pat.is_interval(data_type):
        # Months and days are the first 64 bits.
        nanoseconds = raw_values(array, np.int64)[:, 1]
    else:
        return
    is_finer, valid = nanoseconds % 1_000 != 0, validity(array)
    if (is_finer if valid is None else is_finer & valid).any():
        raise DataError(
            f"The column {name!r} of type {data_type} has values finer than microseconds, the unit of intervals in "
            "DuckDB, the library of the left table. Round or drop it, or pass the left table as Arrow, with "
            ".to_arrow_table().",
            name="JN-LIBRARY-VALUE",
        )
