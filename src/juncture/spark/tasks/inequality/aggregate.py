"""Aggregates where left rows may have copies in several partitions.

A left row that is alone is done where it is. Of one that has copies no partition sees all matches, so the right rows
that may be among them are sent to where it is at home, in a second shuffle, and the row is done there. These are the
right rows near a cut, unless windows are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import Mask
from juncture.errors import JunctureError
from juncture.kernels.array_types import Ints, Words
from juncture.spark.tasks import engine
from juncture.spark.tasks.engine import JOIN_SHARE, RECEIVED_SHARE
from juncture.spark.tasks.inequality.join import Meeting, Partition, Rows, numbered
from juncture.spark.tasks.inequality.placement import Placed
from juncture.spark.tasks.inequality.replicate import homes
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content, Packet, error_packet, raise_error, read_packets, write_packets
from juncture.spark.tasks.scatter import compact
from juncture.spark.tasks.store import PacketStore

__all__ = ["Aggregate", "Recall"]


@dataclass(frozen=True)
class _Reach:
    """For each key of some left rows, between which codes they look.

    Attributes
    ----------
    hashes
        Of the keys, in order.
    first, last
        The codes.
    """

    hashes: Words
    first: Ints
    last: Ints

    @classmethod
    def of(cls, placed: Placed) -> _Reach:
        """Return the reach of left rows."""
        hashes, which = np.unique(placed.hashes, return_inverse=True)
        first, last = np.full(len(hashes), 2**63 - 1), np.full(len(hashes), -(2**63))
        np.minimum.at(first, which, placed.first)
        np.maximum.at(last, which, placed.last)
        return cls(hashes, first, last)

    def holds(self, placed: Placed) -> Mask:
        """Tell which right rows may match."""
        at = np.minimum(np.searchsorted(self.hashes, placed.hashes), len(self.hashes) - 1)
        same = placed.valid & (self.hashes[at] == placed.hashes)
        return np.asarray(same & (placed.first <= self.last[at]) & (placed.last >= self.first[at]), np.bool_)


@dataclass(frozen=True)
class Recall:
    """Aggregates for the left rows of a partition that are alone, and sends right rows to the homes of others.

    Attributes
    ----------
    meeting
        The join.
    """

    meeting: Meeting

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packets of joined rows, of left rows that wait, and of right rows for them."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        try:
            with engine.task_context(self.meeting.memory_bytes) as context:
                partition = Partition(batches, self.meeting, context)
                join = numbered(self.meeting.join, self.meeting.join.how, left=False, right=False)
                left, right = partition.rows("left", "alone"), partition.rows("right", "alone", "split", "copy")
                for table in engine.execute(join, left, right, partition.joining):
                    yield Packet(partition.target, Content.OUTPUT, table)
                yield from self._waiting(partition)
        except JunctureError as error:
            yield error_packet(error)

    def _waiting(self, partition: Partition) -> Iterator[Packet]:
        for rows in _tables(partition.rows("left", "split")):
            yield Packet(partition.target, Content.PENDING_LEFT, rows)
        wanted = self._wanted(partition)
        if not wanted:
            return
        # Right rows that came here as copies are at home elsewhere, and sent from there to all but those at home here.
        for classes, targets in (
            (("alone", "split"), wanted),
            (("copy",), {home: reach for home, reach in wanted.items() if home == partition.target}),
        ):
            for rows in _tables(partition.rows("right", *classes)):
                placed = self.meeting.right.place(rows)
                for home, reach in targets.items():
                    found = np.flatnonzero(reach.holds(placed))
                    if len(found):
                        yield Packet(home, Content.CARRIED, compact(rows.take(found)))

    def _wanted(self, partition: Partition) -> dict[int, _Reach]:
        """Return what left rows look for that have copies, by where they are at home."""
        places, parts = self.meeting.left, list[tuple[Ints, Placed]]()
        for rows in _tables(partition.rows("left", "split", "copy")):
            placed = places.place(rows)
            parts.append((homes(placed, self.meeting.cuts)[0], placed))
        wanted = {}
        for home in sorted({int(number) for numbers, _ in parts for number in np.unique(numbers)}):
            chosen = [(placed, numbers == home) for numbers, placed in parts]
            fields = ("hashes", "first", "last", "valid")
            whole = [np.concatenate([getattr(placed, field)[mask] for placed, mask in chosen]) for field in fields]
            wanted[home] = _Reach.of(Placed(*whole))
        return wanted


def _tables(rows: Rows) -> Iterator[pa.Table]:
    """Yield rows, part by part."""
    yield from rows.picked(np.ones(rows.num_rows, np.bool_))


@dataclass(frozen=True)
class Aggregate:
    """Aggregates for the left rows of a partition that have waited for right rows from elsewhere.

    Attributes
    ----------
    meeting
        The join.
    output
        What Spark expects.
    """

    meeting: Meeting
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are ready, and those that have waited."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        join = self.meeting.join
        with engine.task_context(self.meeting.memory_bytes) as context:
            left, right = (
                PacketStore(schema, context.within(context.memory.reserve(f"{side} rows received", RECEIVED_SHARE)))
                for side, schema in (("left", join.left_schema), ("right", join.right_schema))
            )
            for packet in read_packets(batches):
                if packet.content is Content.OUTPUT:
                    yield packet.rows
                elif packet.content is Content.PENDING_LEFT:
                    left.add(packet)
                elif packet.content is Content.CARRIED:
                    right.add(packet)
                else:
                    raise_error(packet)
            left.finish()
            right.finish()
            if left.num_rows:
                joining = context.within(context.memory.reserve("join", JOIN_SHARE))
                yield from engine.execute(join, left, right, joining)
