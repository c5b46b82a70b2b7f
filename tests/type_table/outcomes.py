"""What becomes of each type in each role: it works, or is refused with one error by all ways to join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from type_table.column_types import ColumnType
from type_table.roles import ROLES

__all__ = ["Attempt", "Library", "Outcome", "WrongError", "outcomes"]


@dataclass(frozen=True)
class Outcome:
    """What becomes of a type in a role.

    Attributes
    ----------
    error
        The name of the error that refuses it; None where it works.
    message
        What that says.
    """

    error: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Attempt:
    """One join of one type in one role.

    Attributes
    ----------
    type_name, role
        What was tried.
    way
        By which join, and how that was run.
    outcome
        What became of it.
    problem
        How it failed with an error that is none of ours, or gave wrong rows; None where it did neither.
    """

    type_name: str
    role: str
    way: str
    outcome: Outcome
    problem: str | None = None


class Library(Protocol):
    """A library whose tables can be joined."""

    @property
    def name(self) -> str:
        """What the page calls it."""

    @property
    def types(self) -> Sequence[ColumnType]:
        """Its types."""

    def attempts(self) -> Iterable[Attempt]:
        """Try all types in all roles."""


class WrongError(AssertionError):
    """Some types in some roles neither work nor are refused."""


def outcomes(library: Library) -> Mapping[str, Sequence[Outcome]]:
    """Try all types in all roles. Returns what became of each, by the name of the type.

    Raises
    ------
    WrongError
        If a join gave wrong rows or failed with an error that is none of ours, or some ways alone refused it.
    """
    cells: dict[tuple[str, str], list[Attempt]]
    cells = {(each.name, role.name): [] for each in library.types for role in ROLES}
    for attempt in library.attempts():
        cells[attempt.type_name, attempt.role].append(attempt)
    problems = [f"{name} as {role}: {problem}" for (name, role), tried in cells.items() if (problem := _problem(tried))]
    if problems:
        raise WrongError("\n\n".join([f"{len(problems)} cells of {library.name} are wrong", *problems]))
    return {each.name: [cells[each.name, role.name][0].outcome for role in ROLES] for each in library.types}


def _problem(attempts: Sequence[Attempt]) -> str | None:
    """Say what is wrong with the attempts at a cell, or return None."""
    assert attempts
    for attempt in attempts:
        if attempt.problem is not None:
            return f"{attempt.way}: {attempt.problem}"
    if len({attempt.outcome.error for attempt in attempts}) > 1:
        ways = [f"  {each.way}: {each.outcome.message or 'works'}" for each in attempts]
        return "\n".join(["some ways refuse it, and others do not", *ways])
    return None
