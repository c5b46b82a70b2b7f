"""Tasks of as-of joins: carryover and match marks of split keys, candidates for a broadcast left side, and reports.

The carryover consists of the rows of a split key that other partitions need. Where a cut splits a key, left rows after
the cut may match right rows before it, and vice versa. They can match only the *k* nearest right rows of the key beyond
the cut, since every right row within the partition is nearer. Each task sends its own *k* nearest rows to each
partition after (or before) them; together these include the *k* nearest of all.

A *segment* is the part of a key within one partition. Its *boundary rows* are its best *k* rows as seen from beyond it:
the last ones for later partitions, the first ones for earlier partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.kernels.array_types import Ints, Words
from juncture.local.asof.join import match
from juncture.local.asof.report import FIGURES, figures_of, match_counts
from juncture.runtime.context import JoinContext, join_context
from juncture.runtime.sources import TableSource
from juncture.runtime.take import gather
from juncture.spark.tasks import engine
from juncture.spark.tasks.cuts import Cuts, KeyRanges
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import BroadcastTable, Feed
from juncture.spark.tasks.packets import Content, Packet, read_packets
from juncture.spark.tasks.placement import Placement, dense_keys, one_chunk
from juncture.spark.tasks.scatter import Scatter, split_by_partition
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spark.tasks.store import ChainedRows, PartitionRows
from juncture.spec.asof import Asof, Direction, ResolvedAsof
from juncture.spec.resolved import ROW_NUMBERS
from juncture.spec.schema import SIDES


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
    """Boundary rows sorted by key, partition and rank, the best first within each segment."""

    rows: Ints  # positions
    keys: Ints  # numbers of the keys
    ranks: Ints  # count from 0 in each segment


@dataclass(frozen=True)
class Carryover:
    """Finds boundary rows of a join, and the partitions that need them."""

    join: ResolvedAsof

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Where left rows match: backward in earlier partitions, forward in later ones."""
        return self.join.directions

    @property
    def count(self) -> int:
        """Most rows that a left row needs from beyond its partition: one more than its matches reveals a tie."""
        return int(self.join.spec.matches + (self.join.spec.ties == "error"))

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
        table, right_on = part.rows, self.join.right_on
        keys = np.zeros(table.num_rows, np.int64)
        if self.join.right_by:
            keys = dense_keys(table, self.join.right_by, nulls_equal=self.join.nulls_equal)
        _, segments = np.unique(np.stack([keys, part.owners]), axis=1, return_inverse=True)
        segments = segments.reshape(-1).astype(np.int64)
        # Among rows that are equal in all columns, the last one ranks first, as in every join.
        ties = {f"tie{index}": table[name] for index, name in enumerate(self.join.tie_columns)}
        on = table.schema.field(right_on)
        right = pa.table({"segment": segments, **ties, "row": np.arange(table.num_rows)})
        right = right.append_column(on.with_name("on"), table[right_on])
        # One artificial left row per segment, which all rows of the segment can match.
        count = int(segments.max()) + 1
        left = pa.table({"segment": np.arange(count)})
        left = left.append_column(
            on.with_name("far"), pa.repeat(_farthest(one_chunk(table[right_on]), direction), count)
        )
        spec = Asof(
            left_on="far", right_on="on", by="segment", direction=direction.name, matches=self.count, how="inner"
        )
        if self.join.spec.ties == "first":
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
            domain=self.join.domain,
            tie_columns=(*ties, "row"),
            output=(),
        )
        with join_context(threads=1) as context:
            left_rows, rows = match(join, TableSource(left), TableSource(right), context)
        return Ranked(rows, keys[rows], np.arange(len(left_rows)) - np.searchsorted(left_rows, left_rows, side="left"))

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


_Ranks: TypeAlias = dict[Direction, tuple[Ints, Ints]]
"""Rows that others may match, with their ranks in the segment as seen from each side."""


