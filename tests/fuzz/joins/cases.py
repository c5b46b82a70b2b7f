"""One case: a join, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from fuzz.joins.draw import Join, random_join
from fuzz.joins.forms import FORMS
from juncture.planner import choose
from juncture.planner.decision import Engine
from support.kinds import SPECS, Spec

__all__ = ["Case", "random_case"]

MEMORIES = (1, 400, 2_000, 20_000, None)
ON_DISK = ("auto", "probe", "external_merge", "grace", "external_sort_merge")
"""The algorithms that a small budget does not rule out."""

# Half of all tables are passed as they are.
FORM_NAMES = [*FORMS, *["as_table"] * len(FORMS)]


@dataclass(frozen=True)
class Case:
    """A join and how it is run.

    Attributes
    ----------
    join
        The join.
    engine
        ``local`` or ``spark``.
    algorithm
        One of the engine's, or ``auto``.
    forms
        The ways in which the two tables are passed, by their names in `fuzz.forms`.
    memory
        How many bytes the join may hold; None for what it takes by itself.
    cores
        How many threads a join in small pieces has.
    is_small
        Whether the join is divided into pieces of a few rows.
    partitions
        In how many partitions both tables are, on Spark.
    said_rows
        What is said of the rows of both sides, wrongly; None for nothing.
    in_batches
        Whether the answer is read batch by batch.
    """

    join: Join
    engine: Engine = "local"
    algorithm: str = "auto"
    forms: tuple[str, str] = ("as_table", "as_table")
    memory: int | None = None
    cores: int = 1
    is_small: bool = False
    partitions: int = 1
    said_rows: int | None = None
    in_batches: bool = False

    def spec(self) -> Spec:
        return SPECS[self.join.kind](**self.join.arguments)


def random_case(seed: int, number: int, engine: Engine = "local") -> Case:
    """Return the case of a number, which is the same whenever the seed is."""
    chance = Random(f"{engine} {seed} {number}")
    join = random_join(chance, spark=engine == "spark")
    algorithm = chance.choice(["auto", *(each.name for each in choose.ALGORITHMS[SPECS[join.kind]][engine])])
    if engine == "spark":
        # How Arrow holds a table is nothing to Spark, which takes rows.
        join = replace(join, left=join.left.in_one_chunk(), right=join.right.in_one_chunk())
        forms = chance.choice([("as_table", "as_table")] * 3 + [("as_paths", "as_row_groups")])
        return Case(join, engine, algorithm, forms, partitions=chance.randint(1, 3))
    is_small = chance.random() < 0.3
    memory = chance.choice(MEMORIES) if is_small and algorithm in ON_DISK else None
    return Case(
        join,
        engine,
        algorithm,
        (chance.choice(FORM_NAMES), chance.choice(FORM_NAMES)),
        memory=memory,
        cores=chance.choice([1, 1, 1, 2, 3]),
        is_small=is_small,
        said_rows=chance.choice([0, 1, 10**9]) if chance.random() < 0.05 else None,
        in_batches=chance.random() < 0.4,
    )
