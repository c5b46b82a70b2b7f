"""What has been decided about a join, as plain data: what runs, what else was weighed, what is expected, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from juncture.planner.statistics import Resources, Stats
from juncture.spec.resolved import Resolved

Engine = Literal["local", "spark"]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One algorithm, weighed.

    Attributes
    ----------
    algorithm, does
        Its name, and what it does.
    cost_s
        What it should take; None where that is not estimated.
    refusal
        Why it cannot serve, or None.
    remark
        Why its cost is not estimated, if it runs without being named.
    """

    algorithm: str
    does: str
    cost_s: float | None = None
    refusal: str | None = None
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure that is expected.

    Attributes
    ----------
    value
        The figure; None if it is not known.
    how
        Its source, or why there is none.
    """

    value: int | None
    how: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The algorithm that will run, why, and what else was weighed.

    Attributes
    ----------
    algorithm, reason
        What runs, and why it was taken.
    options
        What was weighed.
    rows
        How many rows the join should give.
    shuffle_bytes, task_bytes
        How many bytes it should shuffle, and how many a task should hold; None in-process.
    """

    algorithm: str
    reason: str
    options: tuple[Option, ...]
    rows: Estimate
    shuffle_bytes: Estimate | None
    task_bytes: Estimate | None

    @property
    def chosen(self) -> Option:
        """The algorithm that will run, among those that were weighed."""
        return next(option for option in self.options if option.algorithm == self.algorithm)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A choice, and what it was made on: what a `juncture.Plan` tells, whose attributes these are."""

    join: Resolved
    engine: Engine
    choice: Choice
    stats: Stats
    resources: Resources
    jobs: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()

    @property
    def algorithm(self) -> str:
        """The algorithm that will run."""
        return self.choice.algorithm
