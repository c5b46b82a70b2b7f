"""Rows that carry their number through a join, so that pieces and blocks run in any order and are sorted at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import array_of, in_halves, plain, raw_values, sliced
from juncture.columnar.conversion import converted
from juncture.kernels.array_types import Ints, Mask
from juncture.local.output.payload import read_payload
from juncture.runtime.context import JoinContext
from juncture.runtime.sort import ExternalSorter
from juncture.runtime.sources import SameRows, Source, TableSource
from juncture.runtime.take import SelectedSource, nulls
from juncture.runtime.threads import grouped
from juncture.spec.resolved import ROW_NUMBERS, Resolved
from juncture.spec.schema import How, OutputColumn, Side

Join = TypeVar("Join", bound=Resolved)

_SAMPLED = 1 << 10

Run = Callable[[Join, Source, Source], Iterator[pa.RecordBatch]]
"""Yields the rows of a join whose right side is held in memory, in the order of the left rows."""

_ONE_BLOCK: dict[How, How] = {"left": "inner", "full": "right", "anti": "semi"}
"""The result of one block, if only all blocks together determine which left rows have a match."""


class NumberedSource(SameRows):
    """A source with plain types and a last column with row numbers, which start at `first`."""

    def __init__(self, source: Source, schema: pa.Schema, first: int) -> None:
        super().__init__(source)
        self.schema, self._first = schema, first

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        number = self.schema.names[-1]
        start = int(self.bounds[part]) + self._first
        # Batches without columns lose their number of rows.
        names = [name for name in columns if name != number] or self._source.schema.names[:1]
        for batch in self._source.read(part, names):
            arrays = {name: plain(batch.column(name)) for name in names}
            arrays[number] = array_of(np.arange(start, start + batch.num_rows, dtype=np.int64), pa.int64())
            start += batch.num_rows
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the estimated size of columns in memory."""
        number = self.schema.names[-1]
        return self._source.plain_bytes_of([name for name in columns if name != number]) + 8 * self.num_rows


