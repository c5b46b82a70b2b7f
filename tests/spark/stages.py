"""Spark's part in a join, played without Spark: tasks run in turn, and packets are sorted by their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from unittest.mock import patch

import pyarrow as pa

from juncture import errors
from juncture.spark.exchange import ShuffledJoin, needed_right
from juncture.spark.tasks import scatter
from juncture.spark.tasks.feed import BatchFeed, Feed
from juncture.spark.tasks.packets import PACKET_SCHEMA
from juncture.spark.tasks.stage import Stage
from juncture.spec.resolved import Resolved

__all__ = ["arrived", "collect", "output_of", "run", "scattered"]


def output_of(join: Resolved) -> pa.Schema:
    return pa.schema([(f"c{i}", field.type) for i, field in enumerate(join.output_schema)])


def scattered(stage: Callable[[Feed], Stage], table: pa.Table, tasks: int) -> list[pa.RecordBatch]:
    """Return what some tasks make of a table, each of a slice, two rows in a batch and four in a chunk.

    If there are several tasks, the first of them sends its numbers narrowed, however few rows it has.
    """
    size = -(-table.num_rows // tasks)
    batches = []
    for task in range(tasks):
        part = table.slice(task * size, size).to_batches(max_chunksize=2)
        few = 0 if task == 0 < tasks - 1 else scatter._WORTH_NARROWING
        with patch.object(scatter, "_WORTH_NARROWING", few):
            batches += stage(BatchFeed(table.schema, chunk_rows=4))(part)
    return batches


def arrived(batches: Iterable[pa.RecordBatch], partitions: int) -> list[list[pa.RecordBatch]]:
    """Return what each partition gets."""
    table = pa.Table.from_batches(batches, PACKET_SCHEMA)
    targets = table["target"].to_numpy()
    assert set(targets.tolist()) <= set(range(partitions))
    return [table.filter(pa.array(targets == target)).to_batches() for target in range(partitions)]


def collect(batches: Iterable[pa.RecordBatch], join: Resolved) -> pa.Table:
    """Return the result of the last tasks, or raise the error that is among it."""
    schema = output_of(join).append(pa.field("error", pa.string()))
    table = pa.Table.from_batches(batches, schema)
    for message in table["error"].drop_null().to_pylist():
        kind, _, text = message.partition(": ")
        raise getattr(errors, kind.rpartition(".")[2])(text)
    return table.drop_columns(["error"]).rename_columns(join.output_schema.names)


def run(stages: ShuffledJoin, left: pa.Table, right: pa.Table, tasks: int) -> pa.Table:
    """Return the result of all stages of a shuffled join, each task in turn."""
    sent = scattered(partial(stages.scatter, "left"), left, tasks)
    sent += scattered(partial(stages.scatter, "right"), right.select(needed_right(stages.join).names), tasks)
    partitions = arrived(sent, stages.cuts.partitions)
    results = _each(stages.joined, partitions) if stages.joined is not None else []
    if stages.marked is not None:
        assert stages.resolved is not None
        results += _each(stages.resolved, arrived(_each(stages.marked, partitions), stages.cuts.partitions))
    return collect(results, stages.join)


def _each(stage: Stage, partitions: list[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    return [batch for partition in partitions for batch in stage(partition)]
