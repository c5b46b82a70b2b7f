"""What tables add to each row of the spine, found in this process, and the joined table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.schemas import LEFT_OUT
from juncture.errors import JunctureError
from juncture.inputs.frames import Frame, Joined
from juncture.inputs.tables import InputTable
from juncture.kernels.array_types import Ints, Mask
from juncture.local.kinds import RUNNERS, fitting
from juncture.local.many.aggregates import aggregated
from juncture.local.many.pointers import asof_pointers, equal_pointers, lookup_pointers
from juncture.local.many.spine import Spine
from juncture.planner.tables import is_lookup
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source
from juncture.runtime.take import gather, select
from juncture.runtime.working_types import restore_types, working, working_source
from juncture.spec.aggregate import Aggregate
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.many import ResolvedTable, named
from juncture.spec.resolved import Resolved
from juncture.spec.schema import left_columns

LOOKUP = "lookup"
"""The algorithm that looks up the keys of right rows among those of the spine."""

_BUFFER_SHARE = 1 / 8
"""The share of memory that the columns of a table may take which are decoded with its keys."""

Finder = Callable[[Any, ResolvedTable, Spine, Source, Source, JoinContext], Ints]
"""Returns the right row of each row of the spine, in working types; -1 where there is none."""

FINDERS: Mapping[type, Mapping[str, Finder]] = {
    Asof: {"probe": partial(asof_pointers, merges=False), "merge": partial(asof_pointers, merges=True)},
    Equi: {LOOKUP: lookup_pointers, **{name: partial(equal_pointers, run=run) for name, run in RUNNERS[Equi].items()}},
}
"""What finds rows under each algorithm, for the kinds of join that find at most one."""


@dataclass(frozen=True)
class Answer:
    """What a table adds to each row of the spine. The join and the right side are in working types."""

    table: ResolvedTable
    join: Resolved
    right: Source
    matched: Mask | None  # which rows have a match; None if not requested
    pointers: Ints | None  # its right row, -1 without one; None if matches are aggregated
    aggregates: pa.Table | None  # the aggregates of its matches, if they are aggregated
    gathered: Mapping[str, pa.ChunkedArray]  # columns of its right rows, if they have been gathered

    def columns(self, names: list[str], row_numbers: Ints | None, schema: pa.Schema, context: JoinContext) -> pa.Table:
        """Return columns that are added to some rows of the spine (None for all), in the types of a schema."""
        schema = pa.schema([schema.field(name) for name in names])
        if self.aggregates is not None:
            indices = [self.table.names.index(name) for name in names]
            rows = pa.table([self.aggregates.column(index) for index in indices], names=names)
            rows = rows if row_numbers is None else rows.take(pa.array(row_numbers))
        else:
            assert self.pointers is not None
            sources = {column.name: column.source for column in self.table.columns}
            gathered = self.gathered
            if not gathered:
                pointers = self.pointers if row_numbers is None else np.ascontiguousarray(self.pointers[row_numbers])
                gathered = _gathered(self.right, [sources[name] for name in names], pointers, context)
            rows = pa.table([gathered[sources[name]] for name in names], names=names)
        return pa.Table.from_batches(restore_types(rows.to_batches(), schema), schema)


def answer(
    table: ResolvedTable,
    algorithm: str,
    spine: Spine,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    more: tuple[Aggregate, ...] = (),
    marks_matches: bool = False,
    gathers: bool = False,
) -> Answer:
    """Find what a table adds to each row of the spine.

    `algorithm` is `LOOKUP` or one of the kind of join. The context has all of the memory, since tables come one after
    the other. `more` are further aggregates. With `marks_matches`, the rows with a match are marked, though none is
    dropped. With `gathers`, all columns of the right rows are gathered: a file is read once if they fit in memory.
    """
    total_bytes = context.memory.total_bytes
    context = context.within(MemoryBudget(total_bytes))
    join_of_all = table.keeping
    join_of_all = replace(join_of_all, aggregates=(*join_of_all.aggregates, *more))
    join: Any
    join, left, right = working(join_of_all, left, right)
    if join.aggregates:
        matched, columns = aggregated(
            join, spine, left, right, algorithm, context, marks_matches=marks_matches or table.drops_unmatched
        )
        return Answer(table, join, right, matched, None, columns, {})
    names = [column.source for column in table.columns] if gathers else []
    near = right
    if names and (buffer_bytes := right.plain_bytes_of(names)) <= total_bytes * _BUFFER_SHARE:
        near, context = right.buffering(names), context.within(MemoryBudget(total_bytes - buffer_bytes))
    pointers = FINDERS[join.spec.joined_as][algorithm](join, table, spine, left, near, context)
    return Answer(table, join, right, pointers >= 0, pointers, None, _gathered(near, names, pointers, context))


def _gathered(right: Source, names: Sequence[str], pointers: Ints, context: JoinContext) -> dict[str, pa.ChunkedArray]:
    names = list(dict.fromkeys(names))
    return dict(zip(names, gather(right, names, pointers, context, "payload"), strict=True))


def can_gather(tables: Iterable[ResolvedTable], spine: InputTable | None) -> bool:
    """Return whether to gather the columns of each table at once: no row of the spine is dropped later.

    Tables of other libraries take their rows themselves.
    """
    return (spine is None or spine.frame is None) and not any(table.drops_unmatched for table in tables)


Answers = Sequence[tuple[Answer, InputTable]]
"""What each table adds to the spine, and the table as the user passed it."""


def _kept_rows(answers: Answers) -> Ints | None:
    """Return the rows of the spine that no table drops; None for all."""
    masks = [each.matched for each, _ in answers if each.table.drops_unmatched and each.matched is not None]
    return np.flatnonzero(np.logical_and.reduce(masks)) if masks else None


def with_answers(spine: InputTable, left: Source, answers: Answers, context: JoinContext) -> Any:
    """Return the rows of the spine with the columns of all tables, as a table of the spine's library."""
    row_numbers = _kept_rows(answers)
    if spine.frame is not None:
        return _as_frame(spine, spine.frame, answers, row_numbers, context)
    return _table_of(spine.schema, left, answers, row_numbers, context)


