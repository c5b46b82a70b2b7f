"""Match marks of as-of joins with split keys, for ``right`` and ``full``.

A boundary row may have a match in another partition, which only that partition detects. The owner therefore ranks it
among the boundary rows of its segment, and the other partition marks its key and rank. Rows that are equal in all
columns are interchangeable, so a rank identifies a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.asof.boundary import BoundaryRows, Carryover
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.interval_placement import Placement
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.scatter import apart
from juncture.spark.tasks.stage import PacketStage
from juncture.spark.tasks.store import ChainedRows, PartitionRows
from juncture.spec.asof import Direction, ResolvedAsof
from juncture.spec.resolved import ROW_NUMBERS
from juncture.spec.schema import SIDES

_Ranks: TypeAlias = dict[Direction, tuple[Ints, Ints]]
"""Rows that others may match, with their ranks in the segment as seen from each side."""


@dataclass(frozen=True)
class JoinAndMark(PacketStage):
    """Joins the rows of one partition, and sends on right rows that others may have matched, and match marks."""

    join: ResolvedAsof
    placement: Placement
    cuts: Cuts
    carryover: Carryover

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
            part = BoundaryRows.of(table, self.placement.place(table), self.cuts, numbers)
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
            known = np.isin(there.numbers[ranked.rows], matched)
            if known.any():
                rows = ranked.rows[known]
                marks = there.rows.take(rows).select(list(self.carryover.by))
                marks = marks.append_column(_rank_name(direction), pa.array(ranked.ranks[known]))
                yield from apart(marks, there.owners[rows], self.cuts.partitions, Content.MARK, "right")


def _rank_name(direction: Direction) -> str:
    """Return a name that cannot clash with the user's columns."""
    return f"juncture:{direction.name}"


def _with_ranks(owned: ChainedRows, rows: Ints, ranks: _Ranks) -> Iterator[pa.Table]:
    """Yield right rows with their ranks as seen from each side, null without a rank."""
    start = 0
    for table in owned.take(rows):
        numbers = pa.array(rows[start : start + table.num_rows])
        start += table.num_rows
        for direction, (known, ranked) in ranks.items():
            rank = pa.array(ranked).take(pc.index_in(numbers, pa.array(known)))
            table = table.append_column(_rank_name(direction), rank)
        yield table
