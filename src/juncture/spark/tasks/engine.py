"""What workers ask of the in-process engine: one thread, tables in, rows out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local.asof import join as asof
from juncture.local.kinds import KINDS, question
from juncture.planner.choose import choose
from juncture.planner.stats import Resources, SideStats, Stats
from juncture.runtime.sources import Source, TableSource
from juncture.runtime.spill import SpillFolder
from juncture.runtime.take import gather
from juncture.runtime.threads import Threads
from juncture.spec.asof import Asof
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

__all__ = ["join", "lonely", "match", "stream", "take", "turned"]

_log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]


def match(spec: Asof, left: pa.Table, right: pa.Table | Source) -> tuple[Ints, Ints]:
    """Return the numbers of the rows that match, by left row, best first."""
    right = _source(right)
    matches = asof.match(spec.resolve(left.schema, right.schema), TableSource(left), right, threads=1)
    return matches.left_rows, matches.right_rows


def join(spec: Asof, left: pa.Table, right: pa.Table | Source) -> pa.Table:
    """Return the joined rows."""
    right = _source(right)
    _log.debug("As-of join of %d left and %d right rows", left.num_rows, right.num_rows)
    table, _ = asof.join(spec.resolve(left.schema, right.schema), TableSource(left), right, threads=1)
    return table


def _source(table: pa.Table | Source) -> Source:
    return TableSource(table) if isinstance(table, pa.Table) else table


def take(source: Source, columns: list[str], rows: Ints) -> pa.Table:
    """Return columns of some rows, in any order and repeated ones included."""
    with Threads(1) as alone:
        return pa.table(gather(source, columns, rows, alone), names=columns)


def stream(join: Resolved, left: Source, right: Source, spill: SpillFolder, memory_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows of a range, overlap or predicate join, batch by batch.

    Parameters
    ----------
    join
        The join, with the schemas of the sources.
    left, right
        The sides.
    spill
        Where to put right columns that exceed ``memory_bytes``.
    memory_bytes
        How much of the right columns to hold in memory.
    """
    stats = Stats(left=SideStats(rows=left.num_rows), right=SideStats(rows=right.num_rows))
    algorithm = choose(question(join, stats, Resources(cores=1, memory_bytes=memory_bytes))).algorithm
    _log.debug("Join of %d left and %d right rows by %s", left.num_rows, right.num_rows, algorithm)
    run = KINDS[type(join.spec)].stream
    for batch in run(join, left, right, algorithm=algorithm, threads=1, spill=spill, payload_bytes=memory_bytes):
        yield pa.Table.from_batches([batch])


def lonely(join: Resolved, side: Side, rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows of one side as the join shows those without a match."""
    schemas = {"left": join.left_schema, "right": join.right_schema, side: rows.schema}
    alone = replace(join, how=side, left_schema=schemas["left"], right_schema=schemas["right"])
    tables = {name: schema.empty_table() for name, schema in schemas.items()} | {side: rows}
    with SpillFolder() as spill:
        yield from stream(alone, TableSource(tables["left"]), TableSource(tables["right"]), spill, rows.nbytes)


def turned(join: ResolvedOverlap) -> ResolvedOverlap:
    """Return an overlap join with its sides exchanged, that shows nothing yet."""
    return replace(
        join,
        left_schema=join.right_schema,
        right_schema=join.left_schema,
        left_by=join.right_by,
        right_by=join.left_by,
        left_interval=join.right_interval,
        right_interval=join.left_interval,
        output=(),
    )
