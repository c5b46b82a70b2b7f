"""How the rows of a join become a table of the left input's library.

Arrow tables come out of a join as they are. A library's own frame takes its rows itself, by number, so that
whatever Arrow has no type for comes back unchanged: the join then gives numbers of rows in place of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.kernels.array_types import Ints
from juncture.spec.resolved import Resolved
from juncture.spec.schema import OutputColumn, Side

Schemas = tuple[pa.Schema, pa.Schema]


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The rows of a join.

    Attributes
    ----------
    join
        The join.
    left
        The number of each row's left row; -1 where there is none.
    right
        That of its right row, if the right table is a frame of the same library.
    columns
        By their names in the output: aggregates, left columns that right rows without a match fill, and the right
        columns if there are no numbers for them.
    """

    join: Resolved
    left: Ints
    right: Ints | None
    columns: pa.Table


class Frame(Protocol):
    """A table of a library that takes its rows itself.

    Attributes
    ----------
    table
        The columns that a join may name, and last the number of each row.
    """

    table: pa.Table

    def joined(self, right: Any, rows: Joined) -> Any:
        """Return the rows of a join whose left table this is, as a table of the library.

        Parameters
        ----------
        right
            The right table, if it is one of the same library; else None.
        rows
            Which rows.

        Raises
        ------
        SchemaError
            If the library has no type for a column.
        DataError
            If a value has no place in the type of a column that it fills.
        """
        ...

    def beside(self, tables: list[Any]) -> Any:
        """Return tables of the library that have as many rows, beside one another."""
        ...


def without_runs(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose values are not encoded by runs, which no other library reads.

    Raises
    ------
    pyarrow.ArrowNotImplementedError
        If Arrow takes no rows of them.

    Examples
    --------
    >>> runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", "b"], pa.string_view()))
    >>> without_runs(pa.chunked_array([runs.slice(1)])).to_pylist()
    ['a', 'b']
    """
    if not pat.is_run_end_encoded(column.type):
        return column
    data_type = column.type.value_type
    data_type = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(data_type, data_type)
    chunks = []
    for chunk in column.chunks:
        places = np.arange(chunk.offset, chunk.offset + len(chunk))
        runs = np.searchsorted(chunk.run_ends.to_numpy(), places, side="right")
        chunks.append(chunk.values.cast(data_type).take(pa.array(runs)))
    return pa.chunked_array(chunks, data_type)


def free_name(taken: Collection[str], name: str) -> str:
    """Return a name that is not taken."""
    while name in taken:
        name += "_"
    return name


def with_numbers(join: Resolved, left: str | None, right: str | None) -> Resolved:
    """Return a join of tables that have the numbers of their rows in columns of these names."""
    schemas = {"left_schema": (join.left_schema, left), "right_schema": (join.right_schema, right)}
    numbered = {
        argument: schema.append(_number_field(number))
        for argument, (schema, number) in schemas.items()
        if number is not None
    }
    return replace(join, **numbered)


@dataclass(frozen=True)
class ArrowAnswer:
    """The answer as Arrow, with all that the fields of the inputs say.

    Attributes
    ----------
    run
        The join to run.
    schema
        Of the answer.
    """

    run: Resolved
    schema: pa.Schema

    @classmethod
    def of(cls, join: Resolved, given: Schemas, left_number: str | None, right_number: str | None) -> Self:
        """Return the answer of a join of tables of given schemas, that may have numbers of their rows besides."""
        schema = join.given_back(*given)
        run = with_numbers(join, left_number, right_number)
        if not schema.names:
            # Without columns the rows could not be counted.
            run = replace(run, output=(OutputColumn("row number", "left", run.left_schema.names[-1]),))
        return cls(run, schema)

    def table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return the rows of the join."""
        return pa.Table.from_batches(self.batches(batches), self.schema)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join."""
        for batch in batches:
            if self.schema.names:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
            else:
                yield batch.select([]).replace_schema_metadata(self.schema.metadata)


@dataclass(frozen=True)
class FrameAnswer:
    """The answer as a table of the left input's library.

    Attributes
    ----------
    join
        The join, as it was asked for.
    run
        The join to run: it gives numbers of rows.
    left, right
        The tables; right is None if it is of another library.
    schema
        Of its rows.
    fields
        Those of the columns that do not come by number.
    """

    join: Resolved
    run: Resolved
    left: Frame
    right: Frame | None
    schema: pa.Schema
    fields: pa.Schema

    @classmethod
    def of(cls, join: Resolved, given: Schemas, left: Frame, right: Frame | None, right_number: str | None) -> Self:
        """Return the answer of a join of a frame, and another table whose rows may have numbers, of given schemas.

        Raises
        ------
        SchemaError
            If the library has no type for a column.
        """
        theirs = right if type(right) is type(left) else None
        numbered = with_numbers(join, left.table.schema.names[-1], right_number)
        numbers = [_number(numbered, "left")]
        if theirs is not None and any(column.side == "right" for column in join.output):
            numbers.append(_number(numbered, "right"))
        others = [
            column
            for column in join.output
            if (column.filled_from is not None if column.side == "left" else theirs is None)
        ]
        names = [column.name for column in others] + [each.name for each in join.aggregates]
        described = join.given_back(*given)
        fields = pa.schema([described.field(name) for name in names])
        run = replace(numbered, output=(*numbers, *others))
        ours = given[0].append(_number_field(left.table.schema.names[-1]))
        other = given[1] if right_number is None else given[1].append(_number_field(right_number))
        answer = cls(join, run, left, theirs, run.given_back(ours, other), fields)
        # Types that the library has not are found before anything is read.
        answer.table([])
        return answer

    def table(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Return the rows of the join."""
        rows = pa.Table.from_batches(batches, self.schema)
        numbers = len(self.schema) - len(self.fields)
        left, *right = (_numbers(rows.column(place)) for place in range(numbers))
        joined = Joined(
            join=self.join,
            left=left,
            right=right[0] if right else None,
            columns=pa.Table.from_arrays(rows.columns[numbers:], schema=self.fields),
        )
        return self.left.joined(self.right, joined)


def _number_field(name: str) -> pa.Field:
    return pa.field(name, pa.int64())


def _number(join: Resolved, side: Side) -> OutputColumn:
    """Return the output column that has the number of a side's row."""
    schema = join.left_schema if side == "left" else join.right_schema
    return OutputColumn(free_name(join.output_schema.names, f"{side} row"), side, schema.names[-1])


def _numbers(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = column.fill_null(-1).to_numpy()
    return numbers
