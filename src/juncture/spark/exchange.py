"""Joins in tasks: packets between Spark's stages, broadcast sides, and the result as a DataFrame.

A shuffled join has one shuffle of both sides, and a second one for rows that a partition cannot resolve alone. A
broadcast join shuffles nothing: a small DataFrame is collected when the join is built and sent with the tasks' code,
and a small table in files is read by each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql import types as st

from juncture.columnar.types import is_null_type
from juncture.errors import PlanError
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.context import join_context
from juncture.spark.frames import to_arrow
from juncture.spark.input.sides import FileSide, SparkSide, merged
from juncture.spark.schema import arrow_schema, nullable, spark_schema
from juncture.spark.session.session import version_of
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.feed import BroadcastTable, Feed, FileTable, send
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content
from juncture.spark.tasks.placement import Placement
from juncture.spark.tasks.scatter import Scatter, encoded
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spec.aggregate import CHOSEN
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PARTITIONS_PER_CORE = 2

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the number of shuffle partitions."""


@dataclass(frozen=True)
class BuiltJoin:
    """A result, the jobs that ran while it was built, and what `explain` adds (pairs of heading and text)."""

    frame: DataFrame
    jobs: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    tasks: tuple[LastTasks, ...] = ()  # return its rows, in the order of its partitions; empty if Spark's SQL does

    @classmethod
    def of(
        cls,
        tasks: Sequence[LastTasks],
        schema: st.StructType,
        *,
        jobs: Sequence[str] = (),
        details: tuple[tuple[str, str], ...] = (),
    ) -> BuiltJoin:
        """Return the result of tasks."""
        frame = reduce(lambda one, other: one.union(other), (finish(each.frame, each.stage, schema) for each in tasks))
        return cls(frame, tuple(jobs), details, tuple(tasks))

    def replayed(self, partition: int) -> Iterator[pa.Table]:
        """Run the task of one partition of the result in this process, and yield its rows."""
        for each in self.tasks:
            if each.partitions is None or partition < each.partitions:
                yield from each.replayed(partition)
                return
            partition -= each.partitions


