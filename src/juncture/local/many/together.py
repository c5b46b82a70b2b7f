"""The answer of several joins to one spine, as a table of the spine's library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.columnar.schemas import LEFT_OUT
from juncture.inputs import Given
from juncture.inputs.frames import Frame, Joined
from juncture.kernels.array_types import Ints
from juncture.local.many.answers import Answer, columns_of
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import select
from juncture.runtime.working_types import given_back, working_source
from juncture.spec.many import ResolvedTable
from juncture.spec.resolved import Resolved
from juncture.spec.schema import left_columns


@dataclass(frozen=True)
class JoinedTable:
    """One table, what it adds to the spine, and the table as the user passed it."""

    table: ResolvedTable
    found: Answer
    given: Given

    def schema(self, spine: pa.Schema) -> pa.Schema:
        """Return the columns that it adds, with all that the fields of the inputs say."""
        return self.table.shown.given_back(spine, self.given.schema)


def kept_rows(parts: Sequence[JoinedTable]) -> Ints | None:
    """Return the rows of the spine that no table drops; None for all."""
    masks = [part.found.matched for part in parts if part.table.drops_unmatched and part.found.matched is not None]
    return np.flatnonzero(np.logical_and.reduce(masks)) if masks else None


def together(spine: Given, left: Source, parts: Sequence[JoinedTable], context: JoinContext) -> Any:
    """Return the rows of the spine with the columns of all tables, as a table of the spine's library."""
    kept = kept_rows(parts)
    if spine.frame is not None:
        return _as_frame(spine, spine.frame, parts, kept, context)
    return table_of(spine.schema, left, parts, kept, context)


def table_of(
    schema: pa.Schema, left: Source, parts: Sequence[JoinedTable], kept: Ints | None, context: JoinContext
) -> pa.Table:
    """Return the rows of the spine with the columns of all tables, as Arrow."""
    source = working_source(left, schema)
    rows = pa.table(select(source, schema.names, kept, context), names=schema.names)
    own = pa.Table.from_batches(given_back(rows.to_batches(), schema), schema)
    columns, fields = list(own.columns), list(schema)
    for part in parts:
        shown = part.schema(schema)
        added = columns_of(part.found, part.table, part.table.names, kept, shown, context)
        columns += added.columns
        fields += list(added.schema)
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != LEFT_OUT}
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata or None))


def _as_frame(spine: Given, frame: Frame, parts: Sequence[JoinedTable], kept: Ints | None, context: JoinContext) -> Any:
    """Return the same as a table of a library that takes its rows itself."""
    rows = np.arange(frame.table.num_rows, dtype=np.int64) if kept is None else kept
    tables = [_own_rows(spine.schema, frame, rows, parts)]
    for part in parts:
        if not part.table.names:
            continue
        theirs = part.given.frame if type(part.given.frame) is type(frame) else None
        by_number = [column.name for column in part.table.columns] if theirs is not None else []
        others = [name for name in part.table.names if name not in by_number]
        pointers = part.found.pointers
        joined = Joined(
            join=part.table.shown,
            left=rows,
            right=None if pointers is None or theirs is None else np.ascontiguousarray(pointers[rows]),
            columns=columns_of(part.found, part.table, others, kept, part.schema(spine.schema), context),
        )
        tables.append(frame.joined(theirs, joined))
    return frame.beside(tables)


def _own_rows(schema: pa.Schema, frame: Frame, rows: Ints, parts: Sequence[JoinedTable]) -> Any:
    """Return rows of the spine alone."""
    join: Resolved = replace(parts[0].table.join, output=left_columns(schema), aggregates=())
    return frame.joined(None, Joined(join=join, left=rows, right=None, columns=pa.table({})))
