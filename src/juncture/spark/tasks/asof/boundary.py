"""Carryover: what a partition has to know of a key that others have rows of too.

Where a cut splits a key, the left rows behind it may match right rows in front of it, and the other way round. All that
they can match are the *k* nearest right rows of the key on the other side, since every right row within the partition
is nearer than those. Each task sends the *k* nearest of its own rows to each partition behind (or before) them;
together these hold the *k* nearest of all.

A *segment* is the part of a key within one partition. Its *edge* is its best *k* rows as seen from beyond it: the last
ones for partitions behind it, the first ones for those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.kernels.array_types import Ints, Words
from juncture.spark.exchange.partition import Cuts
from juncture.spark.tasks import engine
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.placement import dense_keys
from juncture.spec.asof import Asof

__all__ = ["EdgeRows", "Edges", "Seen"]

Seen = Literal["backward", "forward"]


@dataclass(frozen=True)
class EdgeRows:
    """Right rows that may be seen from beyond their partition.

    Attributes
    ----------
    rows
        The rows.
    hashes, partitions
        The hash of each one's key, and where it is at home.
    numbers
        What each is called by whoever has them.
    """

    rows: pa.Table
    hashes: Words
    partitions: Ints
    numbers: Ints

    def take(self, rows: Ints) -> EdgeRows:
        """Return some of them."""
        return EdgeRows(self.rows.take(rows), self.hashes[rows], self.partitions[rows], self.numbers[rows])

    @classmethod
    def concat(cls, parts: Sequence[EdgeRows]) -> EdgeRows:
        """Return the rows of several parts."""
        rows = pa.concat_tables([part.rows for part in parts]).unify_dictionaries().combine_chunks()
        return cls(
            rows,
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.partitions for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )


@dataclass(frozen=True)
class Ranked:
    """Edges: rows in order of key and partition, the best first within each segment.

    Attributes
    ----------
    rows
        Positions of the rows.
    keys
        A number for each one's key.
    ranks
        Its place in its segment's edge, from 0.
    """

    rows: Ints
    keys: Ints
    ranks: Ints


@dataclass(frozen=True)
class Edges:
    """Finds the rows to carry.

    Attributes
    ----------
    by, on, ties
        Columns of the right side: the key, the order, and what decides among equal ones, the first first.
    count
        How many rows a left row may need from beyond its partition.
    sides
        Where left rows look: ``"backward"`` to partitions before theirs, ``"forward"`` to those behind.
    """

    by: tuple[str, ...]
    on: str
    ties: tuple[str, ...]
    count: int
    sides: tuple[Seen, ...]

    def of(self, part: EdgeRows) -> EdgeRows:
        """Return those rows that are in the edge of a segment, as seen from any side."""
        if part.rows.num_rows == 0:
            return part
        return part.take(np.unique(np.concatenate([self.ranked(part, seen).rows for seen in self.sides])))

    def ranked(self, part: EdgeRows, seen: Seen) -> Ranked:
        """Return the edges of all segments as seen from one side."""
        if part.rows.num_rows == 0:
            nothing = np.zeros(0, np.int64)
            return Ranked(nothing, nothing, nothing)
        table = part.rows
        keys = dense_keys(table, self.by) if self.by else np.zeros(table.num_rows, np.int64)
        _, segments = np.unique(np.stack([keys, part.partitions]), axis=1, return_inverse=True)
        segments = segments.reshape(-1).astype(np.int64)
        # Of rows that are equal in all columns the last one comes first, in every join that ranks them.
        ties = [*(table[name] for name in self.ties), pa.array(np.arange(table.num_rows))]
        names = ["segment", "on", *(f"tie{i}" for i in range(len(ties)))]
        right = pa.table([pa.array(segments), table[self.on], *ties], names=names)
        # A left row for each segment, from which all of its rows are on the wanted side.
        far = pc.max(table[self.on]) if seen == "backward" else pc.min(table[self.on])
        count = int(segments.max()) + 1
        left = pa.table({"segment": pa.array(range(count), pa.int64()), "far": pa.repeat(far, count)})
        spec = Asof(left_on="far", right_on="on", by="segment", direction=seen, matches=self.count, how="inner")
        with engine.task_context() as context:
            found, rows = engine.match(spec, left, right, context)
        return Ranked(rows, keys[rows], np.arange(len(found)) - np.searchsorted(found, found, side="left"))

    def carried(self, parts: Sequence[EdgeRows], cuts: Cuts) -> Iterator[Packet]:
        """Yield what one task carries, given the edges of its chunks."""
        whole = EdgeRows.concat(parts)
        receivers: dict[int, list[Ints]] = {}
        for seen in self.sides:
            ranked = self.ranked(whole, seen)
            for edge in np.split(ranked.rows, np.flatnonzero(np.diff(ranked.keys)) + 1):
                for target, rows in self._receive(edge, whole, seen, cuts):
                    receivers.setdefault(target, []).append(rows)
        for target, lists in sorted(receivers.items()):
            yield Packet(target, Content.CARRIED, whole.rows.take(np.concatenate(lists)))

    def _receive(self, edge: Ints, whole: EdgeRows, seen: Seen, cuts: Cuts) -> Iterator[tuple[int, Ints]]:
        """Yield each partition that sees rows of a key, with those that it sees."""
        if len(edge) == 0:
            return
        first, last = cuts.span(int(whole.hashes[edge[0]]))
        # The nearest segment first, and within one the best row first.
        homes = whole.partitions[edge]
        nearness = np.argsort(-homes if seen == "backward" else homes, kind="stable")
        edge, homes = edge[nearness], homes[nearness]
        for target in range(first, last + 1):
            beyond = edge[homes < target] if seen == "backward" else edge[homes > target]
            if len(beyond):
                yield target, beyond[: self.count]
