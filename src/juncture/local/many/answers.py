"""What a table gives each row of the spine, found in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Ints, Mask
from juncture.local.kinds import RUNNERS
from juncture.local.many.aggregates import aggregated
from juncture.local.many.pointers import asof_pointers, equal_pointers, lookup_pointers
from juncture.local.many.spine import Spine
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import Source
from juncture.runtime.take import gather
from juncture.runtime.working_types import given_back, working
from juncture.spec.aggregate import Aggregate
from juncture.spec.asof import Asof
from juncture.spec.condition import ResolvedInequality
from juncture.spec.equi import Equi
from juncture.spec.many import ResolvedTable
from juncture.spec.resolved import Resolved

LOOKUP = "lookup"
"""The algorithm that looks up the keys of right rows among those of the spine."""


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

    join: Resolved
    right: Source
    matched: Mask | None  # which rows have a match; None if not requested
    pointers: Ints | None  # its right row, -1 without one; None if matches are aggregated
    aggregates: pa.Table | None  # the aggregates of its matches, if they are aggregated


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
) -> Answer:
    """Find what a table adds to each row of the spine.

    `algorithm` is `LOOKUP` or one of the kind of join. The context has all of the memory, since tables come one after
    the other. `more` are further aggregates. With `marks_matches`, the rows with a match are marked, though none is
    dropped.
    """
    context = context.within(MemoryBudget(context.memory.total_bytes))
    whole = table.keeping
    whole = replace(whole, aggregates=(*whole.aggregates, *more))
    join, left, right = working(whole, left, right)
    if isinstance(join, ResolvedInequality) and join.aggregates:
        matched, columns = aggregated(
            join, spine, left, right, algorithm, context, marks_matches=marks_matches or table.drops_unmatched
        )
        return Answer(join, right, matched, None, columns)
    pointers = FINDERS[join.spec.joined_as][algorithm](join, table, spine, left, right, context)
    return Answer(join, right, pointers >= 0, pointers, None)


def columns_of(
    found: Answer, table: ResolvedTable, names: list[str], kept: Ints | None, schema: pa.Schema, context: JoinContext
) -> pa.Table:
    """Return columns that a table adds to the spine, by their `names` in the output, in the types of a schema.

    `kept` are the rows of the spine; None for all.
    """
    schema = pa.schema([schema.field(name) for name in names])
    if found.aggregates is not None:
        places = [table.names.index(name) for name in names]
        arrays = [found.aggregates.column(place) for place in places]
        rows = pa.table(arrays, names=names) if kept is None else pa.table(arrays, names=names).take(pa.array(kept))
    else:
        assert found.pointers is not None
        pointers = found.pointers if kept is None else np.ascontiguousarray(found.pointers[kept])
        sources = {column.name: column.source for column in table.columns}
        wanted = list(dict.fromkeys(sources[name] for name in names))
        gathered = dict(zip(wanted, gather(found.right, wanted, pointers, context, "payload"), strict=True))
        rows = pa.table([gathered[sources[name]] for name in names], names=names)
    return pa.Table.from_batches(given_back(rows.to_batches(), schema), schema)
