"""A hosted join of changes without Spark: its tasks run one after the other, with dictionaries for the state store."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass

import pyarrow as pa

import juncture as jn
from juncture.hosting.changes import HostedChanges
from juncture.hosting.stored_rows import ValueSizes
from juncture.incremental.join import ChangeSetup
from juncture.planner.statistics import Resources
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

    def __init__(
        self, setup: ChangeSetup, buckets: int, chance: random.Random, sizes: ValueSizes | None = None
    ) -> None:
        self.setup, self.buckets, self.chance, self.sizes, self.local = setup, buckets, chance, sizes, None
        self.hosted = HostedChanges(setup, LIMITS)
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


@dataclass
class ChangingInTasks(Changing):
    """A join of two tables that change, whose epochs are micro-batches."""

    sizes: ValueSizes | None = None

    def opened(self) -> ChangesHost:
        setup = ChangeSetup(self.spec, self.left.schema, self.right.schema)
        return ChangesHost(setup, self.chance.choice([1, 3]), self.chance, self.sizes)
