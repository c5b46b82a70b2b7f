"""Two tables that change in random epochs, and what has to become of the answer."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import rocksdict

import juncture as jn
from juncture.errors import DataError
from juncture.incremental.state.policy import MemoryPolicy
from support.kinds import Spec, defined_rows
from support.state import changes_in
from support.tables import canonical_rows, shown_type

__all__ = ["Changing", "check", "signed_rows"]

SIDES = ("left", "right")


@dataclass
class Changing:
    """A join of two tables of which random rows come, go, and are replaced.

    Attributes
    ----------
    spec, left, right
        The join, and the rows that may be in its tables, each as often as it comes.
    chance
        Decides on what changes.
    folder
        Where the state is, which is closed and opened again now and then; None for state in memory.
    policy
        The memory policy of a state in a folder, if it is not the usual one.
    """

    spec: Spec
    left: pa.Table
    right: pa.Table
    chance: random.Random
    epochs: int = 8
    most: int = 6
    folder: Path | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    policy: MemoryPolicy | None = None

    def __post_init__(self) -> None:
        self.there: dict[str, list[int]] = {side: [] for side in SIDES}
        self.answer: Counter[tuple[Any, ...]] = Counter()
        self.join = self.opened()

    def opened(self) -> jn.ChangeJoin:
        if self.policy is not None and self.folder is not None:
            schemas = self.left.schema, self.right.schema
            return changes_in(*schemas, self.spec, state=self.folder, policy=self.policy, **self.arguments)
        arguments = self.arguments | {"state": self.folder}
        return jn.changes(self.left.schema, self.right.schema, self.spec, **arguments)

    def reopen(self) -> None:
        """Close the join and open it again, or go on with a copy of its folder, as if the process had been killed."""
        assert self.folder is not None
        if self.chance.random() < 0.5:
            copy = self.folder.with_name(f"{self.folder.name}+")
            # A plain copy would lack files that are compacted meanwhile.
            rocksdict.Checkpoint(self.join._runtime.store._database).create_checkpoint(str(copy))
            shutil.copy(self.folder / "epoch", copy)
            self.folder = copy
        epoch, offset = self.join.epoch, self.join.offset
        self.join.close()
        self.join = self.opened()
        assert (self.join.epoch, self.join.offset) == (epoch, offset)

    def pool(self, side: str) -> pa.Table:
        return self.left if side == "left" else self.right

    def now(self, side: str) -> pa.Table:
        """Return the table of a side as it is."""
        return picked(self.pool(side), self.there[side])

    def changed(self, side: str) -> tuple[pa.Table, list[int]]:
        """Return random changes of a side, and the rows that there are then."""
        rows = self.pool(side).num_rows
        kept = list(self.there[side])
        weights: list[tuple[int, int]] = []
        for _ in range(self.chance.randint(0, self.most) if rows else 0):
            goes = bool(kept) and self.chance.random() < 0.45
            if goes:
                weights.append((kept.pop(self.chance.randrange(len(kept))), -1))
            if not goes or self.chance.random() < 0.3:
                row, copies = self.chance.randrange(rows), self.chance.choice([1, 1, 1, 2, 3])
                kept += [row] * copies
                weights.append((row, copies))
        self.chance.shuffle(weights)
        table = picked(self.pool(side), [row for row, _ in weights])
        return table.append_column("_weight", pa.array([each for _, each in weights], pa.int64())), kept

    def step(self) -> None:
        """Change both sides in one epoch, or refuse to, and hold the answer to the join of the tables as they are."""
        changes, kept = {}, {}
        for side in SIDES:
            changes[side], kept[side] = self.changed(side)
        before, self.there = self.there, kept
        try:
            wanted = defined_rows(self.spec, self.now("left"), self.now("right"))
        except DataError:
            self.there = before
            refused = False
            try:
                self.take(changes)
            except DataError:
                refused = True
            assert refused
            return
        self.take(changes)
        expected = Counter(canonical_rows(wanted))
        assert self.answer == expected, f"missing {expected - self.answer}, surplus {self.answer - expected}"
        types = [(each.name, shown_type(each.type)) for each in self.join.schema][:-1]
        assert types == [(each.name, shown_type(each.type)) for each in wanted.schema]

    def take(self, changes: dict[str, pa.Table]) -> None:
        first = self.join.epoch == 0 and self.chance.random() < 0.5
        given = (self.join.populate if first else self.join.apply)(**changes, offset=self.join.epoch + 1)
        assert self.join.offset == self.join.epoch
        if first:
            given = summed(given, self.join.schema)
        if self.folder is not None:
            if self.chance.random() < 0.3:
                self.reopen()
            assert first or signed_rows(self.join.last(), self.join.schema) == signed_rows(given, self.join.schema)
        for row, weight in signed_rows(given, self.join.schema).items():
            self.answer[row] += weight
            assert self.answer[row] >= 0
            if not self.answer[row]:
                del self.answer[row]

    def steps(self) -> Iterator[int]:
        for number in range(self.epochs):
            self.step()
            yield number


def picked(table: pa.Table, rows: list[int]) -> pa.Table:
    """Return some rows, one by one, since Arrow cannot take rows of all types."""
    return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in rows)])


def summed(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the rows that come at first, each once: they are as many as there are, and none goes."""
    found: Counter[tuple[Any, ...]] = Counter()
    slices: dict[tuple[Any, ...], pa.Table] = {}
    table = pa.Table.from_batches(batches, schema)
    for place, (*row, weight) in enumerate(canonical_rows(table)):
        assert weight > 0
        found[tuple(row)] += weight
        slices[tuple(row)] = table.slice(place, 1)
    column = len(schema) - 1
    counted = [
        rows.set_column(column, schema.field(column), pa.array([found[row]], pa.int64()))
        for row, rows in slices.items()
    ]
    return [batch for rows in counted for batch in rows.to_batches()]


def signed_rows(batches: list[pa.RecordBatch], schema: pa.Schema) -> Counter[tuple[Any, ...]]:
    """Return the rows of changes with their weights; each is there once, and none with a weight of zero."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in canonical_rows(pa.Table.from_batches(batches, schema)):
        assert weight != 0
        assert tuple(row) not in found
        found[tuple(row)] = weight
    return found


def check(changing: Changing) -> None:
    """Hold a join of changing tables to the join of the tables as they are, after every epoch."""
    for _ in changing.steps():
        pass
    result = changing.join.result()
    assert Counter(canonical_rows(result)) == changing.answer
    changing.join.close()
