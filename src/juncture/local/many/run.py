"""Joins of many tables to one spine whose rows are at hand, as tasks of Spark have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from juncture.errors import JunctureError
from juncture.inputs import Given
from juncture.local.kinds import fitting
from juncture.local.many.answers import LOOKUP, answer
from juncture.local.many.report import figures_of
from juncture.local.many.spine import Spine
from juncture.local.many.together import JoinedTable, kept_rows, table_of
from juncture.planner.tables import is_lookup
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spec.many import ResolvedTable, named


def join_tables(
    tables: Sequence[ResolvedTable], schema: pa.Schema, left: Source, rights: Sequence[Source], context: JoinContext
) -> pa.Table:
    """Return the rows of a spine with the columns of its tables. Errors name the table."""
    spine, parts = Spine(left.num_rows, context), []
    for table, right in zip(tables, rights, strict=True):
        with about(table.name):
            algorithm = _algorithm(table, left, right, context)
            found = answer(table, algorithm, spine, left, right, context)
            parts.append(JoinedTable(table, found, Given(schema=table.join.right_schema)))
    return table_of(schema, left, parts, kept_rows(parts), context)


def figures(
    tables: Sequence[ResolvedTable], left: Source, rights: Sequence[Source], context: JoinContext
) -> Iterator[pa.Table]:
    """Yield the figures of a report for each table. Errors name the table."""
    spine = Spine(left.num_rows, context)
    for table, right in zip(tables, rights, strict=True):
        with about(table.name):
            yield figures_of(table, _algorithm(table, left, right, context), spine, left, right, context)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Say in errors which table they are about."""
    try:
        yield
    except JunctureError as error:
        raise named(name, error) from error


def _algorithm(table: ResolvedTable, left: Source, right: Source, context: JoinContext) -> str:
    """Return how to join a table in a task."""
    if is_lookup(table.join):
        return LOOKUP
    return fitting(table.join, left, right, context)
