"""The in-process engine for tasks: one thread, tables in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from juncture.local import kinds
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source, TableSource
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

RECEIVED_SHARE = 1 / 8
"""Share of a task's memory for the received rows of each side; the rest of the rows spill."""

JOIN_SHARE = 1 / 2
"""Share of a task's memory for the join. The remainder is for rows being read and returned."""


def execute(join: Resolved, left: Source, right: Source, context: JoinContext) -> Iterator[pa.Table]:
    """Yield the rows of a join batch by batch, from sources with the join's schemas, and release its memory."""
    context = context.within(MemoryBudget(context.memory.total_bytes))
    algorithm = kinds.fitting(join, left, right, context)
    for batch in kinds.execute(join, left, right, algorithm, context):
        yield pa.Table.from_batches([batch])


def unmatched(join: Resolved, side: Side, rows: pa.Table, context: JoinContext) -> Iterator[pa.Table]:
    """Yield some rows of one side as unmatched rows of the result."""
    schemas = {"left": join.left_schema, "right": join.right_schema, side: rows.schema}
    outer_join = replace(join, how=side, left_schema=schemas["left"], right_schema=schemas["right"])
    tables = {name: schema.empty_table() for name, schema in schemas.items()} | {side: rows}
    yield from execute(outer_join, TableSource(tables["left"]), TableSource(tables["right"]), context)
