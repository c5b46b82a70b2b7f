"""The query of a join of many tables to one spine, and its match report.

The spine is shuffled once for each key, and not at all for small tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from juncture.columnar.types import plain_type
from juncture.errors import spark_errors
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.choose import choose, refusal
from juncture.planner.decision import Choice
from juncture.planner.many import ManyReport
from juncture.planner.report import MatchReport
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.planner.tables import sharing, table_algorithms
from juncture.spark.asof.plan import grouped_figures
from juncture.spark.asof.plan import report_of as report_of_figures
from juncture.spark.exchange import broadcast_side, finish, packets, partition_count, shuffled, task_output
from juncture.spark.frames import union_all
from juncture.spark.input.sides import FileSide, SparkSide
from juncture.spark.schema import spark_schema
from juncture.spark.tasks.cuts import even_cuts
from juncture.spark.tasks.feed import BatchFeed, BroadcastTable, Feed
from juncture.spark.tasks.many import REPORT_SCHEMA, SPINE, CountTables, JoinAndSend, JoinKey, KeyStep, TaskTable
from juncture.spark.tasks.placement import Coding, Placement
from juncture.spark.tasks.scatter import Scatter, encoded
from juncture.spec.many import ResolvedTable
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        needed = {*table.right_output.needed("right"), *checked}
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
    return tuple((plain_type(left), plain_type(right)) for left, right in zip(*join.key_types, strict=True))


@dataclass
class ManyQuery:
    """Builds the query of a spine and its tables; `jobs` are the jobs that ran, in words."""

    spine: SparkSide
    steps: Steps
    memory_bytes: int
    jobs: list[str] = field(default_factory=list)

    def frame(self, schema: st.StructType) -> DataFrame:
        """Return the result with the columns of the spine and of all tables that are not joined alone."""
        arrived, step = self._shuffled() if self.steps.shuffles else self._unshuffled()
        stage = JoinKey(step, tuple(schema.names), memory_bytes=self.memory_bytes, output=task_output(schema))
        return finish(arrived, stage, schema)

    def counts(self) -> DataFrame:
        """Return the counts of partitions for a report, each table against the whole spine."""
        schema = spark_schema(REPORT_SCHEMA)
        alone = [Shuffle((), self.steps.alone, 1)] if self.steps.alone else []
        inputs = [
            (self._arrived(shuffle, self._sent(shuffle)), self._step(shuffle, self.spine.schema, ()))
            for shuffle in (*alone, *self.steps.shuffles)
        ]
        inputs += [self._unshuffled()] if self.steps.sent else []
        output, memory_bytes = task_output(schema), self.memory_bytes
        frames = [
            finish(arrived, CountTables(step, memory_bytes=memory_bytes, output=output), schema)
            for arrived, step in inputs
        ]
        return union_all(frames)

    def _unshuffled(self) -> tuple[DataFrame, KeyStep]:
        """Return what tasks receive if all tables are broadcast, and their join."""
        rows, feed = self.spine.rows(self.spine.schema.names)
        return rows, KeyStep(feed.schema, self._tables(feed.schema, [], self.steps.sent), feed)

    def _shuffled(self) -> tuple[DataFrame, KeyStep]:
        """Return what the last tasks receive after a shuffle for each key, and their join."""
        shuffles, spine = self.steps.shuffles, self.spine.schema
        arrived = self._arrived(shuffles[0], self._sent(shuffles[0]))
        for shuffle, following in pairwise(shuffles):
            step = self._step(shuffle, spine, ())
            spine = _joined_schema(spine, shuffle.tables)
            onward = following.scatter(BatchFeed(spine), SPINE, following.by, self.memory_bytes)
            sent = packets(arrived, JoinAndSend(step, onward, memory_bytes=self.memory_bytes))
            arrived = self._arrived(following, sent)
        # Broadcast tables are joined last, so that their columns are not shuffled.
        return arrived, self._step(shuffles[-1], spine, self.steps.sent)

    def _arrived(self, shuffle: Shuffle, sent: DataFrame) -> DataFrame:
        """Return the rows of the spine and of a shuffle's tables in their partitions."""
        every = [sent, *(self._sent(shuffle, each) for each in shuffle.tables)]
        return shuffled(union_all(every), shuffle.partitions)

    def _sent(self, shuffle: Shuffle, placed: Placed | None = None) -> DataFrame:
        """Return the packets of the spine or of a table."""
        side, name, by, columns = self.spine, SPINE, shuffle.by, self.spine.schema.names
        if placed is not None:
            side, name, by, columns = placed.side, placed.table.name, placed.table.join.right_by, placed.needed
        rows, feed = side.rows(columns, by)
        return packets(rows, shuffle.scatter(feed, name, by, self.memory_bytes))

    def _step(self, shuffle: Shuffle, spine: pa.Schema, sent: Sequence[Placed]) -> KeyStep:
        spine_schema = encoded(spine, shuffle.by)
        return KeyStep(spine_schema, self._tables(spine_schema, shuffle.tables, sent))

    def _tables(self, spine: pa.Schema, shuffled: Sequence[Placed], sent: Sequence[Placed]) -> tuple[TaskTable, ...]:
        tables = [_as_tasks_see(each, spine) for each in shuffled]
        for each in sent:
            table, jobs = broadcast_side(each.side, each.needed, "right")
            self.jobs += jobs
            tables.append(_as_tasks_see(each, spine, table))
        return tuple(tables)


def _as_tasks_see(placed: Placed, spine: pa.Schema, sent: BroadcastTable | None = None) -> TaskTable:
    """Return a table resolved against the schemas in tasks; keys of received rows are encoded."""
    table, schema = placed.table, placed.side.schema
    needed = pa.schema([schema.field(name) for name in placed.needed])
    right_schema = needed if sent is not None else encoded(needed, table.join.right_by)
    # Columns that other tables added are not part of its join.
    spine_schema = pa.schema([field for field in spine if field.name in table.join.left_schema.names])
    return TaskTable(replace(table, join=table.join.for_tasks().over(spine_schema, right_schema)), sent)


def _joined_schema(spine: pa.Schema, tables: Sequence[Placed]) -> pa.Schema:
    """Return the spine's schema with the columns of some tables."""
    fields = list(spine)
    for each in tables:
        fields += [pa.field(one.name, one.type) for one in each.table.right_output.output_schema]
    return pa.schema(fields)


def field_of(placed: Placed, name: str) -> st.StructField:
    """Return a column that a table adds, in Spark's types."""
    table = placed.table
    for column in table.columns:
        if column.name == name:
            field = placed.side.spark_schema[column.source]
            return st.StructField(name, field.dataType, metadata=field.metadata)
    [aggregate] = [each for each in table.aggregates if each.name == name]
    return spark_schema(pa.schema([(name, aggregate.type)])).fields[0]


@spark_errors()
def report_of(names: Sequence[str], side: SparkSide, steps: Steps, resources: Resources) -> ManyReport:
    """Count the matched and unmatched rows of the spine for each table, all in shared partitions, in one job."""
    query, reports = ManyQuery(side, steps, resources.memory_bytes), dict[str, MatchReport]()
    figures = grouped_figures(query.counts(), ["table", "figure"])
    for each in steps.tables:
        name, join = each.table.name, each.table.join
        report = report_of_figures(join, [row for row in figures if row["table"] == name])
        if each in steps.sent:
            report = replace(report, right_rows=each.stats.rows or 0)
        if each.table.check_available_at is not None:
            report = replace(report, leaked=report.leaked or 0)
        reports[name] = report
    return ManyReport({name: reports[name] for name in names})
