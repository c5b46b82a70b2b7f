"""Trials of the types of a library whose tables are joined in-process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import juncture as jn
from juncture.errors import JunctureError
from juncture.inputs.tables import read_table
from support.kinds import Spec, kind_of
from type_table.column_types import ColumnType, Types, sharing
from type_table.outcomes import Attempt, Outcome
from type_table.roles import ROLES, SAMPLE, Columns, Join, Role, Trial

__all__ = ["InProcess"]

TOGETHER = 16
"""How many types share a join: what it has to give takes time in proportion to the square of them."""


@dataclass(frozen=True)
class InProcess:
    """A library. Types share the joins that they can, which takes less time than a join for each.

    Attributes
    ----------
    name
        What the page calls it.
    types
        Its types.
    numbers
        The type of the columns that are not tried.
    table
        Makes a table of columns.
    difference
        Says how a table differs from what it should be, by values and types, or returns None.
    algorithms
        What runs the joins, by their kind: those that do not treat values alike, if they are to be told apart here.
    """

    name: str
    types: Sequence[ColumnType]
    numbers: ColumnType
    table: Callable[[Mapping[str, Any]], Any]
    difference: Callable[[Any, Any], str | None]
    algorithms: Mapping[str, Sequence[str]] | None = None

    def attempts(self) -> Iterator[Attempt]:
        """Try all types in all roles."""
        schemas = {each.name: self._schema(each) for each in self.types}
        for role in ROLES:
            for trial, algorithm in self._ways(role):
                spec = trial.join().spec
                able = [each for each in self.types if _resolves(spec, schemas[each.name])]
                groups = [*sharing(trial, able, TOGETHER), *([each] for each in self.types if each not in able)]
                for group in groups:
                    for each, outcome, problem in self._tried(trial, group, algorithm):
                        yield Attempt(each.name, role.name, f"{spec} by {algorithm}", outcome, problem)

    def _ways(self, role: Role) -> Iterator[tuple[Trial, str]]:
        """Yield the joins that try a role, and what runs them."""
        for trial in role.trials:
            kind = kind_of(trial.join().spec)
            yield from ((trial, algorithm) for algorithm in (self.algorithms[kind] if self.algorithms else ["auto"]))
        if self.algorithms:
            yield from ((trial, "auto") for trial in role.more)

    def _schema(self, column_type: ColumnType) -> pa.Schema | None:
        """Return the schema of a table that has a type; None if no join takes it."""
        types = Types.numbered([column_type], self.numbers)
        try:
            return read_table(self._table(types, types.fitted_columns(SAMPLE)), "left").schema
        except JunctureError:
            return None

    def _tried(
        self, trial: Trial, group: Sequence[ColumnType], algorithm: str
    ) -> Iterator[tuple[ColumnType, Outcome, str | None]]:
        """Join columns of some types. Yields each, what became of it, and what is wrong with that."""
        types = Types.numbered(group, self.numbers)
        join = types.fitted(trial.join(list(types.tried)))
        outcome, problem = Outcome(), None
        try:
            left, right = (self._table(types, side) for side in (join.left, join.right))
            plan = jn.plan(left, right, join.spec, algorithm=algorithm)
        except JunctureError as error:
            outcome = Outcome(type(error).__name__, str(error))
        except Exception as error:
            problem = repr(error)
        else:
            problem = self._problem(plan, types, join)
        if len(group) > 1 and (outcome.error or problem):
            for each in group:
                yield from self._tried(trial, [each], algorithm)
        else:
            yield from ((each, outcome, problem) for each in group)

    def _problem(self, plan: jn.Plan, types: Types, join: Join) -> str | None:
        """Run a join. Returns what is wrong with its answer, or None."""
        try:
            return self.difference(plan.execute(), self._table(types, join.answer()))
        except Exception as error:
            return repr(error)

    def _table(self, types: Types, columns: Columns) -> Any:
        return self.table(types.columns(columns))


def _resolves(spec: Spec, schema: pa.Schema | None) -> bool:
    """Tell whether a join of two tables of a schema means something."""
    try:
        return schema is not None and spec.resolve(schema, schema) is not None
    except JunctureError:
        return False