@dataclass(frozen=True)
class JoinAndMark(PacketStage):
    """Joins the rows of one partition, and sends on right rows that others may have matched, and match marks."""

    join: ResolvedAsof
    placement: Placement
    cuts: Cuts

    @property
    def carryover(self) -> Carryover:
        """The carryover of the join."""
        return Carryover(self.join)

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield joined rows, locally unmatched right rows that another partition may have matched, and match marks."""
        partition = PartitionRows.of(self.join, batches, context)
        left = partition.rows("left", Content.OWNED)
        right = partition.rows("right", Content.OWNED, Content.COPY)
        owned = partition.rows("right", Content.OWNED)
        ranks = self._ranks(owned)
        shared = np.concatenate([rows for rows, _ in ranks.values()])
        unmatched, matched = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        numbered = replace(self.join, numbered=SIDES)
        for joined in engine.execute(numbered, left, right, partition.joining):
            numbers = np.asarray(joined[ROW_NUMBERS["right"]].fill_null(-1))
            is_unmatched = np.asarray(joined[ROW_NUMBERS["left"]].is_null())
            is_copy = numbers >= owned.num_rows
            waits = is_unmatched & np.isin(numbers, shared)
            ready = joined.filter(pa.array(~waits & ~(is_copy & is_unmatched)))
            yield Packet(partition.target, Content.OUTPUT, ready.select(range(len(self.join.output))))
            unmatched.append(numbers[waits])
            matched.append(numbers[is_copy & ~is_unmatched])
        for rows in _with_ranks(owned, np.unique(np.concatenate(unmatched)), ranks):
            yield Packet(partition.target, Content.UNMATCHED, rows, "right")
        yield from self._marks(partition, np.unique(np.concatenate(matched)) - owned.num_rows)

    def _boundary(self, rows: ChainedRows) -> BoundaryRows:
        """Return the boundary rows among numbered rows."""
        parts, first = [], 0
        for table in (rows.schema.empty_table(), *rows.tables()):
            numbers = np.arange(first, first := first + table.num_rows)
            part = BoundaryRows.of(table, self.placement.ranges_of(table), self.cuts, numbers)
            parts.append(self.carryover.boundary(part))
        return BoundaryRows.concat(parts)

    def _ranks(self, owned: ChainedRows) -> _Ranks:
        boundary = self._boundary(owned)
        ranked = {each: self.carryover.ranked(boundary, each) for each in self.carryover.directions}
        return {direction: (boundary.numbers[each.rows], each.ranks) for direction, each in ranked.items()}

    def _marks(self, partition: PartitionRows, matched: Ints) -> Iterator[Packet]:
        """Yield match marks for copies that matched here, to the partitions that own the rows."""
        copies = self._boundary(partition.rows("right", Content.COPY))
        for direction in self.carryover.directions:
            is_there = copies.owners > partition.target if direction.forward else copies.owners < partition.target
            there = copies.take(np.flatnonzero(is_there))
            ranked = self.carryover.ranked(there, direction)
            is_matched = np.isin(there.numbers[ranked.rows], matched)
            if is_matched.any():
                rows = ranked.rows[is_matched]
                marks = there.rows.take(rows).select(list(self.join.right_by))
                marks = marks.append_column(_rank_name(direction), pa.array(ranked.ranks[is_matched]))
                yield from split_by_partition(marks, there.owners[rows], self.cuts.partitions, Content.MARK, "right")


def _rank_name(direction: Direction) -> str:
    """Return a name that cannot clash with the user's columns."""
    return f"juncture:{direction.name}"


def _with_ranks(owned: ChainedRows, rows: Ints, ranks: _Ranks) -> Iterator[pa.Table]:
    """Yield right rows with their ranks as seen from each side, null without a rank."""
    start = 0
    for table in owned.take(rows):
        numbers = pa.array(rows[start : start + table.num_rows])
        start += table.num_rows
        for direction, (row_numbers, ranked) in ranks.items():
            rank = pa.array(ranked).take(pc.index_in(numbers, pa.array(row_numbers)))
            table = table.append_column(_rank_name(direction), rank)
        yield table


