"""Which right rows nobody took, where keys are split among partitions: a second step for ``right`` and ``full``.

A right row in its segment's edge may have been taken by a left row of another partition, which only that partition
knows. So the partition that has the row sets it aside as *pending*, called by its key and its rank in the edge; one
that took it says so, calling it the same; and a second shuffle brings both together. Where rows are equal in all
columns it does not matter which of them is meant, so a rank is name enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.errors import JunctureError
from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks import engine
from juncture.spark.tasks.asof.boundary import EdgeRows, Edges, Seen
from juncture.spark.tasks.join import Partition, Task
from juncture.spark.tasks.output import Output
from juncture.spark.tasks.packets import Content, Packet, error_packet, raise_error, read_packets, write_packets
from juncture.spark.tasks.placement import Coding, place
from juncture.spec.asof import Asof

__all__ = ["Resolve", "Settle"]


# Beside the user's own columns, so of names that nobody gives.
_LEFT, _RIGHT, _SEEN, _RANK = "juncture:left", "juncture:right", "juncture:seen", "juncture:rank"
_RANKS: dict[Seen, str] = {"backward": "juncture:backward", "forward": "juncture:forward"}


@dataclass(frozen=True)
class Settle:
    """Joins the rows of one partition, and sets aside the right rows that another one may have taken.

    Attributes
    ----------
    task
        The join.
    coding, cuts, edges
        How rows were placed, and what was carried.
    """

    task: Task
    coding: Coding
    cuts: Cuts
    edges: Edges

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packets of joined rows, of pending right rows, and of the names of taken ones."""
        return write_packets(self._packets(batches))

    def _packets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
        try:
            with engine.task_context(self.task.memory_bytes) as context:
                partition = Partition(batches, self.task, context, left_number=_LEFT, right_number=_RIGHT)
                yield from self._settled(partition)
        except JunctureError as error:
            yield error_packet(error)

    def _settled(self, partition: Partition) -> Iterator[Packet]:
        ranks = self._ranks(partition)
        shared = np.concatenate([rows for rows, _ in ranks.values()])
        pending, taken = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for joined in engine.join(self.task.spec, partition.left, partition.right, partition.joining):
            right = np.asarray(joined[_RIGHT].fill_null(-1))
            alone = np.asarray(joined[_LEFT].is_null())
            foreign = right >= partition.own_rows
            waits = alone & np.isin(right, shared)
            ready = joined.filter(pa.array(~waits & ~(foreign & alone))).drop_columns([_LEFT, _RIGHT])
            yield Packet(partition.target, Content.OUTPUT, ready)
            pending.append(right[waits])
            taken.append(right[foreign & ~alone])
        if len(waiting := np.unique(np.concatenate(pending))):
            yield Packet(partition.target, Content.PENDING, _named(partition, waiting, ranks))
        yield from self._taken(partition, np.unique(np.concatenate(taken)) - partition.own_rows)

    def _ranks(self, partition: Partition) -> dict[Seen, tuple[Ints, Ints]]:
        """Return the partition's own rows that others may take, and the rank of each in its segment's edge."""
        parts = [self._edge_rows(partition.carried.slice(0, 0).append_column(_RIGHT, pa.array([], pa.int64())))]
        parts += [self.edges.of(self._edge_rows(table)) for table in partition.right.tables()]
        whole = EdgeRows.concat(parts)
        own = (whole.partitions == partition.target) & (whole.numbers < partition.own_rows)
        whole = whole.take(np.flatnonzero(own))
        ranks: dict[Seen, tuple[Ints, Ints]] = {}
        for seen in self.edges.sides:
            ranked = self.edges.ranked(whole, seen)
            ranks[seen] = whole.numbers[ranked.rows], ranked.ranks
        return ranks

    def _edge_rows(self, table: pa.Table) -> EdgeRows:
        """Return those of some numbered right rows whose keys are split."""
        hashes, codes, valid = place(table, self.edges.by, self.edges.on, self.coding)
        homes = self.cuts.partition_of(hashes, codes)
        rows = np.flatnonzero(valid & np.isin(hashes, self.cuts.split_hashes))
        return EdgeRows(table, hashes, homes, np.asarray(table[_RIGHT])).take(rows)

    def _taken(self, partition: Partition, taken: Ints) -> Iterator[Packet]:
        """Yield the names of carried rows that were taken, to each partition that has them."""
        numbered = partition.carried.append_column(_RIGHT, pa.array(np.arange(partition.carried.num_rows)))
        carried = self._edge_rows(numbered)
        for seen in self.edges.sides:
            homes = carried.partitions
            beyond = homes < partition.target if seen == "backward" else homes > partition.target
            there = carried.take(np.flatnonzero(beyond))
            ranked = self.edges.ranked(there, seen)
            known = np.isin(there.numbers[ranked.rows], taken)
            rows, ranks = ranked.rows[known], ranked.ranks[known]
            for home in np.unique(there.partitions[rows]).tolist():
                here = there.partitions[rows] == home
                keys = there.rows.take(rows[here])
                columns = {name: keys[name] for name in self.edges.by}
                columns[_SEEN], columns[_RANK] = pa.array([seen] * keys.num_rows), pa.array(ranks[here])
                yield Packet(home, Content.TAKEN, pa.table(columns))


def _named(partition: Partition, rows: Ints, ranks: dict[Seen, tuple[Ints, Ints]]) -> pa.Table:
    """Return right rows with their ranks as seen from each side, null where they have none."""
    table = partition.right.take(rows).drop_columns([_RIGHT])
    for seen, column in _RANKS.items():
        known, ranked = ranks.get(seen, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
        found = dict(zip(known.tolist(), ranked.tolist(), strict=True))
        table = table.append_column(column, pa.array([found.get(row) for row in rows.tolist()], pa.int64()))
    return table


@dataclass(frozen=True)
class Resolve:
    """Brings pending right rows and the names of taken ones together.

    Attributes
    ----------
    task
        The join.
    by
        The columns of the right side's key.
    output
        What Spark expects.
    """

    task: Task
    by: tuple[str, ...]
    output: Output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are ready, and the pending ones that nobody took."""
        return self.output.batches(self._tables(batches))

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        pending, taken = [], []
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows
            elif packet.content is Content.PENDING:
                pending.append(packet.rows)
            elif packet.content is Content.TAKEN:
                taken.append(packet.rows)
            else:
                raise_error(packet)
        if not pending:
            return
        with engine.task_context(self.task.memory_bytes) as context:
            yield from self._unclaimed(pa.concat_tables(pending), taken, context)

    def _unclaimed(self, rows: pa.Table, taken: list[pa.Table], context: JoinContext) -> Iterator[pa.Table]:
        """Yield those of some right rows that no partition took."""
        for seen, column in _RANKS.items():
            if taken:
                names = pa.concat_tables(taken)
                names = names.filter(pc.equal(names[_SEEN], seen))
                spec = Asof(left_on=column, right_on=_RANK, by=self.by, tolerance=0, how="anti")
                rows = pa.concat_tables([rows.slice(0, 0), *engine.join(spec, rows, names, context)])
        rows = rows.drop_columns(list(_RANKS.values()))
        yield from engine.join(self.task.spec, self.task.left.empty_table(), rows, context)
