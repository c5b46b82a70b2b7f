"""The steps of a join of many tables on Spark: one shuffle of the spine for each key, and none for small tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.input.frame import SparkSide
from juncture.spark.query import partition_count
from juncture.spark.tasks.many.exchange import ByKey
from juncture.spec.many import ResolvedTable

SENT_BYTES = 8 << 20
"""Up to this size, a table is broadcast."""
ALL_SENT_BYTES = 48 << 20
"""Most bytes of all broadcast tables."""


@dataclass(frozen=True)
class Placed:
    """A table, its input and its size."""

    table: ResolvedTable
    side: SparkSide
    stats: SideStats

    @property
    def needed(self) -> list[str]:
        """The columns that tasks need, in schema order: compared, returned or deciding."""
        table = self.table
        if table.duplicates == "greatest":
            return list(self.side.schema.names)
        checked = () if table.check_available_at is None else (table.check_available_at.right,)
        needed = {*table.shown.needed("right"), *checked}
        return [name for name in self.side.schema.names if name in needed]


@dataclass(frozen=True)
class Shuffle:
    """Tables with the same key, which share a shuffle of the spine by the columns `by`."""

    by: tuple[str, ...]
    tables: tuple[Placed, ...]
    partitions: int

    def placement(self) -> ByKey:
        """Return the placement of rows."""
        join = self.tables[0].table.join
        return ByKey(_key_types(join), join.nulls_equal, self.partitions)


@dataclass(frozen=True)
class Steps:
    """How tables are joined: large ones without a key `alone`, others by `shuffles`, small ones broadcast (`sent`)."""

    alone: tuple[Placed, ...]
    shuffles: tuple[Shuffle, ...]
    sent: tuple[Placed, ...]

    def words(self) -> list[tuple[str, str]]:
        """Yield the steps in words, as pairs of heading and text."""
        words = [("alone", f"{each.table.name}: no key, so joined separately") for each in self.alone]
        for each in self.shuffles:
            names = ", ".join(one.table.name for one in each.tables)
            words.append(
                (
                    "shuffle",
                    f"the spine by {', '.join(each.by)} into {each.partitions} partitions, once for {names}",
                )
            )
        if self.sent:
            words.append(
                ("broadcast", f"to every task, without a shuffle: {', '.join(one.table.name for one in self.sent)}")
            )
        return words


def steps_of(tables: Sequence[Placed], spine: SideStats, resources: Resources, shuffle_partitions: int) -> Steps:
    """Return the steps for some tables; other arguments as for `juncture.spark.query.partition_count`."""
    sent, total = set[str](), 0
    for each in sorted(tables, key=lambda each: each.stats.bytes or 0):
        size = each.stats.bytes
        if size is not None and size <= SENT_BYTES and total + size <= ALL_SENT_BYTES:
            sent.add(each.table.name)
            total += size
    alone, groups = list[Placed](), dict[Any, list[Placed]]()
    for each in tables:
        join = each.table.join
        if each.table.name in sent:
            continue
        if not join.left_by:
            alone.append(each)
        else:
            name = join.left_by, tuple(map(str, _key_types(join))), join.nulls_equal
            groups.setdefault(name, []).append(each)
    shuffles = []
    for group in groups.values():
        rows = sum(each.stats.rows or 0 for each in group)
        size = sum(each.stats.bytes or 0 for each in group)
        stats = Stats(left=spine, right=SideStats(rows=rows, row_bytes=-(-size // max(rows, 1))))
        partitions = partition_count(stats, resources, shuffle_partitions)
        shuffles.append(Shuffle(group[0].table.join.left_by, tuple(group), partitions))
    return Steps(tuple(alone), tuple(shuffles), tuple(each for each in tables if each.table.name in sent))


def _key_types(join: Any) -> tuple[tuple[pa.DataType, pa.DataType], ...]:
    """Return the types of each pair of key columns, without their encodings."""
    return tuple(
        (plain_type(join.left_schema.field(left).type), plain_type(join.right_schema.field(right).type))
        for left, right in zip(join.left_by, join.right_by, strict=True)
    )