def partition_count(stats: Stats, resources: Resources, shuffle_partitions: int) -> int:
    """Return the number of shuffle partitions: each takes at most a quarter of a task's memory.

    Without row counts it is `shuffle_partitions`, the session's setting.
    """
    least = _PARTITIONS_PER_CORE * resources.cores
    sizes = [side.bytes for side in (stats.left, stats.right)]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return max(least, shuffle_partitions)
    return max(least, -(-sum(known_sizes) // (resources.memory_bytes // 4)))


def packets(frame: DataFrame, stage: PacketStage) -> DataFrame:
    """Return the packets that tasks make of a DataFrame's partitions."""
    # The JVM would have to parse types given as text, which takes longer than the rest of this function.
    return frame.mapInArrow(stage, spark_schema(PACKET_SCHEMA))


def shuffled(frame: DataFrame, partitions: int) -> DataFrame:
    """Send each packet to its target partition."""
    # A client may be newer than its server.
    if hasattr(frame, "repartitionById") and version_of(frame.sparkSession) >= (4, 1):
        return frame.repartitionById(partitions, "target")
    return shuffled_by_hash(frame, partitions)


def shuffled_by_hash(frame: DataFrame, partitions: int) -> DataFrame:
    """Send each packet to its target partition in any version of Spark, by the hash of a number chosen for it."""
    if partitions == 1:
        return frame.repartition(1)
    # Spark folds the list of numbers into one literal. An array of literals takes seconds to analyze.
    numbers = ",".join(map(str, hashed_numbers(partitions).tolist()))
    number = F.get(F.split(F.lit(numbers), ","), F.col("target")).cast("int")
    return frame.repartition(partitions, number)


@lru_cache(16)
def hashed_numbers(partitions: int) -> npt.NDArray[np.int32]:
    """Return for each partition the least number that Spark's hash partitioning sends to it."""
    numbers = np.full(partitions, -1, np.int32)
    first, missing = 0, partitions
    while missing:
        candidates = np.arange(first, first + 4 * partitions, dtype=np.int32)
        targets, positions = np.unique(_spark_hash(candidates) % partitions, return_index=True)
        is_new = numbers[targets] < 0
        numbers[targets[is_new]] = candidates[positions[is_new]]
        first, missing = first + 4 * partitions, int(np.count_nonzero(numbers < 0))
    return numbers


def _spark_hash(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the hash by which Spark partitions rows: Murmur3 of 32-bit integers, seed 42."""
    mixed = values.view(np.uint32) * np.uint32(0xCC9E2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
    hashed = _rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(4)  # the number of bytes
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (hashed ^ (hashed >> np.uint32(16))).view(np.int32)


def _rotated(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def placeholders(session: SparkSession, partitions: int) -> DataFrame:
    """Return an empty packet for each partition, so that each has a task that knows its number."""
    columns = {
        "target": F.col("id").cast("int"),
        "content": F.lit(Content.EMPTY.value),
        "side": F.lit(None).cast("string"),
        "rows": F.lit(None).cast("binary"),
    }
    return session.range(0, partitions, 1, 1).select(*(column.alias(name) for name, column in columns.items()))


@dataclass(frozen=True)
class LastTasks:
    """The tasks that return rows of a result: the rows that they receive, and the stage that runs in each."""

    frame: DataFrame
    stage: OutputStage
    partitions: int | None = None  # the number of tasks; None if Spark decides

    def replayed(self, partition: int) -> Iterator[pa.Table]:
        """Run one task in this process, and yield its rows; its errors are raised."""
        # A filter would not do: Spark evaluates it before it divides the rows of a local table.
        received = collected(self.frame.mapInArrow(partial(_of_partition, partition), self.frame.schema))
        with join_context(threads=1, memory_bytes=self.stage.memory_bytes) as context:
            for batch in self.stage.written(received.to_batches(), context):
                yield pa.Table.from_batches([batch]).drop_columns(["error"])


def _of_partition(partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one task, and none of others."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is not None and task.partitionId() == partition:
        yield from batches


def finish(frame: DataFrame, stage: OutputStage, schema: st.StructType) -> DataFrame:
    """Return the rows of the last tasks under the names of the result; an error row becomes the query's error."""
    fields = [st.StructField(f"c{i}", field.dataType) for i, field in enumerate(schema.fields)]
    rows = frame.mapInArrow(stage, st.StructType([*fields, st.StructField("error", st.StringType())]))
    rows = rows.where(F.col("error").isNull() | F.raise_error(F.col("error")).cast("boolean"))
    return rows.drop("error").toDF(*schema.names)


def collected(frame: DataFrame) -> pa.Table:
    """Return a DataFrame's rows, all types nullable, since PySpark cannot convert null structs with required fields.

    Its names contain neither dots nor backticks.
    """
    types = [(field.name, field.dataType, nullable(field.dataType)) for field in frame.schema.fields]
    if any(promised != loose for _, promised, loose in types):
        frame = frame.select(*(F.col(name).cast(loose) for name, _, loose in types)).toDF(*frame.columns)
    return to_arrow(frame)


def result_schema(join: Resolved, left: SparkSide, right: SparkSide) -> st.StructType:
    """Return the schema of the result in Spark's types."""
    types = {"left": left.spark_schema, "right": right.spark_schema}
    fields = []
    for column in join.output:
        data_type = types[column.side][column.source].dataType
        # A right value may fill a left column, and contain nulls where left values do not.
        fields.append(st.StructField(column.name, nullable(data_type) if column.filled_from else data_type))
    aggregate_fields = spark_schema(pa.schema([(each.name, each.type) for each in join.aggregates])).fields
    for each, field in zip(join.aggregates, aggregate_fields, strict=True):
        data_type = field.dataType
        if each.column is not None and each.function in CHOSEN:
            data_type = types["right"][each.column].dataType
        elif each.column is not None and each.function == "list":
            data_type = st.ArrayType(nullable(types["right"][each.column].dataType))
        fields.append(st.StructField(each.name, data_type))
    return st.StructType(fields)


def task_output(schema: st.StructType) -> pa.Schema:
    """Return the output schema of the last tasks, whose columns are numbered."""
    wire = arrow_schema(schema, "left")
    return pa.schema([(f"c{i}", field.type) for i, field in enumerate(wire)])


def restore_types(
    frame: DataFrame, join: Resolved, left: SparkSide, right: SparkSide, more: Sequence[str] = ()
) -> DataFrame:
    """Return a result, and `more` columns, with the metadata and null types of the inputs, as Spark's own joins do."""
    inputs = {"left": left.spark_schema, "right": right.spark_schema}
    metadata = [inputs[column.side][column.source].metadata for column in join.output] + [{}] * len(join.aggregates)
    typed, user_schema = join.output_schema, join.user_schema(left.schema, right.schema)
    if typed == user_schema and not any(metadata):
        return frame
    columns = []
    for index, (one, other, about) in enumerate(zip(typed, user_schema, metadata, strict=True)):
        value = F.lit(None) if is_null_type(other.type) and not is_null_type(one.type) else F.col(f"c{index}")
        columns.append(value.alias(f"c{index}", metadata=about))
    columns += [F.col(f"c{index}") for index in range(len(columns), len(columns) + len(more))]
    return frame.toDF(*(f"c{index}" for index in range(len(columns)))).select(*columns).toDF(*typed.names, *more)


SENT_BYTES_MAX = 96 << 20
"""Most bytes sent with a task's code: a message of Spark Connect is limited to 128 MiB in total."""


def broadcast_side(side: SparkSide, columns: list[str], name: str) -> tuple[BroadcastTable, list[str]]:
    """Return a side as a broadcast table, and the jobs that ran."""
    if isinstance(side, FileSide):
        return FileTable(merged(side.units()), side.footers.file_schema, side.footers.num_rows, uuid4().hex), []
    frame, feed = side.rows(columns)
    chunks = list(feed.chunks(collected(frame).to_batches()))
    table = pa.concat_tables([feed.schema.empty_table(), *chunks])
    sent = send(table)
    if len(sent.cell) > SENT_BYTES_MAX:
        raise PlanError(
            f"The {name} side has {table.num_rows:,} rows in {len(sent.cell):,} bytes, but at most {SENT_BYTES_MAX:,} "
            "bytes can be sent with a task's code. Pass algorithm='auto', 'hash' or 'range'.",
            name="JN-BROADCAST-SIZE",
        )
    return sent, [f"collected the {name} side: {table.num_rows:,} rows, {len(sent.cell):,} bytes"]


@dataclass(frozen=True, kw_only=True)
class ShuffledJoin:
    """The stages of the tasks."""

    join: Resolved
    placements: tuple[Placement, Placement]
    cuts: Cuts
    memory_bytes: int
    joined: OutputStage | None = None  # returns final rows after the first shuffle; None if all must wait
    marked: PacketStage | None = None  # sends on the rows that wait; None if no rows wait
    resolved: OutputStage | None = None  # returns them after the second shuffle; None if no rows wait
    scatter_right: Callable[..., Scatter] = Scatter  # sends right rows

    def scatter(self, side: Side, feed: Feed) -> Scatter:
        """Return the stage that sends the rows of a side to their partitions."""
        keeps = self.join.how in (("left", "full", "anti") if side == "left" else ("right", "full"))
        make, by = (Scatter, self.join.left_by) if side == "left" else (self.scatter_right, self.join.right_by)
        placement = self.placements[SIDES.index(side)]
        return make(feed, side, by, placement, self.cuts, keeps, memory_bytes=self.memory_bytes)

    def tasks(self, left: SparkSide, right: SparkSide) -> list[LastTasks]:
        """Return the tasks of the result, given both inputs."""
        left_frame, left_feed = left.rows(left.schema.names, self.join.left_by)
        right_frame, right_feed = right.rows(needed_right(self.join).names, self.join.right_by)
        sent = packets(left_frame, self.scatter("left", left_feed)).union(
            packets(right_frame, self.scatter("right", right_feed))
        )
        count = self.cuts.partitions
        arrived = shuffled(sent, count)
        tasks = [] if self.joined is None else [LastTasks(arrived, self.joined, count)]
        if self.marked is not None and self.resolved is not None:
            tasks.append(LastTasks(shuffled(packets(arrived, self.marked), count), self.resolved, count))
        return tasks


def needed_right(join: Resolved) -> pa.Schema:
    """Return the right columns that tasks need."""
    needed = join.needed("right")
    return pa.schema([field for field in join.right_schema if field.name in needed])


def packet_schemas(join: Resolved) -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of both sides inside packets."""
    return encoded(join.left_schema, join.left_by), encoded(needed_right(join), join.right_by)
