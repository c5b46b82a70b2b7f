"""The interface of an engine that runs pipelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from juncture.pipeline.graph import needed_in_order
from juncture.pipeline.model import File, JoinStep, ManyStep, SinkSection
from juncture.planner.report import Distances
from juncture.spec.kinds import Spec
from juncture.spec.many import Right

Mode = Literal["batch", "stream", "changes"]
"""How a pipeline runs: once, as a stream, or by the changes of its sources."""


class PhaseProgress(Protocol):
    """Displays the progress of a phase."""

    def phase(self, name: str, done: int, total: int, /) -> object:
        """Display the completed and total work of a part of the phase."""
        ...


Watch = Callable[[str], AbstractContextManager[PhaseProgress]]
"""Displays the progress of a block by its description."""


class _Unseen:
    def phase(self, _name: str, _done: int, _total: int, /) -> None:
        """Display nothing."""


def unwatched(_what: str) -> AbstractContextManager[PhaseProgress]:
    """Display no progress."""
    return nullcontext(_Unseen())


@dataclass(frozen=True)
class MatchCounts:
    """Match counts of a join."""

    left_rows: int
    matched: int
    distances: Distances | None = None  # of as-of matches
    leaked: int | None = None  # matches that became available too late, if counted


class Engine(ABC):
    """An engine with the rows of a pipeline's sources and steps."""

    def __init__(self, file: File, schemas: Any, watch: Watch, source_columns: Mapping[str, Sequence[str]]) -> None:
        self._file = file
        self._schemas = schemas
        self._watch = watch
        # The needed columns; other sources are read completely.
        self._source_columns = source_columns
        self._computed: set[str] = set()

    def computed(self, name: str) -> Any:
        """Return the rows of a source or step, which is computed with its inputs at the first call."""
        for each in needed_in_order(self._file, [name]):
            if each not in self._computed:
                self.make(each)
                self._computed.add(each)
        return self.rows_of(name)

    @abstractmethod
    def make(self, name: str) -> None:
        """Compute a source or step whose inputs are computed."""

    @abstractmethod
    def rows_of(self, name: str) -> Any:
        """Return the rows of a source or step in the type that users get."""

    @abstractmethod
    def count(self, name: str, columns: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return the number of rows, and the number of nulls in columns."""

    @abstractmethod
    def repeated(self, name: str, columns: Sequence[str]) -> int:
        """Return the number of key values that occur more than once."""

    def matches(self, name: str, table: str | None) -> MatchCounts:
        """Return the match counts of a step."""
        step = self._file.steps[name]
        if isinstance(step, ManyStep):
            counts = self.plan(name).match_report()[table or ""]
            return MatchCounts(counts.left_rows, counts.matched, counts.distances, counts.leaked)
        assert isinstance(step, JoinStep)
        if step.spec.ranks_matches:
            report = self.plan(name).match_report()
            return MatchCounts(report.left_rows, report.matched, report.distances)
        return self._semi_matches(step)

    @abstractmethod
    def _semi_matches(self, step: JoinStep) -> MatchCounts:
        """Return the numbers of left rows and of those with a match."""

    @abstractmethod
    def plan(self, name: str) -> Any:
        """Return the plan of a join step, or None for another step."""

    @abstractmethod
    def write(self, sink: SinkSection) -> int | None:
        """Write a sink completely or not at all, and return its number of rows if counted."""

    @abstractmethod
    def close(self) -> None:
        """Release the rows."""


def semi(spec: Spec) -> Spec:
    """Return a join that returns each left row with a match once."""
    changes: dict[str, Any] = {"how": "semi"}
    if spec.windows is not None:
        changes = {"how": "inner", "agg": {"*": "count"}}
    elif spec.agg is not None:
        changes["agg"] = None
    return replace(spec, **changes)


def rights(step: ManyStep, rows: Callable[[str], Any]) -> dict[str, Right]:
    """Return the tables of a step that joins several, with their rows."""
    return {name: replace(table.definition, table=rows(table.right)) for name, table in step.tables.items()}
