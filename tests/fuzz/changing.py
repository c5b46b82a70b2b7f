"""A table that changes from epoch to epoch: rows of a pool, each with how often it is added or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from fuzz.shrink import fewer
from fuzz.tables import Table

__all__ = ["ChangingTable", "Epoch", "fewer_epochs", "random_epochs", "smaller_tables"]

Epoch = tuple[tuple[int, int], ...]
"""Rows of the pool, each with a weight: how often it is added, or removed where the weight is negative."""


@dataclass(frozen=True)
class ChangingTable:
    """A table that changes.

    Attributes
    ----------
    pool
        The rows that the table may have.
    epochs
        What changes in each epoch.
    """

    pool: Table
    epochs: tuple[Epoch, ...]

    def changes(self, epoch: int) -> pa.Table:
        """Return the changes of an epoch as a change batch."""
        weights = pa.array([weight for _, weight in self.epochs[epoch]], pa.int64())
        return picked(self.pool, [row for row, _ in self.epochs[epoch]]).append_column("_weight", weights)

    def rows(self, epochs: Sequence[int]) -> list[int]:
        """Return the rows that there are after some epochs, each as often as it is there."""
        counts: Counter[int] = Counter()
        for epoch in epochs:
            for row, weight in self.epochs[epoch]:
                counts[row] += weight
        return sorted(counts.elements())

    def after(self, epochs: Sequence[int]) -> pa.Table:
        """Return the table after some epochs."""
        return picked(self.pool, self.rows(epochs))

    def keep(self, rows: list[int]) -> ChangingTable:
        """Return the table with some of its rows."""
        places = {row: place for place, row in enumerate(rows)}
        epochs = [tuple((places[row], weight) for row, weight in epoch if row in places) for epoch in self.epochs]
        return ChangingTable(self.pool.keep(rows), tuple(epochs))

    def merged(self, epoch: int) -> ChangingTable:
        """Return the table with an epoch and the next one in one."""
        sums: Counter[int] = Counter()
        for row, weight in (*self.epochs[epoch], *self.epochs[epoch + 1]):
            sums[row] += weight
        one = tuple((row, weight) for row, weight in sums.items() if weight)
        return replace(self, epochs=(*self.epochs[:epoch], one, *self.epochs[epoch + 2 :]))


def picked(pool: Table, rows: list[int]) -> pa.Table:
    return pool.keep(rows).arrow()


def random_epochs(chance: Random, rows: int, epochs: int, most: int) -> tuple[Epoch, ...]:
    """Return random changes, in which no row is removed more often than it is there."""
    there: list[int] = []
    found = []
    for _ in range(epochs):
        changes: list[tuple[int, int]] = []
        for _ in range(chance.randint(0, most) if rows else 0):
            if there and chance.random() < 0.4:
                changes.append((there.pop(chance.randrange(len(there))), -1))
                if chance.random() < 0.6:
                    continue
            row, copies = chance.randrange(rows), chance.choice([1, 1, 1, 1, 2, 3])
            there += [row] * copies
            changes.append((row, copies))
        chance.shuffle(changes)
        found.append(tuple(changes))
    return tuple(found)


Tables = dict[str, ChangingTable]


def fewer_epochs(tables: Tables) -> Iterator[Tables]:
    """Yield the tables with the last epoch left out, and with two epochs in one."""
    count = len(next(iter(tables.values())).epochs)
    if count > 1:
        yield {name: replace(table, epochs=table.epochs[:-1]) for name, table in tables.items()}
    for epoch in range(count - 1):
        yield {name: table.merged(epoch) for name, table in tables.items()}


def smaller_tables(tables: Tables) -> Iterator[Tables]:
    """Yield the tables with fewer epochs, rows and copies."""
    yield from fewer_epochs(tables)
    for name, table in tables.items():
        for rows in fewer(table.pool.num_rows):
            yield tables | {name: table.keep(rows)}
        if any(abs(weight) > 1 for epoch in table.epochs for _, weight in epoch):
            once = {row for epoch in table.epochs for row, weight in epoch if weight > 0}
            first = tuple((row, 1) for row in sorted(once))
            yield tables | {name: replace(table, epochs=(first, *[()] * (len(table.epochs) - 1)))}