def _table_of(
    schema: pa.Schema, left: Source, answers: Answers, row_numbers: Ints | None, context: JoinContext
) -> pa.Table:
    """Return the rows of the spine with the columns of all tables, as Arrow."""
    source = working_source(left, schema)
    rows = pa.table(select(source, schema.names, row_numbers, context), names=schema.names)
    spine_rows = pa.Table.from_batches(restore_types(rows.to_batches(), schema), schema)
    columns, fields = list(spine_rows.columns), list(schema)
    for each, right_input in answers:
        added = each.columns(
            each.table.names, row_numbers, each.table.right_output.user_schema(schema, right_input.schema), context
        )
        columns += added.columns
        fields += list(added.schema)
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != LEFT_OUT}
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata or None))


def _as_frame(spine: InputTable, frame: Frame, answers: Answers, row_numbers: Ints | None, context: JoinContext) -> Any:
    """Return the same as a table of a library that takes its rows itself."""
    rows = np.arange(frame.table.num_rows, dtype=np.int64) if row_numbers is None else row_numbers
    alone: Resolved = replace(answers[0][0].table.join, output=left_columns(spine.schema), aggregates=())
    tables = [frame.joined(None, Joined(join=alone, left=rows, right=None, columns=pa.table({})))]
    for each, right_input in answers:
        table, pointers = each.table, each.pointers
        if not table.names:
            continue
        right_frame = right_input.frame if type(right_input.frame) is type(frame) else None
        by_number = [column.name for column in table.columns] if right_frame is not None else []
        others = [name for name in table.names if name not in by_number]
        joined = Joined(
            join=table.right_output,
            left=rows,
            right=None if pointers is None or right_frame is None else np.ascontiguousarray(pointers[rows]),
            columns=each.columns(
                others, row_numbers, table.right_output.user_schema(spine.schema, right_input.schema), context
            ),
        )
        tables.append(frame.joined(right_frame, joined))
    return frame.beside(tables)


def join_tables(
    tables: Sequence[ResolvedTable], schema: pa.Schema, left: Source, rights: Sequence[Source], context: JoinContext
) -> pa.Table:
    """Return the rows of a spine with the columns of its tables. Errors name the table."""
    spine, answers = Spine(context), list[tuple[Answer, InputTable]]()
    gathers = can_gather(tables, None)
    for table, right in zip(tables, rights, strict=True):
        with about(table.name):
            algorithm = task_algorithm(table, left, right, context)
            table_answer = answer(table, algorithm, spine, left, right, context, gathers=gathers)
            answers.append((table_answer, InputTable(schema=table.join.right_schema)))
    return _table_of(schema, left, answers, _kept_rows(answers), context)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Say in errors which table they are about."""
    try:
        yield
    except JunctureError as error:
        raise named(name, error) from error


def task_algorithm(table: ResolvedTable, left: Source, right: Source, context: JoinContext) -> str:
    """Return how to join a table in a task."""
    if is_lookup(table.join):
        return LOOKUP
    return fitting(table.join, left, right, context)
