"""Tasks of grids and of interpolation, which run the in-process code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.local.many.grid import between, ends_of, expanded
from juncture.runtime.context import JoinContext
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.placement import one_chunk
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.grid import ResolvedGrid
from juncture.spec.interpolate import InterpolatedColumns

_ROWS = 1 << 20


@dataclass(frozen=True)
class ExpandGrid(OutputStage):
    """Returns the grid rows of keys; the last two columns of `feed` are a key's start and end."""

    feed: Feed
    grid: ResolvedGrid

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for chunk in self.feed.chunks(batches):
            keys, (first, last) = chunk.select(chunk.column_names[:-2]), chunk.columns[-2:]
            begins = ends_of(self.grid, "first", one_chunk(first), chunk.num_rows)
            ends = ends_of(self.grid, "last", one_chunk(last), chunk.num_rows)
            usable = begins[1] & ends[1]
            for column in keys.columns:
                usable &= column.is_valid().to_numpy()
            rows, values = expanded(self.grid, np.flatnonzero(usable), begins[0][usable], ends[0][usable])
            for start in range(0, len(rows), _ROWS):
                part = slice(start, start + _ROWS)
                columns = [column.take(pa.array(rows[part])) for column in keys.columns]
                yield pa.table([*columns, values[part]], names=[*keys.column_names, self.grid.on])


@dataclass(frozen=True)
class InterpolateRows(OutputStage):
    """Interpolates between the rows before and after, which `feed` contains."""

    feed: Feed
    lines: InterpolatedColumns

    def tables(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the rows."""
        for chunk in self.feed.chunks(batches):
            yield between(self.lines, chunk)
