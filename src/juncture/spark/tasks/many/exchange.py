"""Sending the rows of a spine and its tables to the partition of their key, and receiving them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.hashes import KeyHashes
from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.spark.tasks.engine import JOIN_SHARE
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet, read_packets
from juncture.spark.tasks.placement import one_chunk
from juncture.spark.tasks.scatter import apart, encode_keys
from juncture.spark.tasks.stage import PacketStage
from juncture.spark.tasks.store import ChainedRows, PacketStore

SPINE = "spine"
"""The side of packets of the spine."""

_RECEIVED_SHARE = 1 / 4
"""Share of a task's memory for received rows; the rest of the rows spill."""


@dataclass(frozen=True)
class ByKey:
    """Places rows by the hash of their key; `types` are those of each pair of key columns, of spine and tables."""

    types: tuple[tuple[pa.DataType, pa.DataType], ...]
    nulls_equal: bool
    partitions: int

    def targets(self, table: pa.Table, by: tuple[str, ...]) -> tuple[Ints, Ints]:
        """Return the partition of each row, and which rows have a key."""
        if not by:
            return np.zeros(table.num_rows, np.int64), np.arange(table.num_rows)
        left, right = ([pair[side] for pair in self.types] for side in (0, 1))
        hashes, usable = KeyHashes(left, right, nulls_equal=self.nulls_equal).of(
            [one_chunk(table[name]) for name in by]
        )
        targets = (hashes % np.uint64(self.partitions)).astype(np.int64)
        if usable is None:
            return targets, np.arange(len(targets))
        # Rows that cannot match are spread evenly.
        strangers = np.flatnonzero(~usable)
        targets[strangers] = np.arange(len(strangers)) % self.partitions
        return targets, np.flatnonzero(usable)

    def sent(self, table: pa.Table, by: tuple[str, ...], side: str, *, keep_all: bool) -> Iterator[Packet]:
        """Yield packets of some rows; rows without a key only if `keep_all`."""
        table = encode_keys(table.combine_chunks(), by)
        targets, keyed = self.targets(table, by)
        if not keep_all and len(keyed) < table.num_rows:
            table, targets = table.take(pa.array(keyed)), targets[keyed]
        yield from apart(table, targets, self.partitions, Content.OWNED, side)


@dataclass(frozen=True)
class ScatterByKey(PacketStage):
    """Sends rows of the spine (`SPINE`) or of a table (its name) to the partitions of their keys."""

    feed: Feed
    side: str
    by: tuple[str, ...]
    placement: ByKey

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield one task's packets."""
        for chunk in self.feed.chunks(batches):
            yield from self.placement.sent(chunk, self.by, self.side, keep_all=self.side == SPINE)


def received(
    batches: Iterable[pa.RecordBatch], schemas: Mapping[str, pa.Schema], context: JoinContext
) -> tuple[dict[str, Source], JoinContext]:
    """Return the rows that a partition received, by side, and the context for their joins."""
    stores = {
        side: PacketStore(schema, context.within(context.memory.reserve(side, _RECEIVED_SHARE / len(schemas))))
        for side, schema in schemas.items()
    }
    for packet in read_packets(batches):
        assert packet.side is not None
        stores[packet.side].add(packet)
    for store in stores.values():
        store.finish()
    joining = context.within(context.memory.reserve("join", JOIN_SHARE))
    return {side: ChainedRows([store]) for side, store in stores.items()}, joining
