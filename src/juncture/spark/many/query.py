"""The query of a join of many tables to one spine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from juncture.spark.exchange.exchange import finish, packets, shuffled
from juncture.spark.input.broadcast import broadcast_side
from juncture.spark.input.frame import SparkSide
from juncture.spark.many.steps import Placed, Shuffle, Steps
from juncture.spark.result import task_output
from juncture.spark.schema import spark_schema
from juncture.spark.tasks.many.exchange import SPINE, ScatterByKey
from juncture.spark.tasks.many.join import (
    REPORT_SCHEMA,
    CountPartition,
    CountSent,
    JoinAndSend,
    JoinKey,
    JoinSent,
    KeyStep,
    TaskTable,
)
from juncture.spark.tasks.output import TaskOutput
from juncture.spark.tasks.scatter import encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class ManyQuery:
    """Builds the query of a spine and its tables; `jobs` are the jobs that ran, in words."""

    spine: SparkSide
    steps: Steps
    memory_bytes: int
    jobs: list[str] = field(default_factory=list)

    def frame(self, schema: st.StructType) -> DataFrame:
        """Return the result with the columns of the spine and of all tables that are not joined alone."""
        names, shuffles = tuple(schema.names), self.steps.shuffles
        output = task_output(schema)
        if not shuffles:
            rows, feed = self.spine.rows(self.spine.schema.names)
            step = KeyStep(feed.schema, self._tables(feed.schema, [], self.steps.sent))
            return finish(rows, JoinSent(feed, step, names, memory_bytes=self.memory_bytes, output=output), schema)
        spine_schema, sent = self.spine.schema, self._scattered(SPINE, self.spine, shuffles[0])
        for number, shuffle in enumerate(shuffles):
            is_last = number + 1 == len(shuffles)
            arrived = self._arrived(shuffle, sent)
            # Broadcast tables are joined last, so that their columns are not shuffled.
            step = self._step(shuffle, spine_schema, self.steps.sent if is_last else ())
            if is_last:
                stage = JoinKey(step, names, memory_bytes=self.memory_bytes, output=output)
                return finish(arrived, stage, schema)
            spine_schema, following = _joined_schema(spine_schema, shuffle.tables), shuffles[number + 1]
            onward = JoinAndSend(
                step, spine_schema, following.by, following.placement(), memory_bytes=self.memory_bytes
            )
            sent = packets(arrived, onward)
        raise AssertionError("the last step gives out the result")

    def counts(self) -> DataFrame:
        """Return the counts of partitions for a report, each table against the whole spine."""
        schema = spark_schema(REPORT_SCHEMA)
        output = TaskOutput(pa.schema([(f"c{i}", each.type) for i, each in enumerate(REPORT_SCHEMA)]))
        frames = []
        alone = [Shuffle((), self.steps.alone, 1)] if self.steps.alone else []
        for shuffle in (*alone, *self.steps.shuffles):
            arrived = self._arrived(shuffle, self._scattered(SPINE, self.spine, shuffle))
            stage = CountPartition(
                self._step(shuffle, self.spine.schema, ()), memory_bytes=self.memory_bytes, output=output
            )
            frames.append(finish(arrived, stage, schema))
        if self.steps.sent:
            rows, feed = self.spine.rows(self.spine.schema.names)
            step = KeyStep(feed.schema, self._tables(feed.schema, [], self.steps.sent))
            frames.append(finish(rows, CountSent(feed, step, memory_bytes=self.memory_bytes, output=output), schema))
        return reduce(lambda one, other: one.unionAll(other), frames)

    def _arrived(self, shuffle: Shuffle, sent: DataFrame) -> DataFrame:
        """Return the rows of the spine and of a shuffle's tables in their partitions."""
        every = [sent, *(self._scattered(each.table.name, each.side, shuffle, each) for each in shuffle.tables)]
        return shuffled(reduce(lambda one, other: one.unionAll(other), every), shuffle.partitions)

    def _scattered(self, side: str, source: SparkSide, shuffle: Shuffle, placed: Placed | None = None) -> DataFrame:
        by = shuffle.by if placed is None else placed.table.join.right_by
        rows, feed = source.rows(source.schema.names if placed is None else placed.needed, by)
        return packets(rows, ScatterByKey(feed, side, by, shuffle.placement(), memory_bytes=self.memory_bytes))

    def _step(self, shuffle: Shuffle, spine: pa.Schema, sent: Sequence[Placed]) -> KeyStep:
        spine_schema = encoded(spine, shuffle.by)
        return KeyStep(spine_schema, self._tables(spine_schema, shuffle.tables, sent))

    def _tables(self, spine: pa.Schema, shuffled: Sequence[Placed], sent: Sequence[Placed]) -> tuple[TaskTable, ...]:
        """Return tables in the form of tasks."""
        tables = [_as_tasks_see(each, spine, encoding=lambda schema, by: encoded(schema, by)) for each in shuffled]
        for each in sent:
            seen = _as_tasks_see(each, spine, encoding=lambda schema, _: schema)
            table, jobs = broadcast_side(each.side, each.needed, "right")
            self.jobs += jobs
            tables.append(replace(seen, sent=table))
        return tuple(tables)


def _as_tasks_see(
    placed: Placed, spine: pa.Schema, *, encoding: Callable[[pa.Schema, tuple[str, ...]], pa.Schema]
) -> TaskTable:
    """Return a table resolved against the schemas in tasks."""
    table, schema = placed.table, placed.side.schema
    right_schema = encoding(pa.schema([schema.field(name) for name in placed.needed]), table.join.right_by)
    # Columns that other tables added are not part of its join.
    spine_schema = pa.schema([field for field in spine if field.name in table.join.left_schema.names])
    return TaskTable(replace(table, join=table.join.for_tasks().over(spine_schema, right_schema)))


def _joined_schema(spine: pa.Schema, tables: Sequence[Placed]) -> pa.Schema:
    """Return the spine's schema with the columns of some tables."""
    fields = list(spine)
    for each in tables:
        fields += [pa.field(one.name, one.type) for one in each.table.shown.output_schema]
    return pa.schema(fields)


def field_of(placed: Placed, name: str) -> st.StructField:
    """Return a column that a table adds, in Spark's types."""
    table = placed.table
    for column in table.columns:
        if column.name == name:
            own = placed.side.spark_schema[column.source]
            return st.StructField(name, own.dataType, metadata=own.metadata)
    [made] = [each for each in table.aggregates if each.name == name]
    return spark_schema(pa.schema([(name, made.type)])).fields[0]
