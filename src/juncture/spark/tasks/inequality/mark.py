"""Which rows have a match, where rows may have copies in several partitions: a question that two stages answer.

A row that is alone in its partition is judged there. Of one that has copies, its home knows only what is there: if that
is no match, the row is set aside as *pending*; each partition that has a copy and a match for it says what decides of
the row, its *name*; and a second shuffle brings both to where the row is at home. Rows that agree in what decides share
their fate, so that no row needs a number, and a task that runs again says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import Mask
from juncture.errors import JunctureError
from juncture.spark.tasks import engine
from juncture.spark.tasks.inequality.join import NUMBERS, Meeting, Partition, Rows, Side
from juncture.spark.tasks.inequality.replicate import homes
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content, Packet, error_packet, raise_error, read_packets, write_packets
from juncture.spark.tasks.placement import row_codes
from juncture.spark.tasks.scatter import apart
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How, OutputColumn

__all__ = ["Decide", "Judge"]

_PENDING: dict[Side, Content] = {"left": Content.PENDING_LEFT, "right": Content.PENDING}
_TAKEN: dict[Side, Content] = {"left": Content.TAKEN_LEFT, "right": Content.TAKEN}


@dataclass(frozen=True)
class Judge:
    """Judges the rows of one partition.

    For ``semi`` and ``anti`` all left rows; for other joins only those that have copies, since what else there is to
    know of them shows when pairs are made.

    Attributes
    ----------
    meeting
        The join.
    sides
        Of which sides rows are judged.
    """

    meeting: Meeting
    sides: tuple[Side, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packets of joined rows, of pending rows, and of the names of taken ones."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        try:
            with engine.task_context(self.meeting.memory_bytes) as context:
                partition = Partition(batches, self.meeting, context)
                for side in self.sides:
                    yield from self._judged(partition, side)
        except JunctureError as error:
            yield error_packet(error)

    def _judged(self, partition: Partition, side: Side) -> Iterator[Packet]:
        how = self.meeting.join.how
        if how in ("semi", "anti"):
            alone = partition.rows(side, "alone")
            matched = self._matched(partition, side, alone)
            for rows in alone.picked(matched == (how == "semi")):
                yield Packet(partition.target, Content.OUTPUT, rows)
        at_home = partition.rows(side, "split")
        if at_home.num_rows:
            matched = self._matched(partition, side, at_home)
            for rows in at_home.picked(matched) if how == "semi" else ():
                yield Packet(partition.target, Content.OUTPUT, rows)
            for rows in at_home.picked(~matched):
                yield Packet(partition.target, _PENDING[side], rows)
        copies = partition.rows(side, "copy")
        if copies.num_rows:
            matched = self._matched(partition, side, copies)
            for rows in copies.picked(matched):
                yield from self._named(side, rows)

    def _matched(self, partition: Partition, side: Side, rows: Rows) -> Mask:
        """Return which rows of a side have a match here."""
        matched = np.zeros(rows.num_rows, np.bool_)
        other = partition.rows("right" if side == "left" else "left", "alone", "split", "copy")
        if not len(matched) or not other.num_rows:
            return matched
        join, left, right = self.meeting.join, rows, other
        if side == "right" and isinstance(join, ResolvedOverlap):
            join = engine.swapped(join)
        elif side == "right":
            left, right = other, rows
        for table in engine.execute(_only_numbers(join, side, left, right), left, right, partition.joining):
            matched[np.asarray(table[0])] = True
        return matched

    def _named(self, side: Side, rows: pa.Table) -> Iterator[Packet]:
        """Yield what decides of rows that were matched, for the partitions where they are at home."""
        places = self.meeting.left if side == "left" else self.meeting.right
        names = rows.select(list(places.decisive))
        first, _ = homes(places.place(names), self.meeting.cuts)
        codes = row_codes(names)
        _, once = np.unique(codes, return_index=True)
        yield from apart(names.take(once), first[once], self.meeting.cuts.partitions, _TAKEN[side])


def _only_numbers(join: Resolved, side: Side, left: Rows, right: Rows) -> Resolved:
    """Return a join that shows the numbers of a side's rows with a match: of left ones each once."""
    number = NUMBERS[side]
    is_left = number in left.schema.names
    output = (OutputColumn(number, "left" if is_left else "right", number),)
    how: How = "semi" if is_left else "inner"
    return replace(join, how=how, left_schema=left.schema, right_schema=right.schema, output=output)


@dataclass(frozen=True)
class Decide:
    """Brings pending rows and the names of taken ones together.

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
        """Yield the rows that are ready, and the pending ones as the join shows them."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        kept: dict[Content, list[pa.Table]] = {content: [] for content in (*_PENDING.values(), *_TAKEN.values())}
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows
            elif packet.content in kept:
                kept[packet.content].append(packet.rows)
            else:
                raise_error(packet)
        for side, content in _PENDING.items():
            if kept[content]:
                yield from self._decided(side, kept[content], kept[_TAKEN[side]])

    def _decided(self, side: Side, pending: list[pa.Table], taken: list[pa.Table]) -> Iterator[pa.Table]:
        join, places = self.meeting.join, self.meeting.left if side == "left" else self.meeting.right
        rows = pa.concat_tables(pending).unify_dictionaries()
        names = rows.select(list(places.decisive))
        codes = row_codes(pa.concat_tables([names, *taken]).unify_dictionaries())
        is_taken = np.isin(codes[: rows.num_rows], codes[rows.num_rows :])
        rows = rows.filter(pa.array(is_taken if join.how == "semi" else ~is_taken))
        if join.how in ("semi", "anti"):
            yield rows
        else:
            with engine.task_context(self.meeting.memory_bytes) as context:
                yield from engine.unmatched(join, side, rows, context)
