"""Carryover: the rows of a split key that other partitions need.

Where a cut splits a key, left rows after the cut may match right rows before it, and vice versa. They can match only
the *k* nearest right rows of the key beyond the cut, since every right row within the partition is nearer. Each task
sends its own *k* nearest rows to each partition after (or before) them; together these include the *k* nearest of all.

A *segment* is the part of a key within one partition. Its *boundary rows* are its best *k* rows as seen from beyond it:
the last ones for later partitions, the first ones for earlier partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.kernels.array_types import Ints, Words
from juncture.ordered.domain import Domain
from juncture.runtime.context import JoinContext, join_context
from juncture.spark.tasks import engine
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.key_range import KeyRanges
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.placement import dense_keys, one_chunk
from juncture.spark.tasks.scatter import Scatter
from juncture.spec.asof import Asof, Direction, ResolvedAsof


@dataclass(frozen=True)
class BoundaryRows:
    """Right rows that other partitions may need: their key hashes, owning partitions, and row numbers."""

    rows: pa.Table
    hashes: Words
    owners: Ints
    numbers: Ints

    @classmethod
    def of(cls, table: pa.Table, ranges: KeyRanges, cuts: Cuts, numbers: Ints | None = None) -> BoundaryRows:
        """Return the rows whose keys are split, numbered by `numbers` or by position."""
        rows = np.flatnonzero(ranges.valid & np.isin(ranges.hashes, cuts.split_hashes))
        owners, _ = ranges.partitions(cuts)
        every = cls(table, ranges.hashes, owners, np.arange(table.num_rows) if numbers is None else numbers)
        return every.take(rows)

    def take(self, rows: Ints) -> BoundaryRows:
        """Return some of the rows."""
        return BoundaryRows(self.rows.take(rows), self.hashes[rows], self.owners[rows], self.numbers[rows])

    @classmethod
    def concat(cls, parts: Sequence[BoundaryRows]) -> BoundaryRows:
        """Return the rows of several parts."""
        rows = pa.concat_tables([part.rows for part in parts]).unify_dictionaries().combine_chunks()
        return cls(
            rows,
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.owners for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )


@dataclass(frozen=True)
class Ranked:
    """Boundary rows sorted by key, partition and rank, the best first within each segment.

    `rows` are positions, `keys` number the keys, and `ranks` count from 0 in each segment.
    """

    rows: Ints
    keys: Ints
    ranks: Ints


@dataclass(frozen=True)
class Carryover:
    """Finds boundary rows, and the partitions that need them."""

    by: tuple[str, ...]
    on: str
    domain: Domain
    ties: tuple[str, ...]  # tie-breaking right columns, the most significant first
    count: int  # most rows that a left row needs from beyond its partition
    directions: tuple[Direction, ...]  # backward if left rows match in earlier partitions, forward if in later ones
    least_wins: bool = False  # whether the least row wins a tie, rather than the greatest
    nulls_equal: bool = False

    def boundary(self, part: BoundaryRows) -> BoundaryRows:
        """Return the boundary rows of all segments, as seen from any side."""
        if part.rows.num_rows == 0:
            return part
        return part.take(
            np.unique(np.concatenate([self.ranked(part, direction).rows for direction in self.directions]))
        )

    def ranked(self, part: BoundaryRows, direction: Direction) -> Ranked:
        """Return the boundary rows of all segments, as seen from one side."""
        if part.rows.num_rows == 0:
            nothing = np.zeros(0, np.int64)
            return Ranked(nothing, nothing, nothing)
        table = part.rows
        keys = np.zeros(table.num_rows, np.int64)
        if self.by:
            keys = dense_keys(table, self.by, nulls_equal=self.nulls_equal)
        _, segments = np.unique(np.stack([keys, part.owners]), axis=1, return_inverse=True)
        segments = segments.reshape(-1).astype(np.int64)
        # Among rows that are equal in all columns, the last one ranks first, as in every join.
        ties = {f"tie{place}": table[name] for place, name in enumerate(self.ties)}
        on = table.schema.field(self.on)
        right = pa.table({"segment": segments, **ties, "row": np.arange(table.num_rows)})
        right = right.append_column(on.with_name("on"), table[self.on])
        # One artificial left row per segment, which all rows of the segment can match.
        count = int(segments.max()) + 1
        left = pa.table({"segment": np.arange(count)})
        left = left.append_column(
            on.with_name("far"), pa.repeat(_farthest(one_chunk(table[self.on]), direction), count)
        )
        spec = Asof(
            left_on="far", right_on="on", by="segment", direction=direction.name, matches=self.count, how="inner"
        )
        if self.least_wins:
            spec = replace(spec, ties="first", order_by="on")
        join = ResolvedAsof(
            spec=spec,
            how="inner",
            left_schema=left.schema,
            right_schema=right.schema,
            left_on="far",
            right_on="on",
            left_by=("segment",),
            right_by=("segment",),
            domain=self.domain,
            tie_columns=(*ties, "row"),
            output=(),
        )
        with join_context(threads=1) as context:
            found, rows = engine.match(join, left, right, context)
        return Ranked(rows, keys[rows], np.arange(len(found)) - np.searchsorted(found, found, side="left"))

    def packets(self, parts: Sequence[BoundaryRows], cuts: Cuts) -> Iterator[Packet]:
        """Yield copies for other partitions, from the boundary rows of one task's chunks."""
        every = BoundaryRows.concat(parts)
        receivers: dict[int, list[Ints]] = {}
        for direction in self.directions:
            ranked = self.ranked(every, direction)
            for rows in np.split(ranked.rows, np.flatnonzero(np.diff(ranked.keys)) + 1):
                for target, copied in self._receive(rows, every, direction, cuts):
                    receivers.setdefault(target, []).append(copied)
        for target, lists in sorted(receivers.items()):
            yield Packet(target, Content.COPY, every.rows.take(np.concatenate(lists)), "right")

    def _receive(self, rows: Ints, every: BoundaryRows, direction: Direction, cuts: Cuts) -> Iterator[tuple[int, Ints]]:
        """Yield each partition that needs rows of a key, with these rows."""
        if len(rows) == 0:
            return
        first, last = cuts.span(int(every.hashes[rows[0]]))
        # Nearest segment first, then best row first.
        owners = every.owners[rows]
        nearness = np.argsort(owners if direction.forward else -owners, kind="stable")
        rows, owners = rows[nearness], owners[nearness]
        for target in range(first, last + 1):
            beyond = rows[owners > target] if direction.forward else rows[owners < target]
            if len(beyond):
                yield target, beyond[: self.count]


def _farthest(on: pa.Array, direction: Direction) -> pa.Scalar:
    """Return a value before (or after) all others; null if there are none."""
    if not pa.types.is_struct(on.type):
        # Arrow has no min and max of durations.
        values = on.view(pa.int64()) if pa.types.is_duration(on.type) else on
        return (pc.min(values) if direction.forward else pc.max(values)).cast(on.type)
    # The tuple of the farthest values bounds all tuples.
    parts = [pa.repeat(_farthest(part, direction), 1) for part in on.flatten()]
    return pa.StructArray.from_arrays(parts, fields=list(on.type))[0]


@dataclass(frozen=True)
class ScatterWithCarryover(Scatter):
    """Sends right rows to their partitions, and boundary rows to other partitions that need them."""

    carryover: Carryover

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        parts = []
        for table, ranges in self._placed(batches):
            parts.append(self.carryover.boundary(BoundaryRows.of(table, ranges, self.cuts)))
            yield from self._sent(table, ranges)
        if parts:
            yield from self.carryover.packets(parts, self.cuts)