@dataclass(frozen=True)
class NumberedJoin(Generic[Join]):
    """A join of numbered rows. Right numbers follow the left ones.

    The result has a column with the number of the left row or, for unmatched right rows, of the right row. Sorting by
    it stably gives the output order of the join.
    """

    join: Join  # its schemas have only needed columns, with plain types
    output: pa.Schema  # the schema of the result without the number
    numbered: tuple[Side, ...]  # the sides whose row numbers it shows
    left: NumberedSource
    right: NumberedSource
    by_both: bool = False  # whether the output is sorted by the numbers of both rows

    @classmethod
    def of(cls, join: Join, left: Source, right: Source) -> NumberedJoin[Join]:
        """Return the join with its rows numbered."""
        number = unused_name("number", join.left_schema, join.right_schema, join.output_schema)
        left_schema, right_schema = (_plain_schema(join, side, number) for side in ("left", "right"))
        number_output = OutputColumn(number, "left", number, number if join.how in ("right", "full") else None)
        aggregates = (replace(each, type=plain_type_of(each.type)) for each in join.aggregates)
        numbered = replace(
            join,
            left_schema=left_schema,
            right_schema=right_schema,
            output=(*join.output, number_output),
            aggregates=tuple(aggregates),
            numbered=(),
        )
        result = cls(
            numbered,
            join.output_schema,
            join.numbered,
            NumberedSource(left, left_schema, 0),
            NumberedSource(right, right_schema, left.num_rows),
        )
        return result.with_right_number() if "right" in join.numbered else result

    def with_right_number(self) -> NumberedJoin[Join]:
        """Return a join whose output also has the number of the right row, null without one."""
        right = OutputColumn(self.right_number, "right", self.number)
        output = self.join.output
        if right in output:
            return self
        return replace(self, join=replace(self.join, output=(*output[:-1], right, output[-1])))

    def sorted_by_both(self) -> NumberedJoin[Join]:
        """Return the join for pieces in which the matches of a left row are not in the order of the right rows."""
        return replace(self.with_right_number(), by_both=True)

    @property
    def number(self) -> str:
        """The name of the column with the number."""
        return str(self.join.left_schema.names[-1])

    @property
    def right_number(self) -> str:
        """The name of the column with the number of the right row, where the output has it."""
        return f"{self.number} of right row"

    @property
    def sample(self) -> npt.NDArray[np.int64]:
        """Row numbers distributed as in the output: half of them of right rows if unmatched right rows are kept."""
        left_rows = self.left.num_rows
        shares = np.arange(_SAMPLED) / _SAMPLED
        numbers = [shares * left_rows]
        if self.join.how in ("right", "full"):
            numbers.append(left_rows + shares * self.right.num_rows)
        return np.concatenate(numbers).astype(np.int64)

    def in_order(self, pieces: Iterable[pa.RecordBatch], context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces in the order of the output. All memory of the context is used."""
        schema, key, sample = self.join.output_schema, self.number, self.sample
        if self.by_both:
            step = np.int64(self.left.num_rows + self.right.num_rows + 1)
            key, sample = unused_name("order", schema), sample * step
            schema = schema.append(pa.field(key, pa.int64()))
            pieces = (with_integers(batch, [self._order_of(batch, step)], schema) for batch in pieces)
        rows = done = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in pieces:
                rows += batch.num_rows
                yield batch

        advance = context.progress.of("output")
        for batch in ExternalSorter(schema, key, context, sample).sort(counted()):
            yield batch
            done += batch.num_rows
            advance(done, rows)

    def _order_of(self, batch: pa.RecordBatch, step: np.int64) -> Ints:
        """Return integers in the order of the numbers of left rows, and then of right ones."""
        rights = batch.column(self.right_number).fill_null(0)
        order: Ints = self.numbers_of(batch) * step + raw_values(rights, np.int64)
        return order

    def finished(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield output rows without their number, in the output types."""
        # Small dictionary indices limit the number of values in a batch.
        yield from in_halves(batch, self._finished)

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = {ROW_NUMBERS[side]: side for side in self.numbered}
        arrays = [
            self._row_numbers(batch, numbers[field.name])
            if field.name in numbers
            else converted(batch.column(field.name), field.type)
            for field in self.output
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def _row_numbers(self, batch: pa.RecordBatch, side: Side) -> pa.Array:
        left_rows = self.left.num_rows
        if side == "left":
            numbers = self.numbers_of(batch)
            return number_column(self.left.row_numbers(np.where(numbers < left_rows, numbers, -1)))
        numbers = batch.column(self.right_number).fill_null(left_rows - 1).to_numpy()
        return number_column(self.right.row_numbers(numbers - left_rows))

    def numbers_of(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the row numbers of a numbered side or of the output."""
        numbers: npt.NDArray[np.int64] = raw_values(batch.column(self.number), np.int64)
        return numbers


class LateColumns(Generic[Join]):
    """The left columns of a join, buffered to be added to rows of the join without them (`narrow`) by their numbers.

    This is late materialization (Abadi, Myers, DeWitt and Madden, "Materialization strategies in a column-oriented
    DBMS", 2007).
    """

    def __init__(self, numbered: NumberedJoin[Join], context: JoinContext) -> None:
        join = numbered.join
        self._left_rows = numbered.left.num_rows
        self._schema = join.output_schema
        # What stands in for a missing left value is a right one, and comes with the right row.
        is_late = [
            column.side == "left" and column.filled_from is None and column.name != numbered.number
            for column in join.output
        ]
        self._late_names = {
            column.name: column.source for column, late in zip(join.output, is_late, strict=True) if late
        }
        self._payload = read_payload(numbered.left, tuple(dict.fromkeys(self._late_names.values())), context)
        narrow_output = tuple(column for column, late in zip(join.output, is_late, strict=True) if not late)
        self.narrow = replace(numbered, join=replace(join, output=narrow_output))

    def added_to(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return rows of the narrow join with the columns that it lacks, in more batches if they are too long."""
        numbers = self.narrow.numbers_of(batch)
        rows = np.where(numbers < self._left_rows, numbers, -1).astype(np.int32)
        late_columns = dict(
            zip(self._late_names, self._payload.take(list(self._late_names.values()), rows), strict=True)
        )
        columns = [late_columns[name] if name in late_columns else batch.column(name) for name in self._schema.names]
        batches: list[pa.RecordBatch] = pa.table(columns, schema=self._schema).to_batches()
        return batches


def unused_name(name: str, *schemas: pa.Schema) -> str:
    """Return a name that no column has."""
    while any(name in schema.names for schema in schemas):
        name += "_"
    return name


def with_integers(batch: pa.RecordBatch, values: Sequence[Ints], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with more columns of integers."""
    return pa.RecordBatch.from_arrays([*batch.columns, *(array_of(each, pa.int64()) for each in values)], schema=schema)


def number_column(rows: npt.NDArray[np.integer]) -> pa.Array:
    """Return row numbers as a column, with null for -1."""
    numbers = rows.astype(np.int64, copy=False)
    return array_of(numbers, pa.int64(), numbers >= 0)


def _plain_schema(join: Resolved, side: Side, number: str) -> pa.Schema:
    """Return the needed columns of a side with plain types, and the row number."""
    schema = join.schema(side)
    needed = join.needed(side)
    fields = [(field.name, plain_type_of(field.type)) for field in schema if field.name in needed]
    return pa.schema([*fields, (number, pa.int64())])


def number_columns(join: Resolved, left_rows: Ints, right_rows: Ints) -> list[pa.Array]:
    """Return the row numbers that the output of a join shows."""
    return [number_column(left_rows if side == "left" else right_rows) for side in join.numbered]


def unmatched_columns(
    join: Resolved, schema: pa.Schema, rows: int, column_of: Callable[[str], pa.Array | pa.ChunkedArray]
) -> list[pa.Array | pa.ChunkedArray]:
    """Return what the output shows of right rows without a match, less row numbers; `column_of` returns their columns.

    Their values stand in for the left columns that they would equal.
    """
    columns = list[pa.Array | pa.ChunkedArray]()
    for column, field in zip(join.output, schema, strict=False):
        name = column.source if column.side == "right" else column.filled_from
        if name is None:
            columns.append(nulls(rows, field.type))
            continue
        values = column_of(name)
        if isinstance(values, pa.ChunkedArray):
            chunks = [converted(chunk, field.type) for chunk in values.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
        else:
            columns.append(converted(values, field.type))
    return columns


def plain_type_of(data_type: pa.DataType) -> pa.DataType:
    """Return the type of `plain` arrays of a type."""
    return plain(nulls(0, data_type)).type


def join_blockwise(
    numbered: NumberedJoin[Join], left: Source, blocks: Iterable[tuple[Source, Source]], run: Run[Join]
) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join, those of each block in the order of their numbers.

    A block has numbered right rows, which are buffered, and the left rows that may match them; each right row is in one
    block. `run` joins one block. Takes a byte for each left row if it matters which of them have a match.
    """
    join = numbered.join
    how = join.how
    one = replace(join, how=_ONE_BLOCK.get(how, how))
    matched = np.zeros(numbered.left.num_rows if how in ("left", "full", "semi", "anti") else 0, np.bool_)
    for near, block in blocks:
        for batch in run(one, near, block):
            if len(matched):
                numbers = numbered.numbers_of(batch)
                matched[numbers[numbers < len(matched)]] = True
            if how not in ("semi", "anti"):
                yield batch
    if len(matched):
        rows = _rows(numbered, left, matched if how == "semi" else ~matched)
        alone = replace(join, how="anti" if how in ("semi", "anti") else "left")
        nothing = TableSource(pa.Table.from_batches([], join.right_schema))
        yield from run(alone, SelectedSource(left, rows), nothing)


def _rows(numbered: NumberedJoin[Join], source: Source, wanted: Mask) -> npt.NDArray[np.int64]:
    """Return the positions in a source of the rows whose numbers are wanted."""
    positions = [
        np.flatnonzero(wanted[numbered.numbers_of(rows)]) + first for first, rows in source.scan([numbered.number])
    ]
    return np.concatenate([np.zeros(0, np.int64), *positions])


def blocks_of(source: Source, rows_most: int) -> Iterator[Source]:
    """Read a source block by block; at least one, even if it is empty."""
    if not source.num_rows:
        yield TableSource(source.schema.empty_table())
    pieces = (piece for _, batch in source.scan(source.schema.names) for piece in sliced(batch, rows_most))
    for block in grouped(pieces, rows_most, len):
        yield TableSource(pa.Table.from_batches(block))
