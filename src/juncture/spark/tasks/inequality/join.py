"""The reduce side of joins whose rows lie between two places: what meets in a partition, and the pairs it makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import Mask
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks import engine
from juncture.spark.tasks.engine import JOIN_SHARE, RECEIVED_SHARE
from juncture.spark.tasks.inequality.placement import Places
from juncture.spark.tasks.inequality.replicate import LEFT, RIGHT, Classes
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import raise_error, read_packets
from juncture.spark.tasks.store import PacketStore
from juncture.spec.resolved import Resolved
from juncture.spec.schema import How, OutputColumn

__all__ = ["NUMBERS", "Meet", "Meeting", "Partition", "Rows", "Side", "numbered"]

Side = Literal["left", "right"]

# Beside the user's own columns, so of names that nobody gives.
NUMBERS: dict[Side, str] = {"left": "juncture:left", "right": "juncture:right"}


@dataclass(frozen=True)
class Meeting:
    """What the tasks have to know of a join.

    Attributes
    ----------
    join
        The join, with the schemas of the rows as they come in packets.
    left, right
        Where the rows of the sides lie.
    cuts
        Where partitions end.
    memory_bytes
        How much a task may hold.
    """

    join: Resolved
    left: Places
    right: Places
    cuts: Cuts
    memory_bytes: int


class Rows(Source):
    """The rows of some stores, one after the other, with their numbers.

    Parameters
    ----------
    stores
        The stores.
    number
        What the column with the number of a row is called.
    """

    def __init__(self, stores: Sequence[PacketStore], number: str) -> None:
        self.schema = stores[0].schema.append(pa.field(number, pa.int64()))
        self._places = [(store, part) for store in stores for part in range(len(store.part_rows))]
        self.part_rows = [store.part_rows[part] for store, part in self._places]
        self._stores = stores
        self._number = number

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        yield from self._whole(part, columns).to_batches()

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return about how many bytes some columns take."""
        return sum(store.bytes_of([name for name in columns if name != self._number]) for store in self._stores)

    def picked(self, wanted: Mask) -> Iterator[pa.Table]:
        """Yield some of the rows, part by part, without their numbers."""
        for part in range(len(self.part_rows)):
            rows = np.flatnonzero(wanted[self.bounds[part] : self.bounds[part + 1]])
            if len(rows):
                yield self._whole(part, self.schema.names[:-1]).take(rows)

    def _whole(self, part: int, columns: Sequence[str]) -> pa.Table:
        store, inner = self._places[part]
        held = [name for name in columns if name != self._number] or store.schema.names[:1]
        batches = list(store.read(inner, held))
        whole = pa.Table.from_batches(batches, pa.schema([store.schema.field(name) for name in held]))
        if self._number in columns:
            numbers = np.arange(self.bounds[part], self.bounds[part + 1])
            whole = whole.append_column(self._number, pa.array(numbers, pa.int64()))
        return whole.select(list(columns))


class Partition:
    """The rows of one partition, by their classes. What exceeds a limit is in the spill folder.

    Parameters
    ----------
    batches
        What Spark hands over: packets.
    meeting, context
        The join, and what it may use.

    Attributes
    ----------
    target
        Its number.
    joining
        What joins of its rows may use.

    Raises
    ------
    JunctureError
        If one of the tasks before failed with it, or there is no room to spill.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], meeting: Meeting, context: JoinContext) -> None:
        self.target = 0
        schemas = {"left": meeting.join.left_schema, "right": meeting.join.right_schema}
        self.joining = context.within(context.memory.reserve("join", JOIN_SHARE))
        received = {
            side: context.within(context.memory.reserve(f"{side} rows received", RECEIVED_SHARE)) for side in schemas
        }
        self._stores = {
            content: PacketStore(schemas[side], received[side])
            for side, classes in (("left", LEFT), ("right", RIGHT))
            for content in (classes.alone, classes.split, classes.copy)
        }
        for packet in read_packets(batches):
            self.target = packet.target
            if packet.content in self._stores:
                self._stores[packet.content].add(packet)
            else:
                raise_error(packet)
        for store in self._stores.values():
            store.finish()

    def rows(self, side: Side, *classes: Literal["alone", "split", "copy"]) -> Rows:
        """Return the rows of some classes of a side, one class after the other."""
        known: Classes = LEFT if side == "left" else RIGHT
        return Rows([self._stores[getattr(known, name)] for name in classes], NUMBERS[side])

    def count(self, side: Side, *classes: Literal["alone", "split", "copy"]) -> int:
        """Return how many rows of some classes there are."""
        return self.rows(side, *classes).num_rows


def numbered(join: Resolved, how: How, *, left: bool, right: bool) -> Resolved:
    """Return a join whose rows have numbers, and whose output shows those of some sides."""
    output = list(join.output)
    if left:
        ours = sum(column.side == "left" for column in output)
        output.insert(ours, OutputColumn(NUMBERS["left"], "left", NUMBERS["left"]))
    if right:
        output.append(OutputColumn(NUMBERS["right"], "right", NUMBERS["right"]))
    return replace(
        join,
        how=how,
        left_schema=join.left_schema.append(pa.field(NUMBERS["left"], pa.int64())),
        right_schema=join.right_schema.append(pa.field(NUMBERS["right"], pa.int64())),
        output=tuple(output),
    )


@dataclass(frozen=True)
class Meet:
    """Makes the pairs of one partition, and the rows without a match that no other partition has.

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
        """Yield the joined rows."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        with engine.task_context(self.meeting.memory_bytes) as context:
            partition = Partition(batches, self.meeting, context)
            join = self.meeting.join
            away = partition.count("left", "split", "copy") + partition.count("right", "split", "copy")
            if away and join.how != "inner":
                yield from self._told_apart(partition)
                return
            plain = numbered(join, join.how, left=False, right=False)
            for left, right in _meetings(partition):
                yield from engine.execute(plain, left, right, partition.joining)

    def _told_apart(self, partition: Partition) -> Iterator[pa.Table]:
        """Yield pairs, and of the rows without one those that are alone here."""
        join = self.meeting.join
        keeps: dict[Side, bool] = {"left": join.how in ("left", "full"), "right": join.how in ("right", "full")}
        kept = [side for side in NUMBERS if keeps[side]]
        seen = numbered(join, "inner", left=keeps["left"], right=keeps["right"])
        alone = {side: partition.rows(side, "alone") for side in kept}
        matched = {side: np.zeros(alone[side].num_rows, np.bool_) for side in kept}
        for number, (left, right) in enumerate(_meetings(partition)):
            for table in engine.execute(seen, left, right, partition.joining):
                for side in kept:
                    numbers = np.asarray(table[NUMBERS[side]])
                    # The rows that are alone come first wherever they take part.
                    if number == 0 or side == "left":
                        matched[side][numbers[numbers < len(matched[side])]] = True
                yield table.drop_columns([NUMBERS[side] for side in kept])
        for side in kept:
            for rows in alone[side].picked(~matched[side]):
                yield from engine.unmatched(join, side, rows, partition.joining)


def _meetings(partition: Partition) -> Iterator[tuple[Source, Source]]:
    """Yield rows that meet here, one of them at home: all pairs of a left and a right one, once."""
    yield partition.rows("left", "alone", "split", "copy"), partition.rows("right", "alone", "split")
    if partition.count("right", "copy"):
        yield partition.rows("left", "alone", "split"), partition.rows("right", "copy")
