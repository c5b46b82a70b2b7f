"""One case of changes: a join, the rows that its tables may have, and how they change from epoch to epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from fuzz.changing import ChangingTable, Epoch, random_epochs, smaller_tables
from fuzz.joins.draw import Join, random_join
from fuzz.joins.smaller import smaller_joins
from juncture.planner.decision import Engine
from support.kinds import SPECS, Spec

__all__ = ["SIDES", "ChangeCase", "draw", "smaller"]

SIDES = ("left", "right")


@dataclass(frozen=True)
class ChangeCase:
    """A case.

    Attributes
    ----------
    join
        The join, with the rows that its tables may have.
    left, right
        What changes in each epoch.
    reopened
        After which epochs the join is closed and opened again; None where its state is in memory alone.
    populates
        Whether the first epoch is a population.
    is_small
        Whether rows on disk are in blocks of a few, and none stay in memory.
    """

    join: Join
    left: tuple[Epoch, ...]
    right: tuple[Epoch, ...]
    reopened: tuple[int, ...] | None = None
    populates: bool = False
    is_small: bool = False

    def spec(self) -> Spec:
        return SPECS[self.join.kind](**self.join.arguments)

    def tables(self) -> dict[str, ChangingTable]:
        return {side: ChangingTable(getattr(self.join, side), getattr(self, side)) for side in SIDES}

    def with_tables(self, tables: dict[str, ChangingTable]) -> ChangeCase:
        """Return the case with other tables."""
        join = replace(self.join, **{side: tables[side].pool for side in SIDES})
        return replace(self, join=join, **{side: tables[side].epochs for side in SIDES})


def changing_join(join: Join) -> Join:
    """Return a join without ties that the order of a table decides."""
    arguments = dict(join.arguments)
    if arguments.get("ties") in ("first", "last"):
        arguments["ties"] = "greatest"
    return replace(join, arguments=arguments)


def draw(seed: int, number: int, engine: Engine = "local") -> ChangeCase:
    """Return the case of a number, which is the same whenever the seed is."""
    chance = Random(f"changes {seed} {number}")
    join = changing_join(random_join(chance))
    epochs, most = chance.randint(1, 6), chance.choice([2, 6, 15])
    changes = [random_epochs(chance, table.num_rows, epochs, most) for table in (join.left, join.right)]
    is_on_disk = chance.random() < 0.4
    reopened = tuple(epoch for epoch in range(epochs) if chance.random() < 0.3) if is_on_disk else None
    return ChangeCase(join, *changes, reopened, chance.random() < 0.4, is_on_disk and chance.random() < 0.6)


def smaller(case: ChangeCase) -> Iterator[ChangeCase]:
    """Yield cases that are a little smaller."""
    plain = {"reopened": None, "populates": False, "is_small": False}
    for name, value in plain.items():
        if getattr(case, name) != value:
            yield replace(case, **{name: value})
    for epoch in case.reopened or ():
        yield replace(case, reopened=tuple(each for each in case.reopened or () if each != epoch))
    yield from (case.with_tables(tables) for tables in smaller_tables(case.tables()))
    yield from (replace(case, join=join) for join in smaller_joins(case.join, with_all_rows=True))
