"""The steps of a join of many tables on Spark: one shuffle of the spine for each key, and none for small tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from juncture.columnar.types import plain_type
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.choose import choose, refusal
from juncture.planner.decision import Choice
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.planner.tables import sharing, table_algorithms
from juncture.spark.exchange import partition_count
from juncture.spark.input.sides import FileSide, SparkSide
from juncture.spark.tasks.cuts import even_cuts
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.many import SPINE
from juncture.spark.tasks.placement import Coding, Placement
from juncture.spark.tasks.scatter import Scatter
from juncture.spec.many import ResolvedTable
from juncture.spec.schema import Side


@dataclass(frozen=True)
class Placed:
    """A table, its input and its size; `choice` is what joins it, None for one that is joined alone."""

    table: ResolvedTable
    side: SparkSide
    stats: SideStats
    choice: Choice | None = None

    @property
    def is_shuffled(self) -> bool:
        """Whether it is joined after a shuffle of the spine."""
        return self.choice is not None and self.choice.algorithm == "shared_shuffle"

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

    def scatter(self, feed: Feed, name: str, by: tuple[str, ...], memory_bytes: int) -> Scatter:
        """Return the stage that sends rows of the spine (`SPINE`) or a table to the partitions of their keys."""
        side: Side = "left" if name == SPINE else "right"
        join = self.tables[0].table.join
        coding = Coding(_key_types(join), (), nulls_equal=join.nulls_equal)
        placement, cuts = Placement(side, by, coding, None, by), even_cuts(self.partitions)
        return Scatter(feed, name, by, placement, cuts, keep_unmatchable=name == SPINE, memory_bytes=memory_bytes)


@dataclass(frozen=True)
class Steps:
    """How tables are joined: large ones without a key `alone`, others by `shuffles`, small ones broadcast (`sent`)."""

    alone: tuple[Placed, ...]
    shuffles: tuple[Shuffle, ...]
    sent: tuple[Placed, ...]

    @property
    def tables(self) -> tuple[Placed, ...]:
        """All tables."""
        return (*self.alone, *(one for each in self.shuffles for one in each.tables), *self.sent)

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


def steps_of(
    tables: Sequence[Placed], spine: SparkSide, spine_stats: SideStats, resources: Resources, shuffle_partitions: int
) -> Steps:
    """Return the steps for some tables; other arguments as for `juncture.spark.exchange.partition_count`."""
    groups, beside = dict[Any, dict[str, PlanningInput]](), 0
    for each in sorted(tables, key=lambda each: each.stats.bytes or 0):
        join = each.table.join
        planning = PlanningInput(
            join=join,
            engine="spark",
            stats=Stats(left=spine_stats, right=each.stats),
            resources=resources,
            direct=isinstance(spine, FileSide) and isinstance(each.side, FileSide),
            features=JoinFeatures(sent_bytes=beside),
        )
        beside += each.stats.bytes or 0
        key = join.left_by, tuple(map(str, _key_types(join))), join.nulls_equal
        groups.setdefault(key, {})[each.table.name] = planning
    chosen = dict[str, Choice | None]()
    for group in groups.values():
        for name, planning in zip(group, sharing(list(group.values())), strict=True):
            among = table_algorithms(planning.join.spec, "spark")
            runs = any(refusal(planning, algorithm) is None for algorithm in among)
            chosen[name] = choose(planning, among=among) if runs else None
    placed = [replace(each, choice=chosen[each.table.name]) for each in tables]
    shuffles = []
    for group in groups.values():
        shared = [each for each in placed if each.table.name in group and each.is_shuffled]
        if not shared:
            continue
        rows = sum(each.stats.rows or 0 for each in shared)
        size = sum(each.stats.bytes or 0 for each in shared)
        stats = Stats(left=spine_stats, right=SideStats(rows=rows, row_bytes=-(-size // max(rows, 1))))
        partitions = partition_count(stats, resources, shuffle_partitions)
        shuffles.append(Shuffle(shared[0].table.join.left_by, tuple(shared), partitions))
    alone = tuple(each for each in placed if each.choice is None)
    sent = tuple(each for each in placed if each.choice is not None and not each.is_shuffled)
    return Steps(alone, tuple(sorted(shuffles, key=lambda each: placed.index(each.tables[0]))), sent)


def _key_types(join: Any) -> tuple[tuple[pa.DataType, pa.DataType], ...]:
    """Return the types of each pair of key columns, without their encodings."""
    return tuple(
        (plain_type(join.left_schema.field(left).type), plain_type(join.right_schema.field(right).type))
        for left, right in zip(join.left_by, join.right_by, strict=True)
    )