_ROW = "juncture:left"


@dataclass(frozen=True)
class ProbeLeft(PacketStage):
    """Finds a task's best right rows for each row of the whole left side; left rows form `targets` partitions."""

    feed: Feed
    join: ResolvedAsof
    left: BroadcastTable
    targets: int

    def packets(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[Packet]:
        """Yield candidate right rows with their left rows."""
        right = self.feed.source(batches, context)
        left = self.left.table(self.join.compared("left"))
        joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        spec = self._probe_spec
        probing = replace(self.join, spec=spec, how=spec.how).over(left.schema, right.schema)
        left_rows, rows = match(probing, TableSource(left), right, joining)
        schema = candidates(self.feed.schema, self.join)
        matches = pa.table(gather(right, schema.names[:-1], rows, context), names=schema.names[:-1])
        yield from self._cut(left_rows, matches.append_column(_ROW, pa.array(left_rows)).cast(schema))

    @property
    def _probe_spec(self) -> Asof:
        """The join of one task. With ``ties="error"`` it keeps one more match, to detect ties across tasks."""
        spec = self.join.spec
        if spec.ties == "error":
            return replace(spec, how="inner", matches=spec.matches + 1, ties="greatest")
        return spec if spec.how in ("semi", "anti") else replace(spec, how="inner")

    def _cut(self, left_rows: Ints, rows: pa.Table) -> Iterator[Packet]:
        for target in range(self.targets):
            first, end = _range(target, self.targets, self.left.num_rows)
            start, stop = np.searchsorted(left_rows, [first, end])
            if start < stop:
                yield Packet(target, Content.OWNED, rows.slice(start, stop - start), "right")


def candidates(right: pa.Schema, join: ResolvedAsof) -> pa.Schema:
    """Return the schema of candidates, which are keyed by left row rather than by key."""
    needed = _by_row(join).needed("right")
    return pa.schema([*(field for field in right if field.name in needed), pa.field(_ROW, pa.int64())])


def _by_row(join: ResolvedAsof) -> ResolvedAsof:
    """Return the join of left rows with their candidates: each left row is its own key."""
    return replace(join, left_by=(_ROW,), right_by=(_ROW,))


def _range(target: int, targets: int, rows: int) -> tuple[int, int]:
    """Return the left rows of a partition."""
    return rows * target // targets, rows * (target + 1) // targets


@dataclass(frozen=True)
class ChooseCandidates(OutputStage):
    """Chooses the best candidates for the left rows of a partition; `right` is the schema of right rows in tasks."""

    join: ResolvedAsof
    left: BroadcastTable
    right: pa.Schema
    targets: int

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the joined rows."""
        received, target = [candidates(self.right, self.join).empty_table()], None
        for packet in read_packets(batches):
            target = packet.target
            if packet.content is Content.OWNED:
                received.append(packet.rows)
        if target is None:
            return
        first, end = _range(target, self.targets, self.left.num_rows)
        left = self.left.slice(first, end).append_column(_ROW, pa.array(np.arange(first, end)))
        spec, right = self.join.spec, pa.concat_tables(received)
        spec = replace(spec, order_by=[name for name in spec.order_columns() if name in right.column_names])
        by_row = replace(_by_row(self.join), spec=spec).over(left.schema, right.schema)
        for rows in engine.execute(by_row, TableSource(left), TableSource(right), context):
            yield rows.select([column.name for column in self.join.output])


@dataclass(frozen=True)
class CountMatches(OutputStage):
    """Counts right rows, why left rows have no match, and how far matches are; the driver sums up."""

    join: ResolvedAsof

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield the figures of the partition."""
        partition = PartitionRows.of(self.join, batches, context)
        left, right = partition.rows("left", Content.OWNED), partition.rows("right", Content.OWNED)
        yield figures_of(*match_counts(self.join, left, right, partition.joining))
        yield pa.Table.from_pylist([{"figure": "right_rows", "distance": None, "rows": right.num_rows}], FIGURES)
