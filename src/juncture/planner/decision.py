"""The planner's decision about a join, as plain data: the algorithm, the alternatives and the expected figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from juncture.planner.statistics import Resources, Stats
from juncture.spec.resolved import Resolved

Engine = Literal["local", "spark"]

PLACES: Mapping[Engine, str] = {"local": "in-process", "spark": "on Spark"}
"""Where an engine runs, in words."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One algorithm that the planner considered."""

    algorithm: str
    summary: str
    cost_s: float | None = None  # estimated seconds; None if not estimated
    excluded: str | None = None  # why the algorithm cannot run this join; None if it can
    remark: str = ""  # why its cost is not estimated, if ``auto`` may still choose it


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An expected figure."""

    value: int | None  # the figure; None if unknown
    source: str  # where the figure comes from, or why it is unknown


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The algorithm that will run, the reason, and the alternatives."""

    algorithm: str
    reason: str
    options: tuple[Option, ...]
    output_rows: Estimate  # the expected number of output rows
    shuffle_bytes: Estimate | None  # expected bytes of the shuffle, and of memory in a task
    task_bytes: Estimate | None  # none in-process

    @property
    def chosen(self) -> Option:
        """The algorithm that will run, with its cost."""
        return next(option for option in self.options if option.algorithm == self.algorithm)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A choice and the facts it is based on: the common attributes of all plans."""

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
