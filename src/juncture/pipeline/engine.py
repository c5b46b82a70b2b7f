"""What an engine does for a pipeline, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

from juncture.pipeline.model import InterpolateStep, ManyStep, SinkSection
from juncture.planner.decision import Engine as EngineName
from juncture.planner.report import Distances
from juncture.spec.kinds import Spec
from juncture.spec.many import Right
from juncture.spec.range import Range


class PhaseProgress(Protocol):
    """What shows how far a phase is."""

    def phase(self, name: str, done: int, total: int, /) -> object:
        """Show how much of a part of it is done, of how much."""
        ...


Watch = Callable[[str], AbstractContextManager[PhaseProgress]]
"""What shows that something is under way while a block runs."""


class _Unseen:
    def phase(self, _name: str, _done: int, _total: int, /) -> None:
        """Show nothing."""


def unwatched(_what: str) -> AbstractContextManager[PhaseProgress]:
    """Show nothing of what is under way."""
    return nullcontext(_Unseen())


@dataclass(frozen=True)
class MatchCounts:
    """What became of the left rows of a join.

    Attributes
    ----------
    left_rows, matched
        How many there are, and how many have a match.
    distances
        How far matches of an as-of join are; None if nothing matched, or it is another join.
    leaked
        How many matches were known too late, if that can be told.
    """

    left_rows: int
    matched: int
    distances: Distances | None = None
    leaked: int | None = None


class Engine(ABC):
    """An engine with the rows of a pipeline's sources and steps.

    Attributes
    ----------
    name
        Which engine it is.
    """

    name: EngineName

    @abstractmethod
    def make(self, name: str) -> None:
        """Make the rows of a source or a step, those that it reads being made."""

    @abstractmethod
    def rows_of(self, name: str) -> Any:
        """Return the rows of a source or a step, as a user gets them."""

    @abstractmethod
    def count(self, name: str, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return the number of rows, and for columns how many nulls they have."""

    @abstractmethod
    def repeated(self, name: str, columns: Sequence[str]) -> int:
        """Return how many values of a key occur more than once."""

    @abstractmethod
    def matches(self, name: str, table: str | None) -> MatchCounts:
        """Return what became of the left rows of a step."""

    @abstractmethod
    def plan(self, name: str) -> Any:
        """Return the plan of a step that joins, or None of another."""

    @abstractmethod
    def write(self, sink: SinkSection) -> int | None:
        """Write a sink, and return its rows if they were counted. It appears whole or not at all."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was held."""


def semi(spec: Spec) -> Spec:
    """Return a join that gives the left rows with a match of another, once each."""
    if isinstance(spec, Range) and spec.windows is not None:
        return replace(spec, how="inner", agg={"*": "count"})
    changes: dict[str, Any] = {"how": "semi"}
    if getattr(spec, "agg", None) is not None:
        changes["agg"] = None
    return replace(spec, **changes)


def rights(step: ManyStep, rows: Callable[[str], Any]) -> dict[str, Right]:
    """Return the tables of a step that joins several, with their rows."""
    return {name: replace(table.shown, table=rows(table.right)) for name, table in step.tables.items()}


def interpolated(step: InterpolateStep) -> dict[str, Any]:
    """Return the arguments of `juncture.interpolate`."""
    arguments = dict(step.arguments)
    if isinstance(arguments.get("tolerance"), list):
        arguments["tolerance"] = tuple(arguments["tolerance"])
    return arguments
