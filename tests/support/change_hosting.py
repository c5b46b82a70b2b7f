"""A hosted join of changes without Spark: its tasks run one after the other, with dictionaries for the state store."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import juncture as jn
from juncture.hosting.change_processor import ChangeProcessor
from juncture.hosting.change_scatter import ChangesToBuckets
from juncture.incremental.join import ChangeSetup
from juncture.matching.output import held_schema, streaming_join
from juncture.planner.statistics import Resources
from juncture.spark.tasks.feed import BatchFeed
from support.changing import Changing
from support.hosting import Handle, Host

__all__ = ["ChangesHost", "ChangingInTasks"]

LIMITS = Resources(cores=1, memory_bytes=1 << 26)


class ChangesHost(Host):
    """Runs the tasks of a hosted join of changes, as a join that takes epochs.

    Parameters
    ----------
    setup
        What it is made of.
    buckets
        How many there are.
    chance
        Decides how rows are cut into tasks, and in which order packets come.
    """

    def __init__(self, setup: ChangeSetup, buckets: int, chance: random.Random) -> None:
        self.setup, self.buckets, self.chance = setup, buckets, chance
        self.states: dict[int, Handle] = {}
        self.metrics: list[dict[str, int]] = []
        self.epoch = 0
        self.offset: int | None = None
        self.schema = jn.changes(setup.left_schema, setup.right_schema, setup.spec).schema

    def apply(self, *, left: pa.Table, right: pa.Table, offset: int | None = None) -> list[pa.RecordBatch]:
        """Take a micro-batch, or nothing of it."""
        before = copy.deepcopy(self.states)
        try:
            given = list(self.step(left=left, right=right))
        except BaseException:
            self.states = before
            raise
        self.epoch, self.offset = self.epoch + 1, offset
        return [batch for table in given for batch in table.to_batches()]

    populate = apply

    def _scattered(self, side: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        join = streaming_join(self.setup.spec.resolve(self.setup.left_schema, self.setup.right_schema))
        names = held_schema(join, side).names
        schema = pa.schema([self.setup.schema(side).field(name) for name in names])
        sent = rows.select([*names, *(name for name in rows.column_names if name in ("_weight", "_change_type"))])
        cut = self.chance.randint(0, rows.num_rows)
        for part in (sent.slice(0, cut), sent.slice(cut)):
            feed = BatchFeed(sent.schema, chunk_rows=self.chance.choice([1, 3, 1000]))
            task = ChangesToBuckets(feed, schema, side, join, self.buckets, memory_bytes=1 << 26)
            yield from pickle.loads(pickle.dumps(task))(part.to_batches())

    def _processor(self, target: int) -> Any:
        processor = pickle.loads(pickle.dumps(ChangeProcessor(self.setup, self.buckets, LIMITS)))
        processor.init(self.states.setdefault(target, Handle()))
        return processor


@dataclass
class ChangingInTasks(Changing):
    """A join of two tables that change, whose epochs are micro-batches."""

    def opened(self) -> ChangesHost:
        setup = ChangeSetup(self.spec, self.left.schema, self.right.schema)
        return ChangesHost(setup, self.chance.choice([1, 3]), self.chance)
