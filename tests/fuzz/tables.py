"""Tables as values of Python, with the way in which Arrow holds them: chunks, offsets, dictionaries and runs.

So a table can be made smaller, piece by piece, and be written as the text that makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

__all__ = ["Column", "Table", "dictionary_of", "random_column", "random_cuts", "runs_of"]


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes
    ----------
    name, type
        What it is.
    values
        Its cells, as `fuzz.values` has them.
    is_nullable
        Whether the schema admits nulls.
    cuts
        The rows before which a new chunk begins; a row that occurs twice makes an empty chunk.
    spare
        Cells before and after each chunk in the array that it is a slice of.
    entries
        How the entries of dictionaries, and runs, are made: 0 is the plain way, others turn the entries round, repeat
        one, make null an entry, and break runs.
    """

    name: str
    type: pa.DataType
    values: tuple[Any, ...]
    is_nullable: bool = True
    cuts: tuple[int, ...] = ()
    spare: tuple[Any, ...] = ()
    entries: int = 0

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, nullable=self.is_nullable)

    def chunks(self) -> list[tuple[Any, ...]]:
        """Return the cells of each chunk."""
        edges = [0, *sorted(min(cut, len(self.values)) for cut in self.cuts), len(self.values)]
        return [self.values[start:end] for start, end in pairwise(edges)]

    def entries_of(self, chunk: int) -> int:
        """Return how the entries of a chunk are made: each has a dictionary of its own."""
        return self.entries + chunk if self.entries else 0

    def arrow(self) -> pa.ChunkedArray:
        """Return the column as Arrow has it."""
        chunks = []
        for number, cells in enumerate(self.chunks()):
            whole = array_of((*self.spare, *cells, *self.spare), self.type, self.entries_of(number))
            chunks.append(whole.slice(len(self.spare), len(cells)) if self.spare else whole)
        return pa.chunked_array(chunks, self.type)


@dataclass(frozen=True)
class Table:
    """A table: columns of as many rows, or rows without columns."""

    columns: tuple[Column, ...]
    num_rows: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    def arrow(self) -> pa.Table:
        """Return the table as Arrow has it."""
        if not self.columns:
            return pa.table({"none": pa.nulls(self.num_rows)}).select([])
        return pa.table([column.arrow() for column in self.columns], schema=self.schema)

    def keep(self, rows: list[int]) -> Table:
        """Return the table with some of its rows."""
        columns = []
        for column in self.columns:
            # A cut stays between the rows that it was between.
            cuts = tuple(sum(row < cut for row in rows) for cut in column.cuts)
            columns.append(replace(column, values=tuple(column.values[row] for row in rows), cuts=cuts))
        return Table(tuple(columns), len(rows))

    def in_one_chunk(self) -> Table:
        """Return the table with the plainest arrays that hold it."""
        columns = (replace(column, cuts=(), spare=(), entries=0) for column in self.columns)
        return Table(tuple(columns), self.num_rows)

    def with_column(self, place: int, column: Column) -> Table:
        """Return the table with another column in a place."""
        return Table((*self.columns[:place], column, *self.columns[place + 1 :]), self.num_rows)

    def without(self, place: int) -> Table:
        """Return the table less the column of a place."""
        return Table((*self.columns[:place], *self.columns[place + 1 :]), self.num_rows)


def array_of(values: tuple[Any, ...], data_type: pa.DataType, entries: int = 0) -> pa.Array:
    """Return an array of values."""
    if pat.is_dictionary(data_type):
        indices, words = dictionary_of(values, entries)
        return pa.DictionaryArray.from_arrays(
            pa.array(indices, data_type.index_type), array_of(words, data_type.value_type), ordered=data_type.ordered
        )
    if pat.is_run_end_encoded(data_type):
        ends, cells = runs_of(values, entries)
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, data_type.run_end_type), array_of(cells, data_type.value_type)
        )
    return pa.array(values, data_type)


def dictionary_of(values: tuple[Any, ...], entries: int = 0) -> tuple[list[int | None], tuple[Any, ...]]:
    """Return the entry of each value, and the entries; `Column.entries` says how they are made."""
    words = {repr(value): value for value in values if value is not None or entries & 1}
    turn = entries % len(words) if words else 0
    keys = [*list(words)[turn:], *list(words)[:turn]]
    # Of an entry that occurs twice, rows name the last.
    keys += keys[:1] if entries & 2 else []
    if entries & 4:
        keys.reverse()
    places = {key: place for place, key in enumerate(keys)}
    return [places.get(repr(value)) for value in values], tuple(words[key] for key in keys)


def runs_of(values: tuple[Any, ...], entries: int = 0) -> tuple[list[int], tuple[Any, ...]]:
    """Return where runs end, and their values; equal neighbours are one run unless ``entries`` is odd."""
    ends, cells = [], []
    for _, run in groupby(enumerate(values), key=lambda item: item[0] if entries & 1 else repr(item[1])):
        for place, value in run:
            last = place, value
        ends.append(last[0] + 1)
        cells.append(last[1])
    return ends, tuple(cells)


def random_column(
    chance: Random, name: str, data_type: pa.DataType, pool: list[Any], rows: int, cuts: tuple[int, ...]
) -> Column:
    """Return a column of values of a pool, in chunks that are those of the other columns, or its own."""
    if not rows:
        cuts = ()
    elif chance.random() < 0.2:
        cuts = random_cuts(chance, rows)
    can_lack = None in pool or pat.is_null(data_type)
    return Column(
        name,
        data_type,
        tuple(chance.choices(pool, k=rows)),
        is_nullable=can_lack or chance.random() < 0.7,
        cuts=cuts,
        spare=tuple(chance.choices(pool, k=chance.randint(1, 3))) if chance.random() < 0.2 else (),
        entries=chance.randrange(16) if chance.random() < 0.7 else 0,
    )


def random_cuts(chance: Random, rows: int) -> tuple[int, ...]:
    """Return the rows before which chunks begin, empty chunks among them."""
    return tuple(sorted(chance.choices(range(rows + 1), k=chance.choice([0, 1, 1, 2, 3, 6]))))
